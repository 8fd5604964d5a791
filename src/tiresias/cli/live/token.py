"""`tir token create`, `ls`, `revoke`: tokens for TCP."""

from __future__ import annotations

import getpass
import sys
import time
from enum import StrEnum
from typing import Annotated

from tiresias.cli.console import echo, show
from tiresias.cli.declare import Argument, Group, Option
from tiresias.cli.live.connection import connected, print_json
from tiresias.cli.live.job_text import plain
from tiresias.cli.live.times import when
from tiresias.cli.plugins import AsOutput, Output

app = Group("Create, list and revoke tokens for TCP (admins only).")


class Role(StrEnum):
    USER = "user"
    ADMIN = "admin"


@app.command("create")
def create_token(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the token, for example alice-laptop.")],
    user: Annotated[
        str | None, Option("--user", "-u", metavar="USER", help="User of the token. Default: you.")
    ] = None,
    role: Annotated[
        Role, Option("--role", help="A user may change its own jobs only, an admin all.")
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
    echo(token)
    if sys.stderr.isatty():
        echo(
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
    show(grid(("NAME", "USER", "ROLE", "CREATED"), rows, cut=("NAME", "USER")))


@app.command("revoke")
def revoke_token(name: Annotated[str, Argument(metavar="NAME", help="Name of the token.")]) -> None:
    """Revoke a token at once."""
    with connected() as client:
        client.revoke_token(name)
    echo(f"token {name} is revoked")
