"""`tir run` and `tir wait`: stay with a job until it has ended, and exit with its code.

Ctrl-C never loses work by accident: the first one says what a second one within two seconds does (cancel the
job); without it the command leaves, and the job goes on. With --cancel-on-interrupt the first one cancels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiresias.cli import errors
from tiresias.cli.console import notify
from tiresias.cli.errors import Stop
from tiresias.cli.live.commands import split
from tiresias.cli.live.job_options import JobOptions, takes_job_options
from tiresias.cli.live.signals import Deadline, out_of_time
from tiresias.cli.live.submit import Key, Words, send
from tiresias.cli.live.talking import References, home_of, print_json, talking
from tiresias.cli.live.times import duration_s
from tiresias.cli.plugins import AsOutput, Output

if TYPE_CHECKING:
    from tiresias.api.client import Client

LOOK_AGAIN_S = 0.5
SECOND_THOUGHTS_S = 2.0
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")

TimeoutOption = Annotated[
    str | None,
    typer.Option("--timeout", metavar="1h", help="Wait no longer: exit code 124, and the job goes on."),
]


@takes_job_options
def run(
    ctx: typer.Context,
    job: JobOptions,
    parts: Words = None,
    cancel_on_interrupt: Annotated[
        bool, typer.Option("--cancel-on-interrupt", help="Ctrl-C cancels the job at once.")
    ] = False,
    timeout: TimeoutOption = None,
    key: Key = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the job's output only.")] = False,
) -> None:
    """Submit a job, follow its log, exit with its code.

    Ctrl-C twice cancels the job; once, and the job goes on without you. Somebody watches, so a failure is
    final unless --retries says otherwise.
    """
    from tiresias.cli.live import drafts

    asked = drafts.understand(*split(ctx, parts or []), job)
    if asked.options.text("array") or asked.options.texts("sweep"):
        raise Stop("run follows one job; submit an array or a sweep with: tir submit")
    asked.options = asked.options.over(JobOptions.of(retries="0"))
    patience_s = None if timeout is None else duration_s(timeout, "--timeout")
    say = (lambda text: None) if quiet else _say
    with talking() as client:
        draft = drafts.make(asked, client, home_of())
        if not quiet:
            notify(draft.notes)
        [id] = send(client, draft, key)
        say(f"job {id}")
        watched = Watched(client, id, say)
        with _interruptible(watched, cancel_on_interrupt), out_of_time(Deadline(patience_s, f"job {id}")):
            watched.follow()
            ended = watched.until_ended()
    _leave(ended, say)


def wait(
    refs: References,
    timeout: TimeoutOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    output: AsOutput = Output.TABLE,
) -> None:
    """Wait until jobs have ended; exit with the first failed one's code."""
    patience_s = None if timeout is None else duration_s(timeout, "--timeout")
    with talking() as client:
        ids = [int(client.job(ref)["summary"]["id"]) for ref in refs]
        with out_of_time(Deadline(patience_s, f"job {', '.join(map(str, ids))}")):
            ended = [Watched(client, id, lambda text: None).until_ended() for id in ids]
    if output is Output.JSON:
        print_json([each["summary"] for each in ended])
    elif not quiet:
        for each in ended:
            typer.echo(_told(each))
    codes = [exit_code(each) for each in ended]
    raise typer.Exit(next((code for code in codes if code), 0))


@dataclass(slots=True)
class Watched:
    """A job that somebody looks at; `say` tells that person what the log does not."""

    client: Client
    id: int
    say: Callable[[str], None]

    def follow(self) -> None:
        """Copy the output of every run to stdout until the job has ended."""
        self._until_first_run()
        last = None
        for chunk in self.client.follow_logs(self.id, run=1):
            if last not in (None, chunk.run):
                self.say(f"run {chunk.run} of job {self.id}")
            last = chunk.run
            write(chunk.data)

    def _until_first_run(self) -> None:
        """Say why it waits, whenever that changes."""
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
        """The job's summary once it has ended."""
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
            try:  # whoever reads the message may press it before we sleep
                _say(
                    f"\ninterrupted: job {id} goes on. Ctrl-C again within {SECOND_THOUGHTS_S:g} s"
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
    """What a command that stood for the job exits with."""
    of = job["summary"]
    if of["phase"] == "SUCCEEDED":
        return 0
    return int(of["exit_code"] or errors.FAILED) if of["phase"] == "FAILED" else errors.FAILED


def write(data: bytes) -> None:
    """The job's own bytes, as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _leave(job: dict[str, Any], say: Callable[[str], None]) -> None:
    if code := exit_code(job):
        say(_told(job))
        raise typer.Exit(code)


def _told(job: dict[str, Any]) -> str:
    of = job["summary"]
    why = job["runs"][-1]["sentence"] if job["runs"] else job["why"]["text"]
    name = f" ({of['name']})" if of["name"] else ""
    return f"job {of['id']}{name}: {of['phase']}" + (f": {why}" if of["phase"] == "FAILED" and why else "")


def _say(text: str) -> None:
    typer.echo(text, err=True)
