"""`tir prune`: remove the output of jobs that ended long ago."""

from __future__ import annotations

from typing import Annotated

from tiresias.cli.console import echo
from tiresias.cli.declare import Option
from tiresias.cli.live.connection import connected, print_json
from tiresias.cli.live.sizes import written
from tiresias.cli.live.times import duration_s
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import count


def prune(
    older_than: Annotated[
        str, Option("--older-than", metavar="30d", help="Only jobs that ended so long ago or earlier.")
    ] = "30d",
    checkpoints: Annotated[
        bool, Option("--checkpoints", help="Remove their checkpoint directories in the home as well.")
    ] = False,
    all_users: Annotated[
        bool, Option("--all-users", help="Jobs of all users; only an admin may do that.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be removed.")] = False,
    output: AsOutput = Output.TABLE,
) -> None:
    """Remove the output of your jobs that ended long ago.

    The jobs stay in `tir ls --all`, `tir usage` and `tir history`. Checkpoint directories that users chose
    themselves are never touched.
    """
    older_than_s = duration_s(older_than, "--older-than")
    with connected() as client:
        found = client.prune(older_than_s, checkpoints=checkpoints, all_users=all_users, dry_run=dry_run)
    if output is Output.JSON:
        print_json(found)
        return
    verb = "would be removed" if found["is_dry_run"] else "removed"
    echo(f"{verb}: the files of {count(found['jobs'], 'job')} ({written(found['bytes'])})")
