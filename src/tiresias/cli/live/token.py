"""`tir token create`, `ls`, `revoke`: who may come over TCP."""

from __future__ import annotations

import getpass
import sys
import time
from enum import StrEnum
from typing import Annotated

import typer

from tiresias.cli.console import show
from tiresias.cli.live.jobs import UNCUT
from tiresias.cli.live.talking import print_json, talking
from tiresias.cli.live.times import when
from tiresias.cli.live.words import plain
from tiresias.cli.plugins import AsOutput, Output

app = typer.Typer(no_args_is_help=True, help="Tokens for TCP: create, list, revoke (admins).")


class Role(StrEnum):
    USER = "user"
    ADMIN = "admin"


@app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it, e.g. alice-laptop.")],
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="USER", help="Whose jobs (default: you).")
    ] = None,
    role: Annotated[
        Role, typer.Option("--role", help="A user touches only its own jobs; an admin everything.")
    ] = Role.USER,
    output: AsOutput = Output.TABLE,
) -> None:
    """Create a token. It is shown this once only."""
    whom = user or getpass.getuser()
    with talking() as client:
        token = client.create_token(name, whom, str(role))
    if output is Output.JSON:
        print_json({"name": name, "user": whom, "role": str(role), "token": token})
        return
    typer.echo(token)
    if sys.stderr.isatty():
        typer.echo(f"for {whom}: TIRESIAS_TOKEN, with TIRESIAS_URL. It is not shown again.", err=True)


@app.command("ls")
def list_tokens(output: AsOutput = Output.TABLE) -> None:
    """List the tokens, without what they are."""
    with talking() as client:
        tokens = client.tokens()
    if output is Output.JSON:
        print_json(tokens)
        return
    if not tokens:
        show("there are no tokens")
        return
    from tiresias.cli.live.grids import grid

    now = time.time()
    rows = [
        [plain(each["name"]), plain(each["user"]), each["role"], when(each["created_at"], now)]
        for each in tokens
    ]
    show(grid(("NAME", "USER", "ROLE", "CREATED"), rows, cut=("NAME", "USER")), UNCUT)


@app.command("revoke")
def revoke_token(name: Annotated[str, typer.Argument(metavar="NAME", help="The token's name.")]) -> None:
    """Revoke a token at once."""
    with talking() as client:
        client.revoke_token(name)
    typer.echo(f"token {name} is revoked")
