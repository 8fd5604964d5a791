"""`tir submit`: submit jobs to the manager, each exactly once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from tiresias.cli import errors
from tiresias.cli.console import echo, notify
from tiresias.cli.declare import Argument, CommandLine, Option
from tiresias.cli.errors import Stop
from tiresias.cli.live import job_text
from tiresias.cli.live.connection import Key, connected, home_of, print_json
from tiresias.cli.live.job_options import JobOptions, takes_job_options
from tiresias.cli.live.trailing_command import split
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import count

if TYPE_CHECKING:
    from tiresias.api.client import Client
    from tiresias.cli.live.preparation import Prepared
    from tiresias.cli.live.snapshot import Snapshot

Words = Annotated[
    list[str] | None,
    Argument(metavar="JOB.yaml | SCRIPT.sh | -- COMMAND", help="What to run."),
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only the ids.")]


@takes_job_options
def submit(
    line: CommandLine,
    job: JobOptions,
    parts: Words = None,
    dry_run: Annotated[
        bool,
        Option(
            "--dry-run",
            help="Print where the job would run now and which jobs it would displace; submit nothing.",
        ),
    ] = False,
    key: Key = None,
    quiet: Quiet = False,
    output: AsOutput = Output.TABLE,
) -> None:
    """Submit a job and print its id.

    The job runs in this directory with this environment. It may be stopped and resumed to make room for
    other jobs. Its output is kept: tir logs ID.
    """
    from tiresias.api.client import PartlySubmitted, new_key
    from tiresias.cli.live import preparation

    source = preparation.read_source(*split(line, parts or []), job)
    with connected() as client:
        prepared = preparation.prepare(source, client, home_of(), is_trial=dry_run)
        if not quiet:
            notify(prepared.notes)
        if dry_run:
            _print_trials(prepared, [client.dry_run(_single(each)) for each in prepared.jobs], output)
            return
        key = key or new_key()
        try:
            answer = send(client, prepared, key)
        except PartlySubmitted as error:
            _print_ids(error.answer, output)
            error.message += f"; repeat the command with --key {key}, which submits only these"
            raise
    ids = answer["ids"]
    if not quiet:
        notify(answer.get("warnings", ()))
    _print_ids(answer, output)
    if output is not Output.JSON and not quiet and sys.stderr.isatty():
        echo(_next_steps(ids, answer["arrays"]), err=True)


def _print_ids(answer: dict[str, Any], output: Output) -> None:
    ids = answer["ids"]
    if output is Output.JSON:
        print_json({"id": ids[0], "ids": ids, "arrays": answer["arrays"]})
        return
    for id in ids:
        echo(str(id))


def send(client: Client, prepared: Prepared, key: str | None) -> dict[str, Any]:
    """Submit exactly once, even if the connection breaks. After a refusal the copy of the tree is removed,
    unless some jobs were submitted before it, which run in the copy.
    """
    from tiresias.api.client import ApiError, PartlySubmitted, new_key
    from tiresias.api.transport import Broken

    key = key or new_key()
    body = prepared.jobs[0] if len(prepared.jobs) == 1 else prepared.jobs
    try:
        answer = client.submitted(body, key)
    except Broken as error:
        raise Stop(
            f"{error.message}\nIt is not known what was submitted. Repeat the command with --key {key}: that"
            " submits every job exactly once.",
            errors.UNREACHABLE,
        ) from None
    except ApiError as error:
        if prepared.snapshot is not None and not isinstance(error, PartlySubmitted):
            prepared.snapshot.remove()
        raise
    if prepared.snapshot is not None:
        _tidy_up(client, prepared.snapshot, answer["ids"])
    return answer


def _tidy_up(client: Client, copy: Snapshot, ids: Sequence[int]) -> None:
    """Remove old copies in the user's home; a manager removes only those in its own home."""
    from tiresias.api.client import ApiError
    from tiresias.cli.live import snapshot

    if copy.root.parent != snapshot.own() or copy.root.is_relative_to(home_of()):
        return

    def has_ended(id: int) -> bool:
        try:
            return bool(client.job(id)["summary"]["phase"] in job_text.ENDED)
        except ApiError as error:
            return error.code == "not-found"

    copy.note_jobs(home_of(), ids)
    snapshot.tidy(snapshot.own(), home_of(), has_ended)


def _single(job: dict[str, Any]) -> dict[str, Any]:
    """One job of an array, in place of all."""
    return {key: value for key, value in job.items() if key != "array"}


def _next_steps(ids: Sequence[int], arrays: Sequence[str]) -> str:
    first = f"tir logs -f {ids[0]}"
    if len(ids) == 1:
        return f"submitted job {ids[0]}; follow it: {first}   why it waits: tir why {ids[0]}"
    them = f" {' '.join(arrays)}" if arrays else ""
    return f"submitted {len(ids):,} jobs, {ids[0]} to {ids[-1]}; see them: tir ls{them}   follow one: {first}"


def _print_trials(prepared: Prepared, trials: Sequence[dict[str, Any]], output: Output) -> None:
    if output is Output.JSON:
        print_json(trials[0] if len(trials) == 1 else list(trials))
        return
    for job, each in zip(prepared.jobs, trials, strict=True):
        of = f"each of {count(len(job['array']['indices']), 'job')}" if "array" in job else "it"
        name = f"{job['name']}: " if len(prepared.jobs) > 1 else ""
        echo(f"{name}{_trial(each, of)}")


def _trial(trial: dict[str, Any], of: str) -> str:
    """What would happen to the job, in a sentence or two."""
    displaced = ", ".join(map(str, trial["displaces"]))
    if trial["starts_now"]:
        return f"{of} would start now on {', '.join(trial['slots'])}"
    if displaced:
        where = f" on {', '.join(trial['slots'])}" if trial["slots"] else ""
        return f"{of} would start{where} as soon as these jobs have stopped: {displaced}"
    why = trial["why"] or {"text": "no reason is known", "next_step": ""}
    return f"{of} would wait; {why['text']}" + (f"\n{why['next_step']}" if why["next_step"] else "")
