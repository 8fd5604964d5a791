"""A run is a cgroup where cgroup v2 is delegated: the kernel knows its processes, whatever they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.core.model import RunId
from tiresias.executors import cgroup_parent, run_files
from tiresias.executors.base import RunSpec
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.cgroups import CGROUP, Cgroup
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import PYTHON, Bench, escape, is_alive, processes_of, until

R1 = RunId(1)
FOREVER = "exec sleep 600"
FOUND = cgroup_parent.find()
needs_cgroups = pytest.mark.skipif(FOUND.path is None, reason=f"no cgroups: {FOUND.reason}")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    executor = LocalExecutor(tmp_path / "executor", linger_s=0.2, cgroups=FOUND)
    bench = Bench(executor, tmp_path)
    yield bench
    for run_id in bench.specs:
        executor.stop(run_id, grace_s=0.0)
    executor.close()


def cgroup_of(spec: RunSpec) -> Cgroup:
    found = run_files.read(str(spec.run_dir), CGROUP)
    assert found is not None
    return Cgroup(found["path"])


def supervisor_of(spec: RunSpec) -> int:
    claim = until(lambda: run_files.read(str(spec.run_dir), run_files.CLAIM), "claim")
    return int(claim["pid"])


@needs_cgroups
def test_the_workers_are_in_the_cgroup_of_the_run_and_the_supervisor_is_not(bench):
    spec = bench.shell(FOREVER, workers=2)
    bench.up()
    up = run_files.read(str(spec.run_dir), run_files.UP)
    cgroup = cgroup_of(spec)
    assert sorted(cgroup.pids()) == sorted(pid for pid, _ in up["workers"])  # the kernel promises no order
    bench.executor.stop(R1)
    assert bench.gone().stopped
    assert not os.path.exists(cgroup.path)


@needs_cgroups
def test_where_the_kernel_cannot_fork_into_a_cgroup_the_worker_moves_there_itself(bench, tmp_path):
    """As with a kernel before 5.7, or under a filter that forbids the system call."""
    spec = bench.spec("/bin/cat", "/proc/self/cgroup")
    log = tmp_path / "log"
    cgroup = Cgroup(str(cgroup_parent.find().choose(tmp_path, spec.run_id)))
    cgroup.make()
    code = (
        "import os, sys; from tiresias.executors import cgroups, spawn_worker;"
        "cgroups.CLONE3 = 1 << 20;"
        "worker = {'argv': ['/bin/cat', '/proc/self/cgroup'], 'env': {}, 'log': sys.argv[1]};"
        "log = spawn_worker.open_log(sys.argv[1], None);"
        "pid, pipe, error = spawn_worker.spawn(worker, '/', None, sys.argv[2], log);"
        "os.waitpid(pid, 0); assert not error, error"
    )
    subprocess.run([sys.executable, "-c", code, str(log), cgroup.path], check=True)
    assert Path(cgroup.path).name in log.read_text()
    cgroup.remove()


def test_an_escapee_with_no_trace_of_its_run_is_found_when_the_supervisor_is_killed(bench):
    path = bench.top / "escapee"
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    command = escape(path, prelude=ignore, env="{}", then="import time; time.sleep(600)")
    spec = bench.start(*command, grace_s=0.2)
    pid = int(bench.file("escapee"))
    bench.up()
    os.kill(supervisor_of(spec), signal.SIGKILL)
    assert bench.gone().lost
    assert not is_alive(pid)
    assert not os.path.exists(cgroup_of(spec).path)


@needs_cgroups
def test_the_next_manager_finds_the_cgroup_of_a_run_that_lost_its_supervisor(bench):
    path = bench.top / "escapee"
    spec = bench.start(*escape(path, env="{}", then="import time; time.sleep(600)"), grace_s=0.2)
    pid = int(bench.file("escapee"))
    bench.up()
    bench.executor.forget(R1)
    supervisor = supervisor_of(spec)
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not is_alive(supervisor), "the end of the supervisor")
    executor = LocalExecutor(bench.top / "executor", cgroups=CgroupParent(None, "this one makes none itself"))
    later = Bench(executor, bench.top)
    executor.adopt([spec])
    assert later.gone().lost
    assert not is_alive(pid)
    executor.close()


@needs_cgroups
def test_a_copy_of_the_whole_environment_does_not_make_a_process_one_of_the_run(bench):
    spec = bench.shell(FOREVER, grace_s=0.2)
    bench.up()
    worker = cgroup_of(spec).pids()[0]
    pairs = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")[:-1]
    env = {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}
    copy = subprocess.Popen(["/bin/sleep", "600"], env=env, start_new_session=True)
    try:
        os.kill(supervisor_of(spec), signal.SIGKILL)
        assert bench.gone().lost
        assert is_alive(copy.pid)
    finally:
        copy.kill()
        copy.wait()


@needs_cgroups
def test_a_cgroup_that_a_supervisor_left_behind_is_removed_when_the_run_is_forgotten(bench):
    spec = bench.shell("exit 0")
    bench.gone()
    cgroup = cgroup_of(spec)
    cgroup.make()
    bench.executor.forget(R1)
    assert not os.path.exists(cgroup.path)


# It ignores SIGTERM, clears its environment and goes on in a child of a new session every 2 ms.
HOPPER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) < 2:
    if os.fork():
        {then}
        os._exit(0)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", {source!r}, "hop"], {{}})
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.002)
    if os.fork():
        os._exit(0)
    os.setsid()
"""


