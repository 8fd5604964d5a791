"""`tir cancel`, `hold`, `release`, `requeue`, `set`: change what becomes of jobs.

Rules: several jobs may be named; a refusal of one does not keep the others from being changed, and the exit
code is that of the first refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiresias.cli import errors
from tiresias.cli.errors import Stop
from tiresias.cli.live import words
from tiresias.cli.live.job_options import value_of
from tiresias.cli.live.jobs import ME
from tiresias.cli.live.talking import Reference, References, print_json, refused, talking
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import count
from tiresias.spec.job import BY_KEY, OPTIONAL

if TYPE_CHECKING:
    from tiresias.api.client import Client

CHANGES = {key: option for key, option in BY_KEY.items() if option.can_change}  # what `tir set` may change


def cancel(
    refs: Annotated[
        list[str] | None, typer.Argument(metavar="JOB…", help="Ids or names of jobs.", show_default=False)
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="USER", help="With --all: this user's (me: yours).")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every active job of the user.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: AsOutput = Output.TABLE,
) -> None:
    """Cancel jobs; what runs gets its grace to save."""
    with talking() as client:
        named = list(refs or [])
        act: Callable[[str], dict[str, Any]] = client.cancel
        if everything:
            if named:
                raise Stop("--all cancels all of a user's jobs; name jobs or give --all, not both")
            named, act = _all_of(client, user or ME), _cancel_unless_ended(client)
            if named and not yes:
                typer.confirm(f"Cancel {count(len(named), 'job')}?", abort=True, err=True)
        elif user is not None:
            raise Stop("--user goes with --all: tir cancel --all --user NAME")
        elif not named:
            raise Stop("name the jobs to cancel, by id or name; or all of yours: tir cancel --all")
        _each(client, named, act, output)


def hold(refs: References, output: AsOutput = Output.TABLE) -> None:
    """Keep jobs from running until they are released; what runs is stopped and keeps its work."""
    with talking() as client:
        _each(client, refs, lambda ref: client.hold(ref), output)


def release(refs: References, output: AsOutput = Output.TABLE) -> None:
    """Let held jobs run again."""
    with talking() as client:
        _each(client, refs, lambda ref: client.release(ref), output)


def requeue(refs: References, output: AsOutput = Output.TABLE) -> None:
    """Stop running jobs and put them back in line; they resume."""
    with talking() as client:
        _each(client, refs, lambda ref: client.requeue(ref), output)


def set_job(
    ref: Reference,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE…", help=f"Keys: {', '.join(CHANGES)}."),
    ],
    output: AsOutput = Output.TABLE,
) -> None:
    """Change a job: priority=low, time=12h, retries=5 …"""
    parsed = parse_changes(changes)
    with talking() as client:
        _each(client, [ref], lambda each: client.change(each, **parsed), output)


def parse_changes(texts: Sequence[str]) -> dict[str, Any]:
    """`time=12h` and so on, as the API takes them; `none` lifts a limit."""
    changes: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if key not in CHANGES or not equals:
            raise Stop(f"{text!r} is not understood; write KEY=VALUE with one of {', '.join(CHANGES)}")
        option = CHANGES[key]
        is_lifted = value == "none" and option.name in OPTIONAL
        changes[option.name] = None if is_lifted else value_of(option, value, key)
    return changes


def _all_of(client: Client, user: str) -> list[str]:
    whom = client.whoami()["user"] if user == ME else user
    return [str(job["id"]) for job in client.jobs(user=whom) if job["phase"] in words.ACTIVE]


def _cancel_unless_ended(client: Client) -> Callable[[str], dict[str, Any]]:
    """Cancel a job; one that has ended since it was listed is told as it is, not refused."""
    from tiresias.api.client import ApiError

    def act(ref: str) -> dict[str, Any]:
        try:
            return client.cancel(ref)
        except ApiError as error:
            if error.code != "conflict":
                raise
            summary: dict[str, Any] = client.job(ref)["summary"]
            return summary

    return act


def _each(client: Client, refs: Sequence[str], act: Callable[[str], dict[str, Any]], output: Output) -> None:
    """Do it to every job, say what became of each, and end with the first refusal's code."""
    from tiresias.api.client import ApiError, Unreachable

    done: list[dict[str, Any]] = []
    refusals: list[Stop] = []
    for ref in refs:
        try:
            job = act(ref)
        except Unreachable:
            raise
        except ApiError as error:
            refusals.append(refused(error))
            continue
        done.append(job)
        if output is not Output.JSON:
            name = f" ({words.plain(job['name'])})" if job["name"] else ""
            typer.echo(f"job {job['id']}{name}: {job['phase']}")
    if output is Output.JSON:
        print_json(done)
    if not refs:
        typer.echo("no jobs", err=True)
    if refusals:
        raise Stop("\n".join(map(str, refusals)), refusals[0].code or errors.FAILED)
