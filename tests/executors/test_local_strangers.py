"""Processes that look like those of a run but are not, and processes of a run that try to outrun its end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiresias.core.model import RunId
from tiresias.executors import procfs, run_files
from tiresias.executors.base import RunSpec, Slot
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.local import LocalExecutor
from tiresias.executors.marks import NAME, Marks
from tiresias.testing.executors import PYTHON, Bench, is_alive, processes_of, until

R1 = RunId(1)
NO_CGROUPS = CgroupParent(None, "the tests of what holds without them")
FOREVER = "exec sleep 600"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    executor = LocalExecutor(tmp_path / "executor", linger_s=0.2, cgroups=NO_CGROUPS)
    bench = Bench(executor, tmp_path)
    yield bench
    for run_id in bench.specs:
        executor.stop(run_id, grace_s=0.0)
    executor.close()


Start = Callable[[dict[bytes, bytes]], "subprocess.Popen[bytes]"]


@pytest.fixture
def start_stranger() -> Iterator[Start]:
    """Starts processes that belong to no run, with the environment that is given."""
    started = []

    def start(env: dict[bytes, bytes]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["/bin/sleep", "600"], env=env, start_new_session=True))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()


def environment_of(pid: int) -> dict[bytes, bytes]:
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")[:-1]
    return {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}


def worker_of(bench: Bench, spec: RunSpec) -> int:
    bench.up(int(spec.run_id))
    up = run_files.read(str(spec.run_dir), run_files.UP)
    assert up is not None
    worker = int(up["workers"][0][0])
    until(lambda: NAME.encode() in environment_of(worker), "the command of the worker")  # not only the fork
    return worker


def kill_supervisor(spec: RunSpec) -> None:
    claim = until(lambda: run_files.read(str(spec.run_dir), run_files.CLAIM), "claim")
    os.kill(claim["pid"], signal.SIGKILL)


# --- a copied environment -------------------------------------------------------------------------------


def test_a_stranger_with_a_copied_environment_does_not_delay_the_end_of_the_run(bench, start_stranger):
    spec = bench.shell(f"until [ -e {bench.top}/go ]; do sleep 0.01; done; exit 3")
    copy = start_stranger(environment_of(worker_of(bench, spec)))
    (bench.top / "go").touch()
    gone = bench.gone()
    assert (gone.status, gone.escaped) == (3, 0)
    assert is_alive(copy.pid)


def test_a_stranger_with_a_copied_environment_is_foreign_on_a_gpu(tmp_path, start_stranger):
    class Driver:
        used: list[int] = []  # noqa: RUF012

        def gpus(self):
            return []

        def processes(self, uuid):
            return self.used

        def topology(self):
            raise AssertionError("it is not asked for")

    driver = Driver()
    executor = LocalExecutor(tmp_path / "executor", driver=driver, linger_s=0.2, cgroups=NO_CGROUPS)
    bench = Bench(executor, tmp_path)
    spec = bench.shell(FOREVER, slots=(Slot("n", 0, "GPU-x"),))
    worker = worker_of(bench, spec)
    copy = start_stranger(environment_of(worker))
    driver.used = [worker, copy.pid]
    assert executor.foreign(["GPU-x"]) == {"GPU-x": [copy.pid]}
    driver.used = []
    executor.stop(R1)
    bench.gone()
    executor.close()


def test_a_mark_made_from_what_everybody_can_see_counts_for_nothing(bench, start_stranger):
    spec = bench.shell(FOREVER, grace_s=0.1)
    env = environment_of(worker_of(bench, spec))
    del env[NAME.encode()]
    guess = start_stranger(env)
    other_key = Marks(bench.top)
    forged = start_stranger({**env, NAME.encode(): other_key.added(spec, {})[NAME].encode()})
    kill_supervisor(spec)
    assert bench.gone().lost
    assert is_alive(guess.pid)
    assert is_alive(forged.pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start a process of another user")
def test_the_mark_of_a_run_counts_only_in_processes_of_its_user(bench):
    spec = bench.shell(FOREVER, grace_s=0.1)
    env = environment_of(worker_of(bench, spec))
    copy = subprocess.Popen(["/bin/sleep", "600"], env=env, user=54321, start_new_session=True)
    try:
        kill_supervisor(spec)
        assert bench.gone().lost
        assert is_alive(copy.pid)
    finally:
        copy.kill()
        copy.wait()


def test_a_run_that_was_started_before_there_was_a_key_is_found_by_its_former_marks(bench, start_stranger):
    spec = bench.spec("/bin/sh", "-c", FOREVER, grace_s=0.1)
    spec.run_dir.mkdir(parents=True)
    run_files.claim(str(spec.run_dir), journal="", run_id=1, boot=procfs.boot_id(), pid=2**22 + 1, start=1)
    os.utime(spec.run_dir / run_files.CLAIM, (1, 1))
    orphan = start_stranger(
        {b"TIRESIAS_RUN_ID": b"1", b"TIRESIAS_RUN_DIR": os.fsencode(spec.job_dir)},
    )
    bench.executor.adopt([spec])
    assert bench.gone().lost
    assert orphan.wait(timeout=20) == -signal.SIGTERM


def test_the_key_is_private_and_stays(tmp_path):
    spec = Bench(None, tmp_path).spec("true")  # type: ignore[arg-type]
    first = Marks(tmp_path).of(spec)
    assert Marks(tmp_path).of(spec) == first
    assert (tmp_path / "mark.key").stat().st_mode & 0o777 == 0o600


# --- sessions whose leader is gone ----------------------------------------------------------------------


DAEMON = """
import os, time
if os.fork() == 0:
    print(os.getpid(), os.getsid(0), flush=True)
    os.close(1)
    time.sleep(600)
