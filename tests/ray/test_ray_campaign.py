"""Many trainings on four nodes, preempted again and again, then disturbed: nothing is lost or doubled.

What is judged is what the processes themselves wrote about their slots, by their own environment, what
`/proc` shows of their environments, and what they have saved. Each worker holds a lock per slot, which the
kernel releases when the worker dies (uses.py).

The number of trainings is TIRESIAS_RAY_TRAININGS (12 where it is not set; 40 in `make soak-ray`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from time import monotonic

import pytest
from training_digest import digest_of
from training_lab import TRAINING, TrainingLab

from tiresias.executors import procfs
from tiresias.testing.executors import until
from tiresias.testing.ray_bed import Box

TRAININGS = int(os.environ.get("TIRESIAS_RAY_TRAININGS", "12"))
SEED = int(os.environ.get("TIRESIAS_RAY_SEED", "1"))
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
# What arrives later preempts what has begun: long ones of low priority, then short ones of higher priority.
ORDER = (("low", 200), ("low", 200), ("normal", 100), ("high", 40))
# In the large campaign the long ones last longer, so that others come in time, however slowly they are
# submitted.
LONGER = 1 if TRAININGS <= 12 else 4
DDP = TRAINING.with_name("training_ddp.py")
TORCHRUN = (
    "exec torchrun --nnodes=$TIRESIAS_NUM_NODES --node-rank=$TIRESIAS_NODE_RANK"
    " --nproc-per-node=$TIRESIAS_GPUS_PER_NODE --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT"
)
DDP_EVERY = 6  # every so many trainings, one by torchrun and one of plain workers
LONGEST_S = 2400.0
MANAGER_EVERY_S, RAYLET_EVERY_S, CUT_S = 5.0, 20.0, 10.0
LEASE_S, GRACE_S = 8.0, 5.0
MANAGER_LIVES_S = 2.5  # at least, after a start that took long
LOOK_S = 1.0


class Campaign:
    """Trainings of all sizes on one lab; `steps` are those that each must make."""

    def __init__(self, lab: TrainingLab, rng: Random):
        self.lab, self.rng = lab, rng
        self.steps: dict[int, int] = {}
        self.gpus: dict[int, int] = {}

    def submit(self, number: int, step_s: float, longer: int) -> None:
        priority, most = ORDER[number % len(ORDER)]
        steps = self.rng.randrange(most // 2, most) * (longer if priority == "low" else 1)
        gpus = self.rng.choice(SIZES)
        nodes = -(-gpus // 4)
        workers = self.rng.choice((1, gpus)) if nodes == 1 else nodes
        self.keep(
            gpus,
            steps,
            *("-g", str(gpus), "--workers", str(workers), "--grace", f"{GRACE_S:g}s", "--priority", priority),
            *("--name", f"t{number}", "--", sys.executable, str(TRAINING)),
            step_s=step_s,
        )

    def submit_ddp(self, number: int, *, by_torchrun: bool) -> None:
        """Over two nodes with two GPUs each: a process per GPU by torchrun, or one per node."""
        where = ["--nodes", "2", "--gpus-per-node", "2", "--grace", "20s", "--priority", "low"]
        if by_torchrun:
            command = ["sh", "-c", f'{TORCHRUN} "$@"', "sh", str(DDP)]
        else:
            command = [sys.executable, str(DDP)]
        name = f"{'torchrun' if by_torchrun else 'ddp'}{number}"
        self.keep(4, 60, *where, "--name", name, "--", *command, step_s=0.05)

    def keep(self, gpus: int, steps: int, *words: str, step_s: float) -> None:
        id = self.lab.submit("--retries", "30", *words, str(steps), str(step_s), str(self.lab.uses))
        self.steps[id], self.gpus[id] = steps, gpus

    def submit_all(self, count: int, step_s: float, *, with_ddp: bool, longer: int = 1) -> None:
        for number in range(count):
            if with_ddp and number % DDP_EVERY == 0:
                self.submit_ddp(number, by_torchrun=True)
            elif with_ddp and number % DDP_EVERY == 1:
                self.submit_ddp(number, by_torchrun=False)
            else:
                self.submit(number, step_s, longer)

    def all_ended(self) -> bool:
        with suppress(AssertionError):  # no manager answers at present
            found = json.loads(self.lab.tir("ls", "-a", "-o", "json").stdout)
            jobs = found["jobs"] if isinstance(found, dict) else found
            phases = {job["id"]: job["phase"] for job in jobs}
            return all(phases.get(id) in ("SUCCEEDED", "FAILED", "CANCELLED") for id in self.steps)
        return False

    def finish(self) -> int:
        """Wait until all have ended, looking at what runs, and judge; returns the number of preemptions."""
        self.watch()
        return self.check()

    def watch(self) -> None:
        """Until all have ended."""
        deadline = monotonic() + LONGEST_S
        while not self.all_ended():
            assert monotonic() < deadline, self.lab.tir("ls", "-a", code=None).stdout
            shared = shared_slots(self.lab)
            assert not shared, f"processes of several runs have the same slots: {shared}"
            threading.Event().wait(LOOK_S)  # a rate, not a condition

    def check(self) -> int:
        lab = self.lab
        preemptions = 0
        for id, steps in self.steps.items():
            job = lab.job(id)
            assert job["summary"]["phase"] == "SUCCEEDED", (id, job["summary"], job["runs"][-1])
            assert lab.steps(id) == (steps, digest_of(steps)), id
            preemptions += sum(run["cause"] == "preempted" for run in job["runs"])
        check_uses(lab.uses, self.gpus)
        assert not lab.processes(), "a process has outlived its run"
        return preemptions


def check_uses(uses: Path, gpus: dict[int, int]) -> None:
    """No slot was used by two processes at once, and no gang that took a step was partial."""
    violations = [path.read_text() for path in (uses / "violations").iterdir()]
    assert not violations, violations
    runs: dict[tuple[int, int], dict[int, list[dict]]] = {}
    for path in (uses / "records").iterdir():
        job, run, process = map(int, path.name.split("-"))
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert sum("slots" in line for line in lines) == 1, (path.name, "has begun twice", lines)
        runs.setdefault((job, run), {})[process] = lines
    for (job, run), processes in runs.items():
        if not any("stepped" in line for lines in processes.values() for line in lines):
            continue  # it was stopped before it worked
        begun = [lines[0] for lines in processes.values()]
        assert sorted(processes) == list(range(begun[0]["workers"])), (job, run, "is partial", processes)
        slots = [slot for each in begun for slot in each["slots"]]
        assert len(slots) == len(set(slots)) == gpus[job], (job, run, slots)
        assert all(slot.startswith(f"{each['node']}:") for each in begun for slot in each["slots"]), begun


def shared_slots(lab: TrainingLab) -> list[tuple[str, set[str]]]:
    """Slots that living processes of several runs have in their environments."""
    found: dict[str, dict[str, int]] = {}
    for pid in lab.processes():
        env = environment(pid)
        for slot in filter(None, env.get("TIRESIAS_SLOTS", "").split(",")):
            found.setdefault(slot, {})[env["TIRESIAS_RUN_ID"]] = pid
    return [
        (slot, set(runs))
        for slot, runs in found.items()
        if len([run for run, pid in runs.items() if environment(pid).get("TIRESIAS_RUN_ID") == run]) > 1
    ]


def environment(pid: int) -> dict[str, str]:
    """That of a living process; empty for another."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    look = procfs.look(pid)
    if look is None or not look.alive:
        return {}
    return dict(each.split("=", 1) for each in text.split("\0") if "=" in each)


