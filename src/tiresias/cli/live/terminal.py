"""`tir attach`, `tir shell` and the end of `tir run --pty`: this terminal becomes that of a job.

Everything that is typed goes to the job, Ctrl-C and Ctrl-Z too, except the one key that detaches. Whoever
detaches, or loses the connection, leaves the job as it is and can attach again.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from tiresias.cli import errors
from tiresias.cli.console import echo, notify
from tiresias.cli.declare import Option
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import Reference, connected, home_of
from tiresias.cli.live.job_options import JobOptions, takes_job_options
from tiresias.cli.live.run import ENDED, Watched, exit_code, outcome, write

if TYPE_CHECKING:
    from tiresias.api.client import Client

DETACH_KEY, DETACH_NAME = b"\x1d", "Ctrl-]"
READ_BYTES = 16 * 1024
PATIENCE_S = 60.0  # with a manager that does not answer
TRY_AGAIN_S = 0.5
LOOK_AGAIN_S = 0.1
NO_TERMINAL = "standard input is not a terminal"


def attach(ref: Reference) -> None:
    """Attach to the terminal of a job that was submitted with --pty.

    Ctrl-] detaches; the job continues.
    """
    must_have_terminal("tir attach")
    with connected() as client:
        [id] = client.find(ref)
        must_have_pty(client, id)
        work_in(client, id, is_first=False, say=_say)


@takes_job_options
def shell(
    job: JobOptions,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only what the shell prints.")] = False,
) -> None:
    """Work in a shell on GPUs of your own: tir run --pty -- $SHELL.

    The job is not preempted. It ends with the shell, or when nobody has used it for a while. Ctrl-] detaches.
    """
    from tiresias.cli.live import preparation

    command = [os.environ.get("SHELL") or "/bin/sh"]
    named = JobOptions.of(name=job.text("name") or "shell", pty=True)
    source = preparation.read_source([], command, named.over(job))
    if source.options.text("array") or source.options.texts("sweep"):
        raise Stop("a shell is one job; leave --array and --sweep out")
    must_have_terminal("tir shell")
    run_in_terminal(source, None, quiet)


def run_in_terminal(source: Any, key: str | None, quiet: bool) -> None:
    """Submit a job with a terminal, and work in it."""
    from tiresias.cli.live import preparation
    from tiresias.cli.live.submit import send

    must_have_terminal("--pty")
    say = (lambda text: None) if quiet else _say
    with connected() as client:
        prepared = preparation.prepare(source, client, home_of())
        if not quiet:
            notify(prepared.notes)
        [id] = send(client, prepared, key)["ids"]
        say(f"job {id}; {DETACH_NAME} detaches")
        work_in(client, id, is_first=True, say=say)


def must_have_terminal(what: str) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        instead = "leave it out" if what.startswith("-") else "call it in a terminal"
        raise Stop(f"{what} connects this terminal with the job, and {NO_TERMINAL}; {instead}")


def must_have_pty(client: Client, id: int) -> None:
    if not client.job(id).get("pty"):
        raise Stop(f"job {id} has no terminal; submit it with --pty, or see its output: tir logs -f {id}")


def work_in(client: Client, id: int, *, is_first: bool, say: Callable[[str], None]) -> None:
    """Wait for the job, be its terminal, and exit with its code; or leave it, if the user detaches."""
    with _cancelled_if_left(client, id, is_first=is_first):
        _until_running(client, id, say)
    is_over = Attached(client, id, is_first=is_first).work()
    if not is_over:
        say(f"detached: job {id} continues. Attach again: tir attach {id}   end it: tir cancel {id}")
        return
    ended = Watched(client, id, say).until_ended()
    if code := exit_code(ended):
        say(outcome(ended))
        raise Stop("", code)


def _until_running(client: Client, id: int, say: Callable[[str], None]) -> None:
    """Print why the job waits, whenever that changes."""
    said = ""
    while True:
        job = client.job(id)
        phase = job["summary"]["phase"]
        if phase in ("RUNNING", "STOPPING", *ENDED):
            return
        if (text := job["why"]["text"]) != said and phase in ("PENDING", "SUSPENDED", "HELD"):
            say(f"job {id} waits: {text}")
            said = text
        time.sleep(LOOK_AGAIN_S)


@contextmanager
def _cancelled_if_left(client: Client, id: int, *, is_first: bool) -> Iterator[None]:
    """Cancel a job that nobody waits for any more: it would hold GPUs, and nobody would be there."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, leave) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        if is_first:
            client.cancel(id)
            _say(f"\njob {id} is cancelled: nobody waits for it any more")
        raise Stop("", errors.INTERRUPTED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Attached:
    """This terminal while it is that of a job."""

    def __init__(self, client: Client, id: int, *, is_first: bool):
        self._client, self._id, self._is_first = client, id, is_first
        self._wake_out, self._wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_over = False
        self._problem: Exception | None = None
        self._session, self._number = "", 0

    def work(self) -> bool:
        """True when the job has ended, False if the user has detached."""
        run, offset = self._attach()
        with _raw(self._wake):
            following = threading.Thread(target=self._follow, args=(run, offset), daemon=True)
            following.start()
            return self._type()

    def _attach(self) -> tuple[int, int]:
        """The run and the offset at which its output begins.

        A short job may be over before anybody can attach: then there is only its output to show.
        """
        from tiresias.api.client import ApiError

        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                there = self._client.attach(self._id, *_window())
            except ApiError as error:
                if error.status != 409 or time.monotonic() > give_up_at:
                    raise
                if self._client.job(self._id)["summary"]["phase"] in ENDED:
                    return 1, 0
                time.sleep(LOOK_AGAIN_S)  # its run has just ended, or is about to be there
            else:
                self._session = there["session"]
                return (1, 0) if self._is_first else (there["run"], there["offset"])

    def _follow(self, run: int, offset: int) -> None:
        """In a thread of its own: copy what the job writes to this terminal, until it has ended."""
        from tiresias.api.client import ApiError

        try:
            for chunk in self._client.follow_logs(self._id, run=run, offset=offset):
                write(chunk.data)
            self._is_over = True
        except (ApiError, OSError) as error:  # the thread that waits must tell the user
            self._problem = error
        self._wake()

    def _wake(self, *_: object) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_in, b"w")

    def _type(self) -> bool:
        """Send what is typed, until the job has ended or the user detaches."""
        stdin = sys.stdin.fileno()
        size = _window()
        while True:
            ready, _, _ = select.select([stdin, self._wake_out], [], [])
            if self._wake_out in ready:
                os.read(self._wake_out, 4096)
                if self._problem is not None:
                    raise self._problem
                if self._is_over:
                    return True
                if (now := _window()) != size:
                    size = now
                    self._send(partial(self._client.resize, self._id, *size))
            if stdin in ready:
                typed = os.read(stdin, READ_BYTES)
                typed, is_detached, _ = typed.partition(DETACH_KEY) if typed else (b"", b"\x1d", b"")
                if typed and self._session:
                    self._enter(typed)
                if is_detached:
                    return False

    def _enter(self, typed: bytes) -> None:
        self._send(partial(self._client.type_in, self._id, self._session, self._number, typed))
        self._number += 1

    def _send(self, request: Callable[[], None]) -> None:
        """Send, and again while no manager answers: the job goes on without one."""
        from tiresias.api.client import ApiError, Unreachable

        give_up_at = time.monotonic() + PATIENCE_S
        is_said = False
        while True:
            try:
                request()
                return
            except Unreachable:
                if time.monotonic() > give_up_at:
                    raise
                if not is_said:
                    is_said = True
                    write(b"\r\n[tiresias: no manager answers; the job goes on. Waiting for one]\r\n")
                time.sleep(TRY_AGAIN_S)
            except ApiError as error:
                if error.status == 409:  # the run is ending, of which the output tells
                    return
                if error.status != 503:
                    raise
                write(b"\a")  # as a terminal whose program does not read
                return


@contextmanager
def _raw(on_resize: Callable[..., None]) -> Iterator[None]:
    """Let this terminal pass on every key, and put it back in any case."""
    import termios
    import tty

    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    handlers = {number: signal.signal(number, leave) for number in (signal.SIGHUP, signal.SIGTERM)}
    handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, on_resize)
    try:
        tty.setraw(stdin, termios.TCSADRAIN)  # keeps what was typed while the job was waiting
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if sys.stdout.isatty():
            echo("")


def _window() -> tuple[int, int]:
    """Rows and columns of this terminal."""
    try:
        size = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        return 24, 80
    return max(1, size.lines), max(1, size.columns)


def _say(text: str) -> None:
    echo(text, err=True)
