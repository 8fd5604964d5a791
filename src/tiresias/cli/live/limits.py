"""`tir limits`: how many GPUs and jobs a user may have at once, and the shares of tenants."""

from __future__ import annotations

from typing import Annotated, Any

from tiresias.cli.console import show
from tiresias.cli.declare import Argument, Group, Option
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import connected, print_json
from tiresias.cli.live.job_text import plain
from tiresias.cli.plugins import AsOutput, Output

app = Group("Show or set the limits of users and the shares of tenants.")
NONE, DEFAULT = "none", "default"


@app.command("show")
def show_limits(output: AsOutput = Output.TABLE) -> None:
    """Show all limits; * stands for all users, and applies where a user has no limit of its own."""
    with connected() as client:
        _print(client.limits(), output)


@app.command("set")
def set_limits(
    user: Annotated[str, Argument(metavar="USER", help="User, or '*' for all users.")],
    gpus: Annotated[
        str | None,
        Option("--gpus", metavar="N", help="Most GPUs at once (none: no limit; default: that of *)."),
    ] = None,
    jobs: Annotated[
        str | None,
        Option("--jobs", metavar="N", help="Most active jobs at once (none: no limit; default: that of *)."),
    ] = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Set the limits of a user; those not given stay as they are."""
    if gpus is None and jobs is None:
        raise Stop("nothing to set; give --gpus N, --jobs N, or none to lift a limit")
    with connected() as client:
        now = client.limits().get(user) or {}
        client.set_limits(
            user,
            max_running_gpus=_number(gpus, "--gpus", now.get("max_running_gpus")),
            max_active_jobs=_number(jobs, "--jobs", now.get("max_active_jobs")),
        )
        _print(client.limits(), output)


@app.command("shares")
def shares(
    weights: Annotated[
        str | None,
        Argument(metavar="[A=3,B=1]", help="Weights of all tenants, or none for equal shares."),
    ] = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Show or set the shares of tenants, by which allocators such as two-level share out the GPUs."""
    with connected() as client:
        if weights is not None:
            client.set_shares({} if weights == NONE else _weights(weights))
        _print_shares(client.shares(), output)


def _weights(text: str) -> dict[str, float]:
    from tiresias.core.shares import weights_in

    try:
        return weights_in(text)
    except ValueError as error:
        raise Stop(f"shares: {error}") from None


def _print_shares(shares: dict[str, float], output: Output) -> None:
    if output is Output.JSON:
        print_json(shares)
        return
    if not shares:
        show("all tenants have equal shares")
        return
    from tiresias.cli.live.fitted_tables import grid

    rows = [[plain(tenant), f"{weight:g}"] for tenant, weight in shares.items()]
    show(grid(("TENANT", "WEIGHT"), rows, right=("WEIGHT",), cut=("TENANT",)))


def _number(text: str | None, option: str, now: int | str | None) -> int | str | None:
    if text is None:
        return now
    if text == DEFAULT:
        return None
    if text == NONE:
        return NONE
    if not text.isdecimal():
        raise Stop(f"{option} {text!r}: give a whole number, {NONE} for no limit, or {DEFAULT} for that of *")
    return int(text)


def _print(limits: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print_json(limits)
        return
    if not limits:
        show("there are no limits")
        return
    from tiresias.cli.live.fitted_tables import grid

    figures = ("GPUS AT ONCE", "JOBS AT ONCE")
    names = ["* (all others)" if user == "*" else plain(user) for user in limits]
    absent = {user: "as *" if user != "*" and "*" in limits else NONE for user in limits}
    numbers = [[_text(n, absent[user]) for n in each.values()] for user, each in limits.items()]
    rows = [[name, *each] for name, each in zip(names, numbers, strict=True)]
    show(grid(("USER", *figures), rows, right=figures, cut=("USER",)))


def _text(limit: int | str | None, absent: str) -> str:
    if limit is None:
        return absent
    return limit if isinstance(limit, str) else f"{limit:,}"
