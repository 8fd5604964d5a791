"""A command line that carries another one: `tir submit OPTIONS -- COMMAND …`.

Everything after the first `--` is the job's, untouched. Without `--` the words may be a file (job.yaml, a
script and its arguments) or a command that has no options of its own.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from tiresias.cli.errors import Stop

META = "tiresias.command"


class Carrying(TyperCommand):
    """Sets the words after `--` aside before options are parsed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            where = args.index("--")
            ctx.meta[META] = args[where + 1 :]
            args = args[:where]
        return super().parse_args(ctx, args)


CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": False}


def split(ctx: typer.Context, words: list[str]) -> tuple[list[str], list[str] | None]:
    """The words before `--`, and the command after it (None: there was no `--`)."""
    command: list[str] | None = ctx.meta.get(META)
    strange = next((word for word in words if word.startswith("-") and word != "-"), None)
    if strange is not None:
        hint = "" if command is not None else " If it belongs to your command, put -- before the command."
        raise Stop(f"no such option: {strange}.{hint} See: {ctx.command_path} -h")
    return words, command
