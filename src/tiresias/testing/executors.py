"""The contract of executors, with real processes. Every executor must pass it:

    class TestMine(ExecutorContract):
        @contextmanager
        def open(self, root):
            executor = Mine(root)
            yield executor
            executor.close()

`Bench` drives an executor and collects its updates.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

import pytest

from tiresias.core.model import JobId, RunId
from tiresias.executors.base import Executor, RunGone, RunSpec, RunUp, RunUpdate, Slot
from tiresias.executors.exits import TAIL_LINES

T = TypeVar("T")
WITHIN_S = 20.0  # far more than anything takes: a busy machine must not fail a test
PYTHON = (sys.executable, "-I", "-S", "-c")
R1, R2 = RunId(1), RunId(2)


def until(look: Callable[[], T], what: str = "", within_s: float = WITHIN_S) -> T:
    """Wait until `look` returns something true, and return that; fail after `within_s` seconds."""
    deadline = monotonic() + within_s
    while not (found := look()):
        assert monotonic() < deadline, f"not within {within_s} s: {what or look}"
        sleep(0.005)
    return found


class Bench:
    """An executor, the specifications of the runs started on it, and its updates so far.

    `top` is a directory for everything that the runs write.
    """

    def __init__(self, executor: Executor, top: Path):
        self.executor = executor
        self.top = top
        self.updates: list[RunUpdate] = []
        self.specs: dict[RunId, RunSpec] = {}

    def spec(self, *command: str, run: int = 1, **changes: Any) -> RunSpec:
        run_id = RunId(run)
        defaults: dict[str, Any] = {
            "run_id": run_id,
            "job_id": JobId(1),
            "number": 1,
            "command": command,
            "cwd": str(self.top),
            "env": dict(os.environ),
            "slots": (Slot("n0", 0),),
            "run_dir": self.top / "runs" / str(run),
            "checkpoint_dir": str(self.top / "checkpoints"),
            "grace_s": 15.0,
        }
        self.specs[run_id] = spec = RunSpec(**{**defaults, **changes})
        return spec

    def start(self, *command: str, run: int = 1, **changes: Any) -> RunSpec:
        spec = self.spec(*command, run=run, **changes)
        self.executor.start(spec)
        return spec

    def shell(self, script: str, run: int = 1, **changes: Any) -> RunSpec:
        return self.start("/bin/sh", "-c", script, run=run, **changes)

    def collect(self, wait_s: float = 0.0) -> None:
        """Collect new updates; wait up to `wait_s` seconds for one."""
        select.select([self.executor], [], [], wait_s)
        self.updates += self.executor.poll()

    def is_quiet(self, for_s: float) -> bool:
        """Whether nothing woke the executor for so long; what did, such as its own helpers, is collected."""
        if not select.select([self.executor], [], [], for_s)[0]:
            return True
        self.collect()
        return False

    def up(self, run: int = 1) -> RunUp:
        """Wait for the update that the run is up."""
        return self._wait(RunUp, run)

    def gone(self, run: int = 1) -> RunGone:
        """Wait for the update that the run is gone."""
        return self._wait(RunGone, run)

    def has_ended(self, run: int = 1) -> bool:
        self.collect()
        return any(isinstance(each, RunGone) and each.run_id == run for each in self.updates)

    def _wait(self, kind: type[T], run: int) -> T:
        deadline = monotonic() + WITHIN_S
        while True:
            for each in self.updates:
                if isinstance(each, kind) and each.run_id == run:
                    return each
            assert monotonic() < deadline, f"no {kind.__name__} of run {run} among the updates {self.updates}"
            self.collect(0.5)

    def output(self, run: int = 1, worker: int = 0) -> str:
        return self.specs[RunId(run)].log(worker).read_text()

    def file(self, name: str) -> str:
        """Wait for a file that a worker writes, and return its contents."""
        path = self.top / name
        return until(lambda: path.read_text() if path.exists() else "", f"file {name}")


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """Pause a process. It continues even if the tests are killed meanwhile; else it would stay for ever."""
    command = ["/bin/sh", "-c", f"read end; kill -CONT {pid}"]
    # A session of its own, because `timeout` and a terminal signal the whole group of the tests.
    waker = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert waker.stdin is not None
    try:
        os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        waker.stdin.close()  # as the end of this process does
        waker.wait()


def processes_of(top: Path) -> list[int]:
    """The living processes of runs below this directory, recognised by their environment."""
    mark = b"TIRESIAS_RUN_DIR=" + os.fsencode(top)
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if mark in _read(pid, "environ") and is_alive(pid)]


def is_alive(pid: int) -> bool:
    return b"State:" in (status := _read(pid, "status")) and b"State:\tZ" not in status


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


# A process that leaves the group, session and parent of its worker and hides its environment.
ESCAPE = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {prelude}
        code = "import os, time, sys; open(sys.argv[1] + '.tmp', 'w').write(str(os.getpid()));" \\
               "os.rename(sys.argv[1] + '.tmp', sys.argv[1]); time.sleep(600)"
        os.execve({python!r}, ["escapee", "-I", "-S", "-c", code, {path!r}], {env})
    os._exit(0)
os.wait()
{then}
"""


