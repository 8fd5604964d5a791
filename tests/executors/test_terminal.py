"""A run with a terminal: what is typed reaches it, and what it shows is in its log, whoever is attached."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tiresias.core.model import RunId
from tiresias.executors.base import RunSpec
from tiresias.executors.local import LocalExecutor
from tiresias.executors.terminal import Terminal
from tiresias.testing.executors import Bench, processes_of, until

R1 = RunId(1)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    executor = LocalExecutor(tmp_path / "executor", linger_s=0.2)
    bench = Bench(executor, tmp_path)
    yield bench
    while PEOPLE:
        PEOPLE.pop().socket.close()
    for run_id in bench.specs:
        bench.executor.stop(run_id, grace_s=0.0)
    until(lambda: not processes_of(tmp_path), "no process of any run is left")
    bench.executor.close()


class Person:
    """Somebody at the terminal of a run."""

    def __init__(self, spec: RunSpec, session: bytes = b"person 1"):
        self.spec, self.session, self.number = spec, session, 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        directory = os.open(spec.part_dir, os.O_RDONLY)
        self.socket.connect(f"/proc/self/fd/{directory}/terminal")
        os.close(directory)
        PEOPLE.append(self)

    def types(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        assert self.sends(self.number, data) == b"a"
        self.number += 1

    def sends(self, number: int, data: bytes) -> bytes:
        self.socket.send(b"i" + self.session + number.to_bytes(8, "big") + data)
        return self.answer()

    def has_window(self, rows: int, columns: int) -> None:
        self.socket.send(b"w" + struct.pack(">HH", rows, columns))
        assert self.answer() == b"a"

    def answer(self) -> bytes:
        while (found := self.socket.recv(100)) == b"o":  # output, of which the log tells
            pass
        return found

    def sees(self, text: str) -> None:
        until(lambda: text in self.spec.log(0).read_text(errors="replace"), f"{text!r} on the screen")


PEOPLE: list[Person] = []  # whose sockets are closed after the test


def start(bench: Bench, *command: str, **changes: object) -> Person:
    spec = bench.start(*command, terminal=True, **changes)
    bench.up()
    return Person(spec)


def test_a_program_has_a_terminal_and_reads_what_is_typed(bench: Bench) -> None:
    person = start(bench, "/bin/sh", "-c", "tty; read name; echo hello $name; test -t 0 && test -t 1")
    person.sees("/dev/pts/")
    person.types("you\n")
    person.sees("hello you")
    assert bench.gone().status == 0


def test_a_breakpoint_stops_the_program_and_can_be_left(bench: Bench) -> None:
    script = bench.top / "script.py"
    script.write_text("x = 41\nbreakpoint()\nprint('done with', x)\n")
    person = start(bench, "python3", str(script))
    person.sees("(Pdb)")
    person.types("x += 1\n")
    person.types("continue\n")
    person.sees("done with 42")
    assert bench.gone().status == 0


def test_ctrl_c_interrupts_the_program_in_the_foreground_and_not_the_shell(bench: Bench) -> None:
    person = start(bench, "/bin/bash", "--norc", "-i")
    person.types("sh -c 'trap \"exit 7\" INT; echo read''y; while :; do sleep 0.05; done'\n")
    person.sees("ready")
    person.types("\x03")
    person.types("echo code $?\n")
    person.sees("code 7")
    person.types("exit\n")
    bench.gone()


def test_ctrl_z_stops_a_program_that_the_shell_continues(bench: Bench) -> None:
    person = start(bench, "/bin/bash", "--norc", "-i")
    # It waits by itself: a shell whose child is stopped between vfork and exec cannot be stopped before that.
    person.types("sh -c 'echo begin$((1)); read line; :'\n")
    person.sees("begin1")
    person.types("\x1a")
    person.sees("Stopped")
    person.types("kill %1; fg; echo after$((1))\n")
    person.sees("after1")
    person.types("exit\n")
    bench.gone()


def test_a_program_without_a_shell_is_not_stopped_by_ctrl_z(bench: Bench) -> None:
    person = start(bench, "/bin/sh", "-c", "echo ready; read a; echo got $a")
    person.sees("ready")
    person.types("\x1a")
    person.types("it\n")
    person.sees("got it")
    bench.gone()


def test_the_size_of_the_window_is_that_of_who_came_last(bench: Bench) -> None:
    person = start(bench, "/bin/sh", "-c", "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
    person.sees("ready")
    person.has_window(50, 132)
    person.sees("50 132")
    other = Person(person.spec)
    other.has_window(30, 90)
    other.sees("30 90")


def test_who_goes_and_comes_again_finds_the_run_as_it_was(bench: Bench) -> None:
    person = start(bench, "/bin/sh")
    person.types("x=17\n")
    person.socket.close()
    later = Person(person.spec, b"person 2")
    later.types("echo $((x + 1))\n")
    later.sees("18")
    later.types("exit\n")
    assert bench.gone().status == 0


def test_the_terminal_outlives_the_manager(bench: Bench, tmp_path: Path) -> None:
    person = start(bench, "/bin/sh")
    bench.executor.close()
    person.types("echo still$((1))\n")
    person.sees("still1")
    bench.executor = LocalExecutor(tmp_path / "executor", linger_s=0.2)
    assert bench.executor.adopt([person.spec]).running == [R1]
    person.types("exit\n")
    assert bench.gone().status == 0


def test_input_that_is_sent_twice_is_typed_once(bench: Bench) -> None:
    person = start(bench, "/bin/cat")
    assert person.sends(0, b"once\n") == b"a"
    assert person.sends(0, b"once\n") == b"a"
    person.number = 1
    person.types("\x04")
    bench.gone()
    assert bench.output().replace("\r", "").count("once\n") == 2  # as it is typed, and from the program


def test_a_program_that_reads_nothing_refuses_more_than_a_buffer_and_loses_nothing(bench: Bench) -> None:
    person = start(bench, "/bin/sh", "-c", "stty raw -echo; echo ready; exec sleep 1000")
    person.sees("ready")
    for number in range(100):
        if person.sends(number, b"x" * 8192) == b"f":
            return
    pytest.fail("all input was accepted, though nobody reads it")


def test_a_shell_ends_when_the_run_is_stopped_and_its_program_may_save(bench: Bench) -> None:
    person = start(bench, "/bin/bash", "--norc", "-i")
    person.types("sh -c 'trap \"echo sav''ed; exit\" TERM; echo read''y; while :; do sleep 0.05; done'\n")
    person.sees("ready")
    bench.executor.stop(R1, grace_s=15.0)
    gone = bench.gone()
    assert "saved" in bench.output()
    assert gone.stopped
    assert not gone.killed


@pytest.fixture
def heeds_hangups() -> Iterator[None]:
    """The tests may run under nohup, and then all processes that they start would ignore SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heeds_hangups")
