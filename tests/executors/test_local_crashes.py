"""A gang runs once and ends whole, and its end is known, whichever process is killed and whenever."""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.core.model import RunId
from tiresias.executors import cgroup_parent, local, procfs, run_files
from tiresias.executors.base import RunGone, RunSpec, RunUp, WorkerExit
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.kernel import RealKernel
from tiresias.executors.local import LocalExecutor, _Run
from tiresias.executors.preparation import make_run_dir
from tiresias.executors.spawn_supervisor import command_line, spawn_supervisor
from tiresias.executors.supervisor import Supervisor
from tiresias.executors.turns import Turns
from tiresias.testing.executors import PYTHON, Bench, escape, is_alive, processes_of, until

R1 = RunId(1)
FOREVER = "exec sleep 600"


@pytest.fixture(params=["with cgroups", "without cgroups"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    found = cgroup_parent.find() if request.param == "with cgroups" else CgroupParent(None)
    if request.param == "with cgroups" and found.path is None:
        pytest.skip(f"no cgroups: {found.reason}")
    executor = LocalExecutor(tmp_path / "executor", linger_s=0.2, cgroups=found)
    bench = Bench(executor, tmp_path)
    yield bench
    for run_id in bench.specs:
        executor.stop(run_id, grace_s=0.0)
    until(lambda: not processes_of(tmp_path), "no process of any run is left")
    executor.close()


# A manager that starts a run, does {act}, and then waits to be killed.
MANAGER = """
import os, sys, select, time
from pathlib import Path
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import Bench
top = Path(sys.argv[1])
bench = Bench(LocalExecutor(top / "executor", linger_s=0.2), top)
bench.shell(sys.argv[2])
{act}
print("ready", flush=True)
time.sleep(600)
"""


def killed_manager(bench: Bench, script: str, act: str = "pass", wait_s: float = 0.0) -> RunSpec:
    """Start a run from a manager in another process and kill that process with its whole group."""
    process = subprocess.Popen(
        [sys.executable, "-c", MANAGER.format(act=act), str(bench.top), script],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(wait_s)  # varies the moment of the kill; nothing is synchronised by it
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    return bench.spec("/bin/sh", "-c", script)


def supervisor_of(spec: RunSpec) -> int:
    claim = until(lambda: run_files.read(str(spec.run_dir), run_files.CLAIM), "claim")
    return int(claim["pid"])


def wait_for_end(pid: int) -> None:
    until(lambda: not is_alive(pid), f"end of {pid}")


# --- the manager is killed ------------------------------------------------------------------------------


def test_a_run_continues_when_the_manager_is_killed_with_its_group(bench):
    spec = killed_manager(
        bench, f"until [ -e {bench.top}/go ]; do sleep 0.01; done; exit 7", act="bench.up()"
    )
    assert bench.executor.adopt([spec]).running == [R1]
    (bench.top / "go").touch()
    assert bench.gone().status == 7


def test_the_end_of_a_run_is_known_to_the_next_manager(bench):
    spec = killed_manager(bench, "exit 7", act="bench.up()")
    wait_for_end(supervisor_of(spec))
    assert bench.executor.adopt([spec]).gone == [R1]
    assert bench.gone().status == 7


@pytest.mark.parametrize("wait_s", [0.0, 0.01, 0.02, 0.04])
def test_a_run_whose_manager_is_killed_while_it_starts_the_run_is_started_once(bench, wait_s):
    spec = killed_manager(bench, f"echo x >> {bench.top}/starts; {FOREVER}", wait_s=wait_s)
    bench.executor.adopt([spec])
    bench.executor.start(spec)  # whatever was found
    bench.up()
    assert bench.file("starts") == "x\n"
    bench.executor.stop(R1)
    assert bench.gone().stopped
    assert (bench.top / "starts").read_text() == "x\n"


def test_two_managers_that_start_the_same_run_at_once_start_one_gang(bench):
    others = [Bench(LocalExecutor(bench.top / f"other{i}", linger_s=0.2), bench.top) for i in range(3)]
    spec = bench.spec("/bin/sh", "-c", f"echo x >> {bench.top}/starts; {FOREVER}")
    for each in [*others, bench]:
        each.executor.start(spec)
    for each in [*others, bench]:
        each.up()
    bench.executor.stop(R1)
    everyone = [*others, bench]
    until(lambda: sum(each.has_ended() for each in everyone) == len(everyone), "all report the end")
    ends = [each.gone() for each in everyone]
    assert all(end == ends[0] for end in ends)
    assert bench.file("starts") == "x\n"
    for each in others:
        each.executor.close()


def test_a_stop_reaches_the_gang_that_another_manager_was_about_to_start(bench):
    spec = killed_manager(bench, FOREVER)
    bench.executor.start(spec)
    bench.executor.stop(R1)
    assert bench.gone().stopped


def test_a_run_that_is_stopped_before_it_begins_is_not_started_by_a_slow_supervisor(bench, monkeypatch):
    """The disk has no room for the wish to stop, so the claim alone keeps the supervisor from starting it."""
    put = run_files.put

    def no_room(run_dir, name, record, kernel):
        if name == run_files.STOP:
            raise OSError(errno.ENOSPC, "no space left on device")
        put(run_dir, name, record, kernel)

    monkeypatch.setattr(run_files, "put", no_room)
    spec = bench.spec("/bin/sh", "-c", f"touch {bench.top}/ran")
    assert bench.executor.adopt([spec]).absent == [R1]
    bench.executor.stop(R1)
    assert bench.gone() == RunGone(R1, stopped=True, never_begun=True)
    slow = Bench(LocalExecutor(bench.top / "other", linger_s=0.2), bench.top)
    slow.executor._begin(_Run(spec))  # it had looked before the stop, and found that the run has not begun
    assert slow.gone().stopped
    assert not (bench.top / "ran").exists()
    slow.executor.close()


def test_the_next_manager_knows_that_a_run_was_given_up_before_it_had_begun(bench):
    spec = bench.spec(PYTHON, "-c", "pass")
    bench.executor.adopt([spec])
    bench.executor.stop(R1)
    assert bench.gone().never_begun
    later = Bench(LocalExecutor(bench.top / "other", linger_s=0.2), bench.top)
    assert later.executor.adopt([spec]).gone == [R1]
    assert later.gone().never_begun
    later.executor.close()


def test_a_manager_that_is_killed_as_it_gives_a_run_up_leaves_a_run_that_has_never_begun(bench):
    spec = bench.spec(PYTHON, "-c", "pass")
    make_run_dir(spec, RealKernel())
    whose = {"journal": spec.journal, "run_id": 1, "boot": procfs.boot_id()}
    assert run_files.claim(str(spec.run_dir), pid=0, start=0, **whose)
    assert bench.executor.adopt([spec]).gone == [R1]
    gone = bench.gone()
    assert gone.never_begun
    assert gone.lost


def test_a_run_that_had_not_begun_when_nothing_could_be_found_out_is_not_lost(bench, monkeypatch):
    """Without a descriptor a manager cannot know whether the run has begun. Later it ends as never begun."""
    spec = bench.spec(PYTHON, "-c", "pass")

    def no_descriptor(run):
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(bench.executor, "_resume", no_descriptor)
        assert bench.executor.adopt([spec]).running == [R1]
    assert bench.gone() == RunGone(R1, stopped=True, never_begun=True)


def test_a_manager_that_waits_is_woken_when_a_run_is_up(bench):
    bench.shell(FOREVER)
    while not any(isinstance(report, RunUp) for report in bench.updates):
        assert select.select([bench.executor], [], [], 20)[0], "nothing woke it"
        bench.updates += bench.executor.poll()


def test_a_run_that_is_adopted_twice_is_watched_once_and_its_end_is_reported_once(bench):
    spec = killed_manager(bench, f"until [ -e {bench.top}/go ]; do sleep 0.01; done", act="bench.up()")
    assert bench.executor.adopt([spec]).running == [R1]
    open_files = len(os.listdir("/proc/self/fd"))
    assert bench.executor.adopt([spec]).running == [R1]
    assert len(os.listdir("/proc/self/fd")) == open_files
    (bench.top / "go").touch()
    bench.gone()
    assert bench.executor.adopt([spec]).gone == [R1]
    bench.collect()
    assert [type(report) for report in bench.updates].count(RunGone) == 1


def test_a_supervisor_ends_with_its_run_although_the_directory_of_the_run_was_removed(bench):
    spec = bench.shell(FOREVER)
    bench.up()
    supervisor = supervisor_of(spec)
    shutil.rmtree(spec.run_dir)
    for pid in processes_of(bench.top):
        if pid != supervisor:
            os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(supervisor), "the supervisor has ended")
    bench.specs.clear()


# --- the supervisor is killed ---------------------------------------------------------------------------


def test_the_run_of_a_killed_supervisor_is_ended(bench):
    top = bench.top
    saves = f"trap 'echo saved > {top}/saved; exit 0' TERM; touch {top}/on; while :; do sleep 0.01; done"
    spec = bench.shell(saves, workers=2)
    until((top / "on").exists)
    bench.up()
    os.kill(supervisor_of(spec), signal.SIGKILL)
    gone = bench.gone()
    assert gone.lost
    assert not gone.stopped
    assert "was killed" in gone.error
    assert (top / "saved").exists()  # the workers had the chance to save
    assert processes_of(top) == []


def test_a_worker_of_a_killed_supervisor_that_ignores_sigterm_is_killed(bench):
    spec = bench.shell(f"trap '' TERM; touch {bench.top}/on; while :; do sleep 0.01; done", grace_s=0.3)
    until((bench.top / "on").exists)
    bench.up()
    os.kill(supervisor_of(spec), signal.SIGKILL)
    assert bench.gone().lost
    assert processes_of(bench.top) == []


def test_a_worker_that_hides_its_environment_is_found_by_its_session(bench):
    code = "import os; open(os.sys.argv[1], 'w').write(str(os.getpid())); import time; time.sleep(600)"
    script = (
        f"import os, sys; code, path = {code!r}, {str(bench.top / 'pid')!r}\n"
        "os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', code, path], {})"
    )
    spec = bench.start(*PYTHON, script)
    pid = int(bench.file("pid"))
    bench.up()
    os.kill(supervisor_of(spec), signal.SIGKILL)
    assert bench.gone().lost
    assert not is_alive(pid)


def test_an_escapee_is_found_by_its_environment_when_the_supervisor_is_killed(bench):
    spec = bench.start(*escape(bench.top / "escapee", then="import time; time.sleep(600)"))
    pid = int(bench.file("escapee"))
    bench.up()
    os.kill(supervisor_of(spec), signal.SIGKILL)
    assert bench.gone().lost
    assert not is_alive(pid)


def test_a_supervisor_killed_while_no_manager_was_there(bench):
    spec = killed_manager(bench, FOREVER, act="bench.up()")
    supervisor = supervisor_of(spec)
    os.kill(supervisor, signal.SIGKILL)
    wait_for_end(supervisor)
    bench.executor.adopt([spec])
    assert bench.gone().lost
    assert processes_of(bench.top) == []


def test_a_stopped_run_counts_as_stopped_even_if_its_supervisor_is_killed(bench):
    spec = bench.shell(f"trap '' TERM; touch {bench.top}/on; while :; do sleep 0.01; done", grace_s=0.5)
    until((bench.top / "on").exists)
    bench.executor.stop(R1, grace_s=600)
    os.kill(supervisor_of(spec), signal.SIGKILL)
    gone = bench.gone()
    assert (gone.lost, gone.stopped) == (True, True)


def test_a_child_that_has_not_executed_its_program_yet_is_found_when_the_supervisor_is_killed(bench):
    spec = bench.spec("/bin/sh", "-c", FOREVER)
    spec.run_dir.mkdir(parents=True)
    run_files.claim(str(spec.run_dir), journal="", run_id=1, boot=procfs.boot_id(), pid=2**22 + 1, start=1)
    names = [os.fsdecode(name) for name in command_line(str(spec.run_dir))]
    child = subprocess.Popen([*PYTHON, "import time; time.sleep(600)", *names])  # the same command line
    bench.executor.adopt([spec])
    assert child.wait(timeout=20) == -signal.SIGTERM
    assert bench.gone().lost


def test_a_pipe_instead_of_the_output_file_blocks_nothing(bench):
    spec = bench.spec("/bin/sh", "-c", "exit 0")
    spec.run_dir.mkdir(parents=True)
    os.mkfifo(spec.log(0))
    bench.executor.start(spec)
    assert "cannot open the output file" in bench.gone().error


def test_a_lost_run_is_swept_as_soon_as_the_machine_has_a_process_for_it(bench, monkeypatch):
    spec = bench.shell(f"touch {bench.top}/on; {FOREVER}")
    until((bench.top / "on").exists)
    bench.up()
    tries: list[str] = []

    def spawn(run_dir, plan, kernel):
        tries.append(run_dir)
        if len(tries) < 3:
            raise OSError(errno.EAGAIN, "resource temporarily unavailable")
        return spawn_supervisor(run_dir, plan, kernel)

    monkeypatch.setattr(local, "spawn_supervisor", spawn)
    os.kill(supervisor_of(spec), signal.SIGKILL)
    assert bench.gone().lost
    assert len(tries) == 3
    assert not processes_of(bench.top)


@pytest.mark.parametrize("is_childless", [True, False])
def test_a_run_is_not_over_while_its_supervisor_has_a_child_that_is_not_in_proc(monkeypatch, is_childless):
    """A process that is born and orphaned during the look at /proc is missing there."""
    supervisor = Supervisor.__new__(Supervisor)  # without its signal handlers, which are for a whole process
    supervisor.workers, supervisor.cgroup, supervisor.lost = [], None, False
    supervisor.plan, supervisor.deadline, supervisor.escaped = {"linger_s": 60.0}, None, set()
    supervisor.turns = Turns("")  # it has none
    monkeypatch.setattr(supervisor, "_reap", lambda: is_childless)
    monkeypatch.setattr(supervisor, "_leftovers", list)
    assert supervisor._is_over() is is_childless


# --- pids are used again --------------------------------------------------------------------------------


@pytest.fixture
def stranger() -> Iterator[procfs.Process]:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    found = procfs.look(process.pid)
    assert found is not None
    yield found
    process.kill()
    process.wait()


@pytest.mark.parametrize("of", ["supervisor", "worker"])
def test_another_process_with_the_same_pid_gets_no_signal(bench, stranger, of):
    spec = bench.spec("/bin/sh", "-c", FOREVER, grace_s=0.1)
    spec.run_dir.mkdir(parents=True)
    boot = procfs.boot_id()
    pid, start = (stranger.pid, stranger.start - 1) if of == "supervisor" else (2**22 + 1, 1)
    run_files.claim(str(spec.run_dir), journal="", run_id=1, boot=boot, pid=pid, start=start)
    workers = [(stranger.pid, stranger.start - 1)]
    run_files.put(str(spec.run_dir), run_files.UP, {"boot_id": boot, "workers": workers})
    bench.executor.adopt([spec])
    bench.executor.stop(R1, grace_s=0.0)
    assert bench.gone().lost
    assert is_alive(stranger.pid)


def test_a_claim_from_before_a_restart_of_the_machine_is_a_lost_run(bench, stranger):
    spec = bench.spec("/bin/sh", "-c", FOREVER)
    spec.run_dir.mkdir(parents=True)
    run_files.claim(
        str(spec.run_dir), journal="", run_id=1, boot="another-boot", pid=stranger.pid, start=stranger.start
    )
    bench.executor.start(spec)
    gone = bench.gone()
    assert (gone.lost, gone.error) == (True, "the machine was restarted during the run")
    assert is_alive(stranger.pid)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}'])
@pytest.mark.parametrize("name", [run_files.CLAIM, run_files.EXIT])
def test_a_damaged_record_is_a_lost_run(bench, name, text):
    spec = bench.spec("/bin/sh", "-c", f"touch {bench.top}/ran")
    spec.run_dir.mkdir(parents=True)
    (spec.run_dir / name).write_text(text)
    bench.executor.start(spec)
    assert bench.gone().lost
    assert not (bench.top / "ran").exists()


def test_an_exit_record_of_version_0_1_0_is_read(bench):
    spec = bench.spec("/bin/sh", "-c", FOREVER)
    spec.run_dir.mkdir(parents=True)
    worker = {"code": None, "signal": 15, "told": True, "error": ""}
    record = {"version": 1, "run_id": 1, "exits": [worker], "stopped": True, "ended_at": 5.0}
    (spec.run_dir / run_files.EXIT).write_text(json.dumps(record))
    assert bench.executor.adopt([spec]).gone == [R1]
    gone = bench.gone()
    assert (gone.exits, gone.stopped, gone.ended_at) == ((WorkerExit(None, 15, True),), True, 5.0)


def test_the_first_exit_record_stays(tmp_path):
    run_files.write_exit(str(tmp_path), {"run_id": 1, "lost": False})
    run_files.write_exit(str(tmp_path), {"run_id": 1, "lost": True})
    assert json.loads((tmp_path / run_files.EXIT).read_text())["lost"] is False
    assert os.listdir(tmp_path) == [run_files.EXIT]


def test_an_exit_record_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced: list[tuple[str, str, bool]] = []  # what was synced, its contents, whether the record has its name

    def fsync(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        contents = path.read_text() if path.is_file() else ""
        synced.append((path.name, contents, (tmp_path / run_files.EXIT).exists()))

    monkeypatch.setattr(RealKernel, "fsync", staticmethod(fsync))
    run_files.reserve_exit(str(tmp_path))
    run_files.write_exit(str(tmp_path), {"run_id": 1, "lost": False})
    record = (tmp_path / run_files.EXIT).read_text()
    assert synced == [(run_files.RESERVED, record, False), (tmp_path.name, "", True)]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "plain",
        'q"b\\s',
        "new\nline\ttab\0nul\x7f",
        "Zürich 東京 😀",
        None,
        True,
        False,
        0,
        -3,
        1.5,
        1794785804.4311671,
    ],
)
def test_files_are_read_as_they_were_written(tmp_path, value):
    content = {"key": value, "list": [value, [value]], "within": {"é": value}}
    run_files.put(str(tmp_path), "some.json", content)
    assert run_files.read(str(tmp_path), "some.json") == {"version": 1, **content}
