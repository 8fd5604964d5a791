"""`tir backup`, `tir restore`: copy the journal, and continue from a copy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from tiresias.cli import errors
from tiresias.cli.console import echo
from tiresias.cli.declare import Argument, Option
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import HomeOption, home_of
from tiresias.cli.live.sizes import written


def backup(
    file: Annotated[Path, Argument(metavar="FILE", help="The file to write; it must not exist.")],
    home: HomeOption = None,
) -> None:
    """Copy the journal to a file, also while the manager runs.

    The copy contains everything that was acknowledged, with the environments of jobs, so only you can read
    it. Logs, checkpoints and snapshots of jobs are not in it.
    """
    from tiresias.live.home_paths import HomePaths
    from tiresias.store import StoreError
    from tiresias.store.backup import backup as make_backup

    journal = HomePaths(home_of(home)).journal
    if not journal.exists():
        raise Stop(f"{journal}: there is no journal, so there is nothing to copy; start one: tir up")
    try:
        copied = make_backup(journal, file.absolute())
    except StoreError as error:
        raise Stop(str(error), errors.FAILED) from None
    echo(f"{file}: the journal up to fact {copied.last_seq:,} ({written(copied.bytes)})")


def restore(
    file: Annotated[Path, Argument(metavar="FILE", help="A backup, or the journal of this home itself.")],
    end_runs: Annotated[bool, Option("--end-runs", help="End runs that the backup does not know.")] = False,
    accept_damage: Annotated[
        bool, Option("--accept-damage", help="Take damaged rows as they are read now.")
    ] = False,
    home: HomeOption = None,
) -> None:
    """Continue from a backup of the journal; the manager must be down.

    Jobs and runs since the backup are forgotten. The journal before and the directories of those jobs and
    runs are set aside in the home, not deleted. Runs that the backup knows are taken over.
    """
    from tiresias.live.errors import Refused
    from tiresias.live.restore import restore as put_back
    from tiresias.store import InUse, StoreError

    if not file.is_file():
        raise Stop(f"{file}: there is no such file; name a file that `tir backup` has written")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        done = put_back(
            home_of(home), file.absolute(), stamp=stamp, ends_runs=end_runs, accepts_damage=accept_damage
        )
    except InUse as error:
        raise Stop(str(error), errors.REJECTED) from None
    except (StoreError, Refused) as error:
        raise Stop(str(error), errors.FAILED) from None
    aside = f"; what was there before is in {done.aside}" if done.aside else ""
    echo(f"restored up to fact {done.last_seq:,}{aside}. Start the manager with `tir up`")