"""


def test_a_daemon_in_a_session_whose_number_a_worker_had_is_not_ended(bench):
    """The worker is gone, its number was used again, and the new leader has left a daemon in its session."""
    leader = subprocess.Popen([*PYTHON, DAEMON], stdout=subprocess.PIPE, start_new_session=True)
    assert leader.stdout is not None
    daemon, session = map(int, leader.stdout.readline().split())
    leader.wait()
    leader.stdout.close()
    assert procfs.look(session) is None
    try:
        spec = bench.spec("/bin/sh", "-c", FOREVER, grace_s=0.1)
        spec.run_dir.mkdir(parents=True)
        boot = procfs.boot_id()
        run_files.claim(str(spec.run_dir), journal="", run_id=1, boot=boot, pid=2**22 + 1, start=1)
        run_files.put(str(spec.run_dir), run_files.UP, {"boot_id": boot, "workers": [(session, 1)]})
        bench.executor.adopt([spec])
        assert bench.gone().lost
        assert is_alive(daemon)
    finally:
        os.kill(daemon, signal.SIGKILL)


# --- processes that fork faster than they are killed ----------------------------------------------------

# It ignores SIGTERM and goes on in a child every 2 ms, for a minute at most.
HOPPER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    {then}
    os._exit(0)
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.002)
    if os.fork():
        os._exit(0)
    {each_time}
"""


@pytest.mark.parametrize("each_time", ["pass", "os.setsid()"], ids=["in one group", "in new sessions"])
def test_a_process_that_forks_every_2_ms_does_not_outrun_the_end_of_its_run(bench, each_time):
    bench.start(*PYTHON, HOPPER.format(then="pass", each_time=each_time))
    gone = bench.gone()
    assert gone.status == 0
    assert gone.escaped
    assert processes_of(bench.top) == []


@pytest.mark.parametrize("each_time", ["pass", "os.setsid()"], ids=["in one group", "in new sessions"])
def test_a_process_that_forks_every_2_ms_does_not_outrun_the_sweep(bench, each_time):
    spec = bench.start(*PYTHON, HOPPER.format(then="time.sleep(600)", each_time=each_time), grace_s=0.2)
    bench.up()
    kill_supervisor(spec)
    assert bench.gone().lost
    assert processes_of(bench.top) == []