def hopper(then: str) -> str:
    return HOPPER.format(then=then, source=HOPPER.format(then="pass", source=""))


@needs_cgroups
def test_a_process_that_forks_every_2_ms_does_not_outrun_the_end_of_its_run(bench):
    spec = bench.start(*PYTHON, hopper("pass"))
    assert bench.gone().status == 0
    assert not cgroup_of(spec).is_populated()


@needs_cgroups
def test_a_process_that_forks_every_2_ms_does_not_outrun_the_sweep(bench):
    spec = bench.start(*PYTHON, hopper("time.sleep(600)"), grace_s=0.2)
    bench.up()
    until(lambda: len(cgroup_of(spec).pids()) > 1, "the process that forks")
    os.kill(supervisor_of(spec), signal.SIGKILL)
    assert bench.gone().lost
    assert not cgroup_of(spec).is_populated()


@needs_cgroups
def test_a_kernel_that_cannot_kill_a_cgroup_freezes_it_first(bench):
    spec = bench.start(*PYTHON, hopper("time.sleep(600)"))
    bench.up()
    cgroup = cgroup_of(spec)
    until(lambda: len(cgroup.pids()) > 1, "the process that forks")
    cgroup.kill_frozen()
    assert bench.gone().exits[0].signal == signal.SIGKILL
    assert not cgroup.is_populated()


def test_a_run_whose_cgroup_cannot_be_made_is_supervised_all_the_same(bench):
    executor = LocalExecutor(bench.top / "other", linger_s=0.2, cgroups=CgroupParent(Path("/proc/none")))
    other = Bench(executor, bench.top)
    other.shell("exit 4")
    assert other.gone().status == 4
    assert "cannot make the cgroup" in (other.specs[R1].run_dir / "supervisor.log").read_text()
    executor.close()
    assert processes_of(bench.top) == []


def test_without_delegation_by_systemd_no_cgroup_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(cgroup_parent, "SYSTEMD", tmp_path)
    monkeypatch.setattr(cgroup_parent, "_own", lambda process: tmp_path / "unit")
    (tmp_path / "unit").mkdir()
    found = cgroup_parent.find()
    assert (found.path, found.choose(tmp_path, 1)) == (None, "")
    assert "set Delegate=yes in the unit of the manager" in found.reason
