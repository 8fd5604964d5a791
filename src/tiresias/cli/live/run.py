"""`tir run` and `tir wait`: wait until a job has ended, and exit with its code.

Ctrl-C never loses work by accident: a second one within two seconds cancels the job, as the message after the
first says; otherwise the command ends, and the job continues. With --cancel-on-interrupt the first one
cancels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tiresias.cli import errors
from tiresias.cli.console import echo, notify
from tiresias.cli.declare import CommandLine, Option
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import Key, MaybeReferences, connected, home_of, print_json
from tiresias.cli.live.job_options import JobOptions, takes_job_options
from tiresias.cli.live.signals import Deadline, out_of_time
from tiresias.cli.live.submit import Words, send
from tiresias.cli.live.times import duration_s
from tiresias.cli.live.trailing_command import split
from tiresias.cli.plugins import AsOutput, Output

if TYPE_CHECKING:
    from tiresias.api.client import Client

LOOK_AGAIN_S = 0.5
MANY = 10  # jobs, from which on a message counts them
SECOND_THOUGHTS_S = 2.0
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")

TimeoutOption = Annotated[
    str | None,
    Option(
        "--timeout", metavar="1h", help="Longest time to wait. Then exit with code 124; the job continues."
    ),
]


@takes_job_options
def run(
    line: CommandLine,
    job: JobOptions,
    parts: Words = None,
    cancel_on_interrupt: Annotated[
        bool, Option("--cancel-on-interrupt", help="Cancel the job on the first Ctrl-C.")
    ] = False,
    timeout: TimeoutOption = None,
    key: Key = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only the output of the job.")] = False,
) -> None:
    """Submit a job, follow its output, exit with its code.

    After one Ctrl-C the job continues without this command; a second one cancels it. A failed job is not
    retried unless --retries is given. With --pty this terminal becomes that of the job.
    """
    from tiresias.cli.live import preparation

    source = preparation.read_source(*split(line, parts or []), job)
    if source.options.text("array") or source.options.texts("sweep"):
        raise Stop("tir run follows one job; submit an array or a sweep with tir submit")
    if source.options.is_set("pty"):
        from tiresias.cli.live.terminal import run_in_terminal

        if timeout is not None or cancel_on_interrupt:
            raise Stop("with --pty, --timeout and --cancel-on-interrupt mean nothing; leave them out")
        run_in_terminal(source, key, quiet)
        return
    source.options = source.options.over(JobOptions.of(retries="0"))
    patience_s = None if timeout is None else duration_s(timeout, "--timeout")
    say = (lambda text: None) if quiet else _say
    with connected() as client:
        prepared = preparation.prepare(source, client, home_of())
        if not quiet:
            notify(prepared.notes)
        [id] = send(client, prepared, key)["ids"]
        say(f"job {id}")
        if sys.stdin is not None and sys.stdin.isatty():
            say("standard input is closed for it: a program that asks for input needs --pty")
        watched = Watched(client, id, say)
        with _interruptible(watched, cancel_on_interrupt), out_of_time(Deadline(patience_s, f"job {id}")):
            watched.follow()
            ended = watched.until_ended()
    _leave(ended, say)


def wait(
    refs: MaybeReferences = None,
    everything: Annotated[
        bool, Option("--all", help="Wait for all jobs of yours that are active now.")
    ] = False,
    timeout: TimeoutOption = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print nothing.")] = False,
    output: AsOutput = Output.TABLE,
) -> None:
    """Wait until jobs have ended.

    The exit code is that of the first job that failed, or 0.
    """
    patience_s = None if timeout is None else duration_s(timeout, "--timeout")
    with connected() as client:
        ids = _awaited(client, refs or [], everything)
        with out_of_time(Deadline(patience_s, _called(ids))):
            ended = [Watched(client, id, lambda text: None).until_ended() for id in ids]
    if output is Output.JSON:
        print_json([each["summary"] for each in ended])
    elif not quiet:
        for each in ended:
            echo(outcome(each))
    codes = [exit_code(each) for each in ended]
    raise Stop("", next((code for code in codes if code), 0))


def _awaited(client: Client, refs: list[str], everything: bool) -> list[int]:
    if everything and refs:
        raise Stop("--all waits for all of your jobs; name jobs or give --all, not both")
    if everything:
        user = client.whoami()["user"]
        return [int(job["id"]) for job in client.jobs(user=user)]
    if not refs:
        raise Stop("name the jobs to wait for by id, name, array or pattern, or wait for all: tir wait --all")
    ids = [id for ref in refs for id in client.find(ref)]
    for id in ids:
        client.job(id)  # there is such a job, and it is the caller's
    return list(dict.fromkeys(ids))


def _called(ids: list[int]) -> str:
    return f"job {', '.join(map(str, ids))}" if len(ids) < MANY else f"one of {len(ids)} jobs"


@dataclass(slots=True)
class Watched:
    """A job that this command follows; `say` prints what the log does not contain."""

    client: Client
    id: int
    say: Callable[[str], None]

    def follow(self) -> None:
        """Copy the output of all runs to stdout until the job has ended."""
        self._until_first_run()
        last = None
        for chunk in self.client.follow_logs(self.id, run=1):
            if last not in (None, chunk.run):
                self.say(f"run {chunk.run} of job {self.id}")
            last = chunk.run
            write(chunk.data)

    def _until_first_run(self) -> None:
        """Print why the job waits, whenever that changes."""
        said = ""
        while True:
            job = self.client.job(self.id)
            if job["summary"]["runs"] or job["summary"]["phase"] in ENDED:
                return
            if (text := job["why"]["text"]) != said and job["summary"]["phase"] in ("PENDING", "HELD"):
                self.say(f"job {self.id} waits: {text}")
                said = text
            time.sleep(LOOK_AGAIN_S)

    def until_ended(self) -> dict[str, Any]:
        """The job, once it has ended."""
        while True:
            job: dict[str, Any] = self.client.job(self.id)
            if job["summary"]["phase"] in ENDED:
                return job
            time.sleep(LOOK_AGAIN_S)


@contextmanager
def _interruptible(watched: Watched, cancels_at_once: bool) -> Iterator[None]:
    id = watched.id
    try:
        yield
    except KeyboardInterrupt:
        if not cancels_at_once:
            try:  # the second Ctrl-C may come before the sleep
                _say(
                    f"\ninterrupted: job {id} continues. Ctrl-C again within {SECOND_THOUGHTS_S:g} s"
                    f" cancels it.  Later: tir logs -f {id}, tir cancel {id}"
                )
                time.sleep(SECOND_THOUGHTS_S)
            except KeyboardInterrupt:
                pass
            else:
                raise Stop("", errors.INTERRUPTED) from None
        watched.client.cancel(id)
        _say(f"job {id} is being cancelled")
        watched.until_ended()
        raise Stop("", errors.INTERRUPTED) from None


def exit_code(job: dict[str, Any]) -> int:
    """The exit code of a command that waits for the job."""
    of = job["summary"]
    if of["phase"] == "SUCCEEDED":
        return 0
    return int(of["exit_code"] or errors.FAILED) if of["phase"] == "FAILED" else errors.FAILED


def write(data: bytes) -> None:
    """Write the job's output to stdout, unchanged."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _leave(job: dict[str, Any], say: Callable[[str], None]) -> None:
    if code := exit_code(job):
        say(outcome(job))
        raise Stop("", code)


def outcome(job: dict[str, Any]) -> str:
    """How a job ended, in a line."""
    of = job["summary"]
    why = job["runs"][-1]["sentence"] if job["runs"] else job["why"]["text"]
    name = f" ({of['name']})" if of["name"] else ""
    return f"job {of['id']}{name}: {of['phase']}" + (f": {why}" if of["phase"] == "FAILED" and why else "")


def _say(text: str) -> None:
    echo(text, err=True)
