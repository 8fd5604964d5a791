"""`tir cancel`, `hold`, `release`, `requeue`, `set`: control jobs.

Rules: several jobs may be named. If one is refused, the others are changed all the same, and the exit code is
that of the first refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from tiresias.cli import errors
from tiresias.cli.console import confirm, echo
from tiresias.cli.declare import Argument, Option
from tiresias.cli.errors import Stop
from tiresias.cli.live import job_text
from tiresias.cli.live.connection import (
    Key,
    MaybeReferences,
    Reference,
    References,
    connected,
    print_json,
    refused,
)
from tiresias.cli.live.job_options import value_of
from tiresias.cli.live.jobs import ME
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import count
from tiresias.spec.job import BY_KEY, OPTIONAL

if TYPE_CHECKING:
    from tiresias.api.client import Client

CHANGES = {key: option for key, option in BY_KEY.items() if option.can_change}  # what `tir set` may change


def cancel(
    refs: MaybeReferences = None,
    user: Annotated[
        str | None,
        Option("--user", "-u", metavar="USER", help="With --all: user whose jobs to cancel. Default: you."),
    ] = None,
    everything: Annotated[bool, Option("--all", help="Cancel all active jobs of the user.")] = False,
    now: Annotated[bool, Option("--now", help="Kill the runs at once, without their grace time.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    output: AsOutput = Output.TABLE,
) -> None:
    """Cancel jobs.

    Jobs that run have their grace time to save, unless --now is given.
    """
    with connected() as client:
        named = list(refs or [])
        act: Callable[[str], dict[str, Any]] = lambda ref: client.cancel(ref, now=now)  # noqa: E731
        if everything:
            if named:
                raise Stop("--all cancels all jobs of a user; name jobs or give --all, not both")
            named, act = _all_of(client, user or ME), _cancel_unless_ended(client, now)
            if named and not yes:
                confirm(f"Cancel {count(len(named), 'job')}?")
        elif user is not None:
            raise Stop("--user needs --all: tir cancel --all --user NAME")
        elif not named:
            raise Stop(
                "name the jobs to cancel by id, name, array or pattern, or all of yours: tir cancel --all"
            )
        _each(client, named, act, output)


def hold(refs: References, output: AsOutput = Output.TABLE) -> None:
    """Put jobs on hold until they are released.

    Jobs that run are stopped, with their grace time to save.
    """
    with connected() as client:
        _each(client, refs, lambda ref: client.hold(ref), output)


def release(refs: References, output: AsOutput = Output.TABLE) -> None:
    """Let jobs that are on hold run again."""
    with connected() as client:
        _each(client, refs, lambda ref: client.release(ref), output)


def requeue(refs: References, output: AsOutput = Output.TABLE) -> None:
    """Stop running jobs and put them back in the queue.

    They have their grace time to save, and run again later.
    """
    with connected() as client:
        _each(client, refs, lambda ref: client.requeue(ref), output)


def again(
    ref: Reference,
    changes: Annotated[
        list[str] | None,
        Argument(metavar="KEY=VALUE…", help=f"What is different; keys: {', '.join(CHANGES)}."),
    ] = None,
    key: Key = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Submit a job of yours once more and print the new id.

    It has the same command, directory, environment and options. What it had to wait for is left out.
    """
    parsed = parse_changes(changes or [])
    with connected() as client:
        id = client.again(ref, key, **parsed)
    if output is Output.JSON:
        print_json({"id": id, "ids": [id]})
    else:
        echo(str(id))


def set_job(
    ref: Reference,
    changes: Annotated[
        list[str],
        Argument(metavar="KEY=VALUE…", help=f"Keys: {', '.join(CHANGES)}."),
    ],
    output: AsOutput = Output.TABLE,
) -> None:
    """Change options of a job, for example priority=low or time=12h."""
    parsed = parse_changes(changes)
    with connected() as client:
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
    return [str(job["id"]) for job in client.jobs(user=whom) if job["phase"] in job_text.ACTIVE]


def _cancel_unless_ended(client: Client, now: bool) -> Callable[[str], dict[str, Any]]:
    """Cancel a job; if it has ended since it was listed, return it as it is."""
    from tiresias.api.client import ApiError

    def act(ref: str) -> dict[str, Any]:
        try:
            return client.cancel(ref, now=now)
        except ApiError as error:
            if error.code != "conflict":
                raise
            summary: dict[str, Any] = client.job(ref)["summary"]
            return summary

    return act


def _meant(client: Client, refs: Sequence[str], refusals: list[Stop]) -> Iterator[str]:
    """The ids of the jobs that are meant; references that mean none become refusals."""
    from tiresias.api.client import ApiError, Unreachable

    for ref in refs:
        if ref.isdecimal():
            yield ref
            continue
        try:
            ids = client.find(ref, active=True)
        except Unreachable:
            raise
        except ApiError as error:
            refusals.append(refused(error))
            continue
        yield from map(str, ids)


def _each(client: Client, refs: Sequence[str], act: Callable[[str], dict[str, Any]], output: Output) -> None:
    """Do it to every job, print the new phase of each, and end with the code of the first refusal."""
    from tiresias.api.client import ApiError, Unreachable

    done: list[dict[str, Any]] = []
    refusals: list[Stop] = []
    for id in _meant(client, refs, refusals):
        try:
            job = act(id)
        except Unreachable:
            raise
        except ApiError as error:
            refusals.append(refused(error))
            continue
        done.append(job)
        if output is not Output.JSON:
            name = f" ({job_text.plain(job['name'])})" if job["name"] else ""
            echo(f"job {job['id']}{name}: {job['phase']}")
    if output is Output.JSON:
        print_json(done)
    if not refs:
        echo("no jobs", err=True)
    if refusals:
        raise Stop("\n".join(map(str, refusals)), refusals[0].code or errors.FAILED)
