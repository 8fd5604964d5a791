"""`tir token create`, `ls`, `revoke`: tokens for TCP."""

from __future__ import annotations

import getpass
import sys
import time
from enum import StrEnum
from typing import Annotated

import typer

from tiresias.cli.console import show
from tiresias.cli.live.connection import connected, print_json
from tiresias.cli.live.job_text import plain
from tiresias.cli.live.jobs import UNCUT
from tiresias.cli.live.times import when
from tiresias.cli.plugins import AsOutput, Output

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke tokens for TCP (admins only).")


class Role(StrEnum):
    USER = "user"
    ADMIN = "admin"


@app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, for example alice-laptop.")],
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="USER", help="User of the token. Default: you.")
    ] = None,
    role: Annotated[
        Role, typer.Option("--role", help="A user may change its own jobs only, an admin all.")
    ] = Role.USER,
    output: AsOutput = Output.TABLE,
) -> None:
    """Create a token. It is shown only once."""
    whom = user or getpass.getuser()
    with connected() as client:
        token = client.create_token(name, whom, str(role))
    if output is Output.JSON:
        print_json({"name": name, "user": whom, "role": str(role), "token": token})
        return
    typer.echo(token)
    if sys.stderr.isatty():
        typer.echo(
            f"{whom} sets it as TIRESIAS_TOKEN, together with TIRESIAS_URL. It is not shown again.", err=True
        )


@app.command("ls")
def list_tokens(output: AsOutput = Output.TABLE) -> None:
    """List the tokens by name."""
    with connected() as client:
        tokens = client.tokens()
    if output is Output.JSON:
        print_json(tokens)
        return
    if not tokens:
        show("there are no tokens")
        return
    from tiresias.cli.live.fitted_tables import grid

    now = time.time()
    rows = [
        [plain(each["name"]), plain(each["user"]), each["role"], when(each["created_at"], now)]
        for each in tokens
    ]
    show(grid(("NAME", "USER", "ROLE", "CREATED"), rows, cut=("NAME", "USER")), UNCUT)


@app.command("revoke")
def revoke_token(name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]) -> None:
    """Revoke a token at once."""
    with connected() as client:
        client.revoke_token(name)
    typer.echo(f"token {name} is revoked")
