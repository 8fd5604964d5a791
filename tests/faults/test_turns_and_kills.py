"""Two trainings take turns on one fake GPU while their manager and their supervisors are killed.

Real managers, supervisors and trainings. A step is a line in the file of its training, with its instant.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from tiresias.api.client import ApiError, Client
from tiresias.api.home import ABOUT
from tiresias.core.model import JobId, Phase
from tiresias.executors import run_files
from tiresias.executors.spawn_supervisor import PACKAGES
from tiresias.store import Store, redecide, replay
from tiresias.testing.executors import until
from tiresias.testing.kill import training
from tiresias.testing.kill.campaign import processes_at
from tiresias.testing.kill.proc import holders

SLICE_S = 0.4
STEPS, STEP_S = 400, 0.01
PATIENCE_S = 120.0
OPTIONS = {
    "fake_gpus": 1,
    "policy": "gandiva",
    "set": {"packing": "off", "slice_s": SLICE_S, "settle_s": 0.1},
    "settings": {"backoff_s": 0.05, "most_backoff_s": 0.2, "quick_s": 0.01, "most_lost_runs": 1e6},
}


class House:
    """A home with one fake GPU, a manager that can be killed, and two trainings."""

    def __init__(self, home: Path):
        self.home = home
        home.mkdir()
        (home / "options.json").write_text(json.dumps(OPTIONS))
        self._manager: subprocess.Popen[bytes] | None = None
        self.ids: list[int] = []

    def start(self) -> None:
        command = [sys.executable, "-m", "tiresias.api.serve", "--home", str(self.home)]
        self._manager = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.until(self._answers, "the manager answers")

    def _answers(self) -> bool:
        assert self._manager is not None
        try:
            about = json.loads((self.home / ABOUT).read_text())
            return bool(about["pid"] == self._manager.pid) and bool(Client(self.home).jobs() is not None)
        except (FileNotFoundError, ValueError, ApiError, OSError):
            return False

    def end(self, number: int) -> int:
        """Send the manager a signal; its exit code."""
        assert self._manager is not None
        self._manager.send_signal(number)
        code = self._manager.wait(PATIENCE_S)
        self._manager = None
        return code

    def until(self, holds: Callable[[], object], what: str) -> None:
        end = monotonic() + PATIENCE_S
        while not holds():
            assert monotonic() < end, (what, self.states(), [len(self.instants(id)) for id in self.ids])
            sleep(0.01)

    def submit(self) -> None:
        command = [sys.executable, "-S", training.__file__, str(STEPS), str(STEP_S), "patient"]
        job = {"command": command, "cwd": "/", "env": {"PYTHONPATH": PACKAGES, "PATH": "/usr/bin:/bin"}}
        with Client(self.home) as client:
            self.ids = client.submit([job | {"gpus": 1, "name": name} for name in ("one", "two")])

    def instants(self, id: int) -> list[float]:
        file = self.home / "jobs" / str(id) / "checkpoint" / training.STEPS
        lines = file.read_text().splitlines() if file.exists() else []
        assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1)), "steps in order"
        return [float(line.split()[2]) for line in lines]

    def states(self) -> dict[int, set[str]]:
        """The states of the living processes of each job; T: stopped."""
        found: dict[int, set[str]] = {}
        for holder in holders(self.home):
            try:
                state = Path(f"/proc/{holder.pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            found.setdefault(int(holder.job_id), set()).add(state)
        return found

    def stopped(self) -> list[int]:
        """The jobs all of whose processes are stopped."""
        return [id for id, states in self.states().items() if states == {"T"}]

    def supervisor_of(self, id: int) -> int:
        """The supervisor of the run that the job has now."""
        runs = sorted((self.home / "jobs" / str(id) / "runs").iterdir(), key=lambda each: int(each.name))
        claim = run_files.read(str(runs[-1]), run_files.CLAIM)
        return int(claim["pid"]) if claim else 0

    def kill_the_supervisor_of_a_stopped_run(self) -> int:
        """Which job it was; the supervisor is killed while the run is stopped."""
        while True:
            self.until(self.stopped, "a run waits for its turn")
            for id in self.stopped():
                pid = self.supervisor_of(id)
                if pid and id in self.stopped():
                    os.kill(pid, signal.SIGKILL)
                    return id


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "home")
    with _nobody_left(house):
        yield house


@contextmanager
def _nobody_left(house: House) -> Iterator[None]:
    try:
        yield
    finally:
        if house._manager is not None:
            house.end(signal.SIGKILL)
        for pid in processes_at(house.home):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not processes_at(house.home), "nothing of the home is left")


def test_two_trainings_share_a_gpu_in_turns_whoever_is_killed(house: House) -> None:
    house.start()
    house.submit()
    for id in house.ids:
        house.until(lambda id=id: id in house.stopped(), "each of them waits for its turn at times")

    house.end(signal.SIGKILL)
    for id in house.ids:
        house.until(lambda id=id: id in house.stopped(), "turns go on without a manager")
        house.until(lambda id=id: id not in house.stopped(), "and each gets its turn")

    house.start()
    lost = house.kill_the_supervisor_of_a_stopped_run()
    house.until(lambda: lost not in house.states(), "what it left behind is ended")
    house.until(lambda: lost in house.stopped(), "its job runs again, and takes turns")

    lost = house.kill_the_supervisor_of_a_stopped_run()
    house.end(signal.SIGKILL)
    house.until(lambda: lost not in house.stopped(), "nobody is left stopped, though there is no manager")

    house.start()
    for id in house.ids:
        (house.home / "jobs" / str(id) / "checkpoint" / training.GO).touch()
    with Client(house.home) as client:
        house.until(lambda: not list(client.jobs()), "both finish")
    house.until(lambda: not house.states(), "no process of a run is left")
    assert house.end(signal.SIGTERM) == 0

    first, second = (house.instants(id) for id in house.ids)
    assert len(first) == len(second) == STEPS
    slices = {int(at // SLICE_S) for at in first + second}
    assert len(slices) >= 10, f"they shared the GPU for {len(slices)} slices only"
    with Store.open(house.home / "journal.db") as store:
        assert not store.open_runs()
        ended = [store.job(JobId(id)) for id in house.ids]
        assert [record.phase for record in ended if record] == [Phase.SUCCEEDED, Phase.SUCCEEDED]
        assert redecide(replay(store)) is None