# --- disturbances --------------------------------------------------------------------------------------


class Disturbances:
    """What happens to a lab meanwhile; each kind has a thread of its own, and counts what it has done."""

    def __init__(self, lab: TrainingLab):
        self.lab = lab
        self.done = {"manager": 0, "raylet": 0, "cut": 0, "pause": 0}
        self._over = threading.Event()
        self._busy = {box.name: threading.Lock() for box in lab.bed.boxes}

    @contextmanager
    def running(self) -> Iterator[None]:
        kinds = (self._managers, self._raylets, self._cut, self._pause)
        with ThreadPoolExecutor(len(kinds)) as threads:
            ends = [threads.submit(kind) for kind in kinds]
            try:
                yield
            finally:
                self._over.set()
        for end in ends:
            end.result()

    def _managers(self) -> None:
        wait_s = MANAGER_EVERY_S
        while not self._over.wait(wait_s):
            with suppress(FileNotFoundError, ProcessLookupError):
                os.kill(self.lab.pid(), signal.SIGKILL)
                self.done["manager"] += 1
            began = monotonic()
            self.lab.up(code=None)
            wait_s = max(MANAGER_LIVES_S, MANAGER_EVERY_S - (monotonic() - began))

    def _raylets(self) -> None:
        others = self.lab.bed.boxes[1:]
        while not self._over.wait(RAYLET_EVERY_S):
            box = others[self.done["raylet"] % len(others)]
            with self._busy[box.name]:
                box.kill_raylet()
                box.start_node(labels=f"rack=r{box.number // 2}")
            self.done["raylet"] += 1

    def _cut(self) -> None:
        box = self.lab.bed.boxes[1]
        if not self._over.wait(12):
            with self._busy[box.name]:
                box.cut()
                self._over.wait(CUT_S)
                box.mend()
            self.done["cut"] += 1

    def _pause(self) -> None:
        box = self._box_that_works()
        if box is not None:
            with self._busy[box.name]:
                stopped = box.pause()
                self._over.wait(LEASE_S + GRACE_S + 8)  # beyond its lease, and until its runs are given up
                box.resume(stopped)
            self.done["pause"] += 1

    def _box_that_works(self) -> Box | None:
        """One that has processes of runs, after a while."""
        if self._over.wait(30):
            return None
        while not self._over.wait(0.5):
            for box in self.lab.bed.boxes[2:]:
                if set(box.pids()) & set(self.lab.processes()):
                    return box
        return None