@pytest.mark.parametrize("signal_from", ["the end", "the window"])
def test_a_group_whose_number_was_that_of_the_foreground_gets_no_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal_from: str
) -> None:
    """The foreground of a terminal may be gone, and its number that of a group of another user."""
    trapping = "trap 'exit 1' WINCH TERM CONT; trap 'exit 3' RTMIN; echo; while :; do sleep 0.05; done"
    terminal = Terminal(str(tmp_path), select.poll(), {})
    with (
        subprocess.Popen(
            ["/bin/bash", "-c", trapping], stdout=subprocess.PIPE, start_new_session=True
        ) as stranger,
        subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) as shell,
        closing(terminal._listening),
    ):
        assert stranger.stdout is not None
        stranger.stdout.readline()
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: stranger.pid)
        try:
            if signal_from == "the end":
                terminal.end(shell.pid)
                assert shell.wait(20) == -signal.SIGHUP, "nothing of its own is in the foreground"
            else:
                terminal._resize(30, 90)
            stranger.send_signal(signal.SIGRTMIN)
            assert stranger.wait(20) == 3, "this is the only signal that it got"
        finally:
            stranger.kill()
            shell.kill()
    for fd in (terminal.master, terminal.slave, terminal._directory):
        os.close(fd)


def test_only_the_user_of_the_manager_may_open_the_socket(bench: Bench) -> None:
    person = start(bench, "/bin/cat")
    path = person.spec.part_dir / "terminal"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_uid == os.getuid()
    bench.executor.stop(R1, grace_s=5.0)
    bench.gone()
    assert not path.exists()


def test_a_long_path_is_no_obstacle(bench: Bench) -> None:
    far = bench.top / ("d" * 100) / ("e" * 100) / "1"
    spec = bench.start("/bin/cat", terminal=True, run_dir=far)
    bench.up()
    until((far / "terminal").is_socket)
    bench.executor.stop(spec.run_id, grace_s=5.0)
    bench.gone()


def test_when_the_supervisor_is_killed_the_program_is_hung_up(bench: Bench) -> None:
    person = start(bench, "/bin/bash", "--norc", "-i")
    person.types("echo in$((1))\n")
    person.sees("in1")
    os.kill(bench.executor._runs[R1].pid, signal.SIGKILL)  # type: ignore[attr-defined]
    assert bench.gone().lost


# --- runs that nobody uses ------------------------------------------------------------------------------


def test_a_run_that_nobody_uses_is_warned_and_ended(bench: Bench) -> None:
    person = start(bench, "/bin/bash", "--norc", "-i", idle_limit_s=1.0)
    gone = bench.gone()
    assert gone.idle
    assert gone.stopped
    screen = person.spec.log(0).read_text()
    assert screen.index("it is ended in") < screen.rindex("it is ended]")


def test_typing_and_output_count_as_use(bench: Bench) -> None:
    script = "for i in $(seq 30); do echo $i; sleep 0.1; done"
    person = start(bench, "/bin/sh", "-c", script, idle_limit_s=1.0)
    assert not bench.gone().idle
    assert "ended" not in person.spec.log(0).read_text()


def test_processor_time_counts_as_use(bench: Bench) -> None:
    busy = "import time; e = time.monotonic() + 3\nwhile time.monotonic() < e: pass"
    start(bench, "python3", "-c", busy, idle_limit_s=1.0)
    assert not bench.gone().idle


def test_a_run_that_says_itself_when_it_is_used_is_believed(bench: Bench) -> None:
    """A notebook server takes processor time even if nobody uses it."""
    busy = "import time; e = time.monotonic() + 60\nwhile time.monotonic() < e: pass"
    script = f"touch $TIRESIAS_RUN_DIR/active; exec python3 -c '{busy}'"
    bench.shell(script, idle_limit_s=1.0)
    assert bench.gone().idle


def test_while_it_says_so_it_goes_on(bench: Bench) -> None:
    script = "for i in $(seq 30); do touch $TIRESIAS_RUN_DIR/active; sleep 0.1; done"
    bench.shell(script, idle_limit_s=1.0)
    assert not bench.gone().idle
