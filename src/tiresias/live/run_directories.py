"""Whether the directories of runs in a home belong to its journal, checked before anything is started.

Job ids are used as names of directories. A journal that was put back from a copy, moved here from another
home, or has lost its last commits would use ids again that have directories already, with the output and the
checkpoints of other jobs. `jobs/journal.json` names the journal that the directories belong to.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tiresias.executors.directories import make_passage
from tiresias.job._files import save
from tiresias.live.home_paths import HomePaths
from tiresias.store import Reader

OWNER = "journal.json"


def problem(paths: HomePaths, journal: Reader) -> str:
    """Why a manager must not start with this journal and these directories; empty if it may."""
    found = job_directories(paths)  # read before the journal, which may grow meanwhile
    owner, ids = owner_of(paths), set(journal.journal_ids().values())
    if found and owner and owner not in ids:
        return (
            f"{paths.jobs}: these run directories belong to the journal {owner}, and {journal.path} is"
            f" another one ({latest_id(journal)}); put the journal back that belongs here, or, to continue"
            f" with this one, use `tir restore {journal.path}`, which sets the directories aside"
        )
    highest = max(found, default=0)
    if highest >= journal.next_job_id:
        return (
            f"{paths.jobs / str(highest)}: there is a directory of job {highest}, and the next job of"
            f" {journal.path} would be {journal.next_job_id}. So the journal is older than its run"
            " directories: it was put back from a copy, or it has lost its last commits. Put the right"
            f" journal back, or, to continue with this one, use `tir restore {journal.path}`, which sets the"
            " directories aside"
        )
    return ""


def latest_id(journal: Reader) -> str:
    """The id that the journal has at present."""
    ids = journal.journal_ids()
    return ids[max(ids)]


def take(paths: HomePaths, journal: Reader) -> None:
    """Make the directories those of this journal. Call it only if there is no problem."""
    if owner_of(paths) != latest_id(journal):
        make_passage(paths.jobs)
        body = json.dumps({"journal": latest_id(journal)})
        save(paths.jobs / OWNER, lambda file: file.write(body.encode() + b"\n"))


def owner_of(paths: HomePaths) -> str:
    """The id of the journal that the directories belong to; empty if that is not known."""
    try:
        found = json.loads((paths.jobs / OWNER).read_text(encoding="utf-8"))
        return str(found["journal"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def job_directories(paths: HomePaths) -> dict[int, Path]:
    """The directories of jobs, by the ids of the jobs."""
    try:
        names = os.listdir(paths.jobs)
    except FileNotFoundError:
        return {}
    return {int(name): paths.jobs / name for name in names if name.isascii() and name.isdigit()}