def escape(path: Path, *, prelude: str = "pass", env: str = "os.environ", then: str = "") -> tuple[str, ...]:
    """The command of a worker whose grandchild escapes and writes its pid into the file."""
    script = ESCAPE.format(prelude=prelude, env=env, then=then, path=str(path), python=sys.executable)
    return (*PYTHON, script)


WAIT_FOR = "import os, time\nwhile not os.path.exists({path!r}): time.sleep(0.005)"


class ExecutorContract(ABC):
    """The contract of executors. A subclass implements `open`."""

    @abstractmethod
    def open(self, root: Path) -> AbstractContextManager[Executor]:
        """A new executor; another one that is opened later on the same root must find its runs."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        with self.open(tmp_path / "executor") as executor:
            bench = Bench(executor, tmp_path)
            yield bench
            for run_id in bench.specs:
                executor.stop(run_id, grace_s=0.0)
            until(lambda: not processes_of(tmp_path), "nothing of any run is left")

    # --- beginning and ending --------------------------------------------------------------------------

    @pytest.mark.parametrize("code", [0, 1, 75, 255])
    def test_an_exit_code_is_reported(self, bench: Bench, code: int) -> None:
        bench.shell(f"exit {code}")
        gone = bench.gone()
        assert [each.code for each in gone.exits] == [code]
        assert gone.status == code
        assert gone.first_failed == (0 if code else None)
        assert not gone.stopped
        assert not gone.lost
        assert not gone.error

    def test_a_signal_is_reported(self, bench: Bench) -> None:
        bench.shell("kill -SEGV $$")
        gone = bench.gone()
        assert (gone.exits[0].code, gone.exits[0].signal, gone.status) == (None, 11, 139)

    def test_a_run_is_up_before_it_is_gone_and_each_is_reported_once(self, bench: Bench) -> None:
        bench.shell("exit 0")
        bench.gone()
        bench.collect(0.2)
        assert [type(each) for each in bench.updates] == [RunUp, RunGone]

    def test_a_run_started_twice_runs_once(self, bench: Bench) -> None:
        spec = bench.shell(f"echo x >> {bench.top}/starts; exit 0")
        bench.executor.start(spec)
        bench.gone()
        bench.executor.start(spec)
        bench.collect(0.2)
        assert bench.file("starts") == "x\n"
        assert len(bench.updates) == 2

    def test_the_tail_of_the_output_is_reported(self, bench: Bench) -> None:
        bench.shell("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo the end >&2; exit 1")
        tail = bench.gone().tail.splitlines()
        assert tail[-2:] == ["line 2999", "the end"]
        assert len(tail) <= TAIL_LINES

    def test_descriptor_is_readable_only_when_there_is_an_update(self, bench: Bench) -> None:
        bench.shell(f"while [ ! -e {bench.top}/go ]; do sleep 0.01; done")
        bench.up()
        until(lambda: bench.is_quiet(0.1), "nothing wakes the executor while nothing happens")
        (bench.top / "go").touch()
        assert select.select([bench.executor], [], [], WITHIN_S)[0]
        bench.gone()

    def test_an_event_loop_is_woken_by_an_update(self, bench: Bench) -> None:
        async def wait() -> None:
            woken = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(bench.executor.fileno(), woken.set)
            bench.shell("exit 0")
            while not bench.has_ended():
                woken.clear()
                await asyncio.wait_for(woken.wait(), WITHIN_S)
            loop.remove_reader(bench.executor.fileno())

        asyncio.run(wait())

    # --- stopping --------------------------------------------------------------------------------------

    def test_stop_sends_sigterm_to_every_worker(self, bench: Bench) -> None:
        bench.shell("exec sleep 600", workers=3)
        bench.up()
        bench.executor.stop(R1)
        gone = bench.gone()
        assert gone.stopped
        assert not gone.killed
        assert gone.first_failed is None
        assert [(each.signal, each.was_signalled) for each in gone.exits] == [(15, True)] * 3

    def test_a_worker_may_save_and_choose_its_exit_code(self, bench: Bench) -> None:
        top = bench.top
        bench.shell(
            f"trap 'echo saved > {top}/saved; exit 75' TERM; touch {top}/on; while :; do sleep 0.01; done"
        )
        until((top / "on").exists)
        bench.executor.stop(R1)
        gone = bench.gone()
        assert (gone.exits[0].code, gone.exits[0].was_signalled, gone.stopped) == (75, True, True)
        assert (top / "saved").exists()

    def test_a_worker_that_ignores_sigterm_is_killed_after_the_grace(self, bench: Bench) -> None:
        bench.shell(f"trap '' TERM; touch {bench.top}/on; while :; do sleep 0.01; done")
        until((bench.top / "on").exists)
        begun = monotonic()
        bench.executor.stop(R1, grace_s=0.4)
        gone = bench.gone()
        assert monotonic() - begun >= 0.4
        assert (gone.exits[0].signal, gone.killed, gone.stopped) == (9, True, True)

    def test_a_second_stop_may_shorten_the_grace_but_not_lengthen_it(self, bench: Bench) -> None:
        bench.shell(f"trap '' TERM; touch {bench.top}/on; while :; do sleep 0.01; done")
        until((bench.top / "on").exists)
        begun = monotonic()
        bench.executor.stop(R1, grace_s=600)
        bench.executor.stop(R1, grace_s=0.1)
        bench.executor.stop(R1, grace_s=600)
        assert bench.gone().killed
        assert monotonic() - begun < WITHIN_S

    def test_a_child_of_a_shell_that_dies_at_once_has_the_whole_grace_to_save(self, bench: Bench) -> None:
        saver = (
            "import os, signal, sys, time; top = sys.argv[1]\n"
            "signals = []; signal.signal(signal.SIGTERM, lambda *_: signals.append(1))\n"
            "open(top + '/on', 'w').close()\n"
            "while not signals: time.sleep(0.005)\n"
            "time.sleep(0.5)\n"
            "open(top + '/saved', 'w').write(str(len(signals)))\n"
        )
        bench.shell(f'{sys.executable} -c "$SAVER" {bench.top}; true', env={**os.environ, "SAVER": saver})
        until((bench.top / "on").exists)
        bench.executor.stop(R1)
        gone = bench.gone()
        assert gone.stopped
        assert gone.status == 143
        assert (bench.top / "saved").read_text() == "1"  # it got the signal only once

    def test_a_run_stopped_as_it_starts_ends(self, bench: Bench) -> None:
        bench.shell("exec sleep 600")
        bench.executor.stop(R1)
        assert bench.gone().stopped

    def test_commands_for_unknown_or_ended_runs_do_nothing(self, bench: Bench) -> None:
        bench.executor.stop(RunId(99))
        bench.executor.forget(RunId(99))
        bench.shell("exit 0")
        gone = bench.gone()
        bench.executor.stop(R1)
        bench.collect(0.1)
        assert bench.updates[-1] is gone

    # --- gangs -----------------------------------------------------------------------------------------

    def test_when_one_worker_fails_the_others_are_stopped(self, bench: Bench) -> None:
        script = 'if [ $TIRESIAS_WORKER = 1 ]; then echo "I broke"; exit 3; fi; exec sleep 600'
        bench.shell(script, workers=3)
        gone = bench.gone()
        assert (gone.first_failed, gone.status, gone.stopped, gone.tail) == (1, 3, False, "I broke")
        assert [each.was_signalled for each in gone.exits] == [True, False, True]

    def test_a_worker_that_is_done_does_not_stop_the_others(self, bench: Bench) -> None:
        script = (
            f"[ $TIRESIAS_WORKER = 0 ] && exit 0; until [ -e {bench.top}/go ]; do sleep 0.01; done; exit 0"
        )
        bench.shell(script, workers=2)
        bench.up()
        (bench.top / "go").touch()
        assert [(each.code, each.was_signalled) for each in bench.gone().exits] == [(0, False)] * 2

    def test_each_worker_has_its_own_session(self, bench: Bench) -> None:
        bench.start(*PYTHON, "import os; print(os.getpid() == os.getsid(0) == os.getpgid(0))", workers=2)
        bench.gone()
        assert [bench.output(worker=each) for each in range(2)] == ["True\n"] * 2

    # --- no process is left behind ---------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("prelude", "env"),
        [
            ("pass", "os.environ"),
            ("pass", "{}"),
            ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "{}"),
        ],
        ids=["by double fork", "and by a new environment", "and by ignoring SIGTERM"],
    )
    def test_escaped_processes_are_ended_before_the_run_is_gone(
        self, bench: Bench, prelude: str, env: str
    ) -> None:
        path = bench.top / "escapee"
        then = WAIT_FOR.format(path=str(path))
        bench.start(*escape(path, prelude=prelude, env=env, then=then))
        gone = bench.gone()
        assert not is_alive(int(path.read_text()))
        assert (gone.status, gone.escaped) == (0, 1)

    def test_escaped_processes_of_a_stopped_run_are_ended_too(self, bench: Bench) -> None:
        path = bench.top / "escapee"
        bench.start(*escape(path, then="import time; time.sleep(600)"))
        pid = int(bench.file("escapee"))
        assert is_alive(pid)
        bench.executor.stop(R1)
        assert bench.gone().stopped
        assert not is_alive(pid)

    # --- the environment of workers --------------------------------------------------------------------

    def test_output_is_one_file_per_worker_and_never_truncated(self, bench: Bench) -> None:
        spec = bench.spec("/bin/sh", "-c", "echo out $TIRESIAS_WORKER; echo err >&2", workers=2)
        spec.run_dir.mkdir(parents=True)
        spec.log(0).write_text("before\n")
        bench.executor.start(spec)
        bench.gone()
        assert (bench.output(), bench.output(worker=1)) == ("before\nout 0\nerr\n", "out 1\nerr\n")
        bench.shell("echo again", run=2)
        bench.gone(2)
        assert (bench.output(), bench.output(run=2)) == ("before\nout 0\nerr\n", "again\n")

    def test_standard_input_is_empty_and_no_descriptor_leaks(self, bench: Bench) -> None:
        leak = os.open(os.devnull, os.O_RDONLY)
        os.set_inheritable(leak, True)
        script = "import os; print(sorted(os.listdir('/proc/self/fd')), os.readlink('/proc/self/fd/0'))"
        bench.start(*PYTHON, script)
        bench.gone()
        os.close(leak)
        assert bench.output() == "['0', '1', '2', '3'] /dev/null\n"  # 3 is the listing's own

    def test_no_signal_is_blocked_or_ignored(self, bench: Bench) -> None:
        bench.start("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
        bench.gone()
        libc = 1 << 31 | 1 << 32  # two that the C library keeps for itself
        assert {int(line.split()[1], 16) & ~libc for line in bench.output().splitlines()} == {0}

    def test_the_environment_describes_the_run(self, bench: Bench) -> None:
        bench.shell(
            "echo $TIRESIAS_RUN_ID $TIRESIAS_SLOTS $TIRESIAS_WORKER/$TIRESIAS_WORKERS; env -0 >/dev/null"
        )
        bench.gone()
        assert bench.output() == "1 n0:0 0/1\n"

    def test_a_job_may_write_in_its_run_directory(self, bench: Bench) -> None:
        spec = bench.shell('echo 1 > "$TIRESIAS_RUN_DIR/progress"')
        assert bench.gone().status == 0
        assert (spec.job_dir / "progress").exists()

    def test_workers_of_one_gang_agree_on_a_port_and_gangs_do_not(self, bench: Bench) -> None:
        bench.shell("echo $MASTER_ADDR:$MASTER_PORT; exec sleep 600", workers=2)
        bench.shell("echo $MASTER_ADDR:$MASTER_PORT; exec sleep 600", run=2)
        logs = [bench.specs[R1].log(0), bench.specs[R1].log(1), bench.specs[R2].log(0)]
        until(lambda: all(log.exists() and log.read_text() for log in logs))
        first, second, other = (log.read_text() for log in logs)
        assert first == second != other

    # --- a run that cannot start exits with an error ---------------------------------------------------

    @pytest.mark.parametrize(
        ("command", "says"),
        [
            (("no-such-program",), "program 'no-such-program' not found in PATH="),
            (("./no-such-script",), "program './no-such-script' not found in "),
            (("./not-executable",), "'./not-executable' may not be executed: permission denied"),
            (("./no-first-line",), "a script needs a first line"),
            (("./bad-first-line",), "interpreter named in its first line does not exist"),
            (("echo", "a\0b"), "null"),
            ((), "the command is empty"),
        ],
    )
    def test_a_program_that_cannot_run_is_an_exit_with_an_error(
        self, bench: Bench, command: tuple[str, ...], says: str
    ) -> None:
        for name, text, mode in (
            ("not-executable", "#!/bin/sh\n", 0o644),
            ("no-first-line", "exit 0\n", 0o755),
            ("bad-first-line", "#!/no/such/interpreter\n", 0o755),
        ):
            (bench.top / name).write_text(text)
            (bench.top / name).chmod(mode)
        bench.start(*command, workers=2)
        gone = bench.gone()
        assert says in gone.error
        assert gone.status == 127
        assert not any(isinstance(each, RunUp) for each in bench.updates)

    def test_a_missing_working_directory_is_an_exit_with_an_error(self, bench: Bench) -> None:
        bench.shell("exit 0", cwd="/no/such/directory")
        gone = bench.gone()
        assert "cannot enter the working directory '/no/such/directory': no such file" in gone.error
        assert "cannot enter" in bench.output()

    # --- after a restart of the manager ----------------------------------------------------------------

    def test_a_living_run_is_adopted(self, bench: Bench) -> None:
        spec = bench.shell(f"until [ -e {bench.top}/go ]; do sleep 0.01; done; exit 7")
        bench.up()
        with self.open(bench.top / "executor") as executor:
            later = Bench(executor, bench.top)
            assert executor.adopt([spec]).running == [R1]
            executor.start(spec)
            later.up()
            (bench.top / "go").touch()
            assert later.gone().status == 7
            assert len(later.updates) == 2

    def test_an_adopted_run_can_be_stopped(self, bench: Bench) -> None:
        spec = bench.shell("exec sleep 600")
        bench.up()
        with self.open(bench.top / "executor") as executor:
            later = Bench(executor, bench.top)
            executor.adopt([spec])
            executor.stop(R1)
            assert later.gone().stopped

    def test_a_run_that_ended_meanwhile_is_reported_again_until_it_is_forgotten(self, bench: Bench) -> None:
        spec = bench.shell("exit 5")
        first = bench.gone()
        for _ in range(2):
            with self.open(bench.top / "executor") as executor:
                later = Bench(executor, bench.top)
                assert executor.adopt([spec]).gone == [R1]
                assert later.gone() == first
        bench.executor.forget(R1)
        bench.collect(0.1)
        assert len(bench.updates) == 2

    def test_a_run_that_never_began_can_be_started(self, bench: Bench) -> None:
        spec = bench.spec("/bin/sh", "-c", "exit 4")
        assert bench.executor.adopt([spec]).absent == [R1]
        bench.executor.start(spec)
        assert bench.gone().status == 4

    def test_a_run_that_was_stopped_before_it_began_never_begins(self, bench: Bench) -> None:
        spec = bench.spec("/bin/sh", "-c", f"touch {bench.top}/ran")
        bench.executor.adopt([spec])
        bench.executor.stop(R1)
        gone = bench.gone()
        assert (gone.stopped, gone.exits) == (True, ())
        with self.open(bench.top / "executor") as executor:
            executor.start(spec)
            assert Bench(executor, bench.top).gone() == gone
        assert not (bench.top / "ran").exists()

    def test_closing_does_not_affect_runs(self, bench: Bench) -> None:
        with self.open(bench.top / "executor") as executor:
            spec = Bench(executor, bench.top).shell(
                f"until [ -e {bench.top}/go ]; do sleep 0.01; done; exit 6"
            )
        (bench.top / "go").touch()
        bench.specs[R1] = spec
        bench.executor.adopt([spec])
        bench.executor.start(spec)  # in case it had not even begun
        assert bench.gone().status == 6