@pytest.fixture
def lab(bed, tmp_path):
    made = TrainingLab(bed, tmp_path)
    made.env |= {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    made.up("--policy", "las", backoff_s=1.0, lease_s=LEASE_S, most_lost_runs=1000)
    until(lambda: len(made.nodes()) == len(bed.boxes), "every node has joined", within_s=120)
    yield made
    made.end()


def test_trainings_of_all_sizes_finish_with_exactly_their_steps(lab):
    campaign = Campaign(lab, Random(SEED))
    campaign.submit_all(TRAININGS, 0.05, with_ddp=True, longer=LONGER)
    preemptions = campaign.finish()
    print(f"{TRAININGS} trainings, {preemptions} preemptions")
    assert preemptions >= TRAININGS // 2


def test_nothing_is_lost_or_doubled_while_managers_raylets_and_links_fail(lab):
    """The manager is killed every 5 s and a raylet every 20 s; once a link is cut, once a node is paused."""
    campaign = Campaign(lab, Random(SEED))
    campaign.submit_all(TRAININGS - 1 if TRAININGS > 12 else 6, 0.1, with_ddp=TRAININGS > 12)
    # One that lasts until everything has happened.
    campaign.keep(
        2, 700, "-g", "2", "--grace", f"{GRACE_S:g}s", "--", sys.executable, str(TRAINING), step_s=0.1
    )
    disturbances = Disturbances(lab)
    with disturbances.running():
        campaign.watch()
    lab.up(code=None)
    preemptions = campaign.finish()
    print(f"disturbances: {disturbances.done}, {preemptions} preemptions")
    assert disturbances.done["manager"] >= 3
    assert disturbances.done["raylet"] >= 2
    assert disturbances.done["cut"] == disturbances.done["pause"] == 1
