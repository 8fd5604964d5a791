"""The mark beside a journal: which journal was written here last, and how many commits it had.

A journal that lost its write-ahead log, or was replaced by an older copy, opens without an error: SQLite
cannot know. But it then has fewer commits than the mark. The mark is written after each commit, in place and
without waiting for the disk: after a loss of power it may be older than the journal, never later.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from tiresias.store.errors import StoreError

BYTES = 128


@dataclass(slots=True, frozen=True)
class Marked:
    journal: str  # its id
    commits: int
    last_seq: int


def path_of(journal: Path) -> Path:
    return journal.with_name(journal.name + ".mark")


def read(journal: Path) -> Marked | None:
    """The mark beside this journal; None if there is none, or none that can be read."""
    try:
        text = path_of(journal).read_text(encoding="ascii")
        body, _, crc = text.rstrip().rpartition(" ")
        if int(crc) != crc32(body.encode()):
            return None
        id, commits, last_seq = body.split()
        return Marked(id, int(commits), int(last_seq))
    except (OSError, ValueError):
        return None


class Mark:
    """Writes the mark. It is opened with the journal, and its directory is synced by the first commit."""

    def __init__(self, journal: Path):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(path_of(journal), flags, 0o600)

    def write(self, marked: Marked) -> None:
        body = f"{marked.journal} {marked.commits} {marked.last_seq}"
        text = f"{body} {crc32(body.encode())}".ljust(BYTES - 1) + "\n"
        with suppress(OSError):  # the commit is durable without it
            os.pwrite(self._descriptor, text.encode(), 0)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def check_present(journal: Path) -> None:
    """Refuse to begin a new journal where there was one."""
    marked = None if journal.exists() else read(journal)
    if marked is not None:
        raise StoreError(
            f"{journal}: the journal is missing; {path_of(journal).name} says that a manager has made"
            f" {marked.commits} commits in it. Put it back, or restore a backup with `tir restore FILE`; to"
            " begin a new journal, choose another home with TIRESIAS_HOME"
        )


def lost(journal: Path, marked: Marked | None, ids: set[str], commits: int, last_seq: int) -> str:
    """What the mark says against the journal as it was found; empty if nothing."""
    if marked is None:
        return ""
    if marked.journal not in ids:
        return (
            f"{journal}: this is not the journal {marked.journal}, which a manager has written here; put that"
            f" one back, or, to continue with this one, use `tir restore {journal}`"
        )
    if commits < marked.commits:
        return (
            f"{journal}: the last {marked.commits - commits} commits are missing (it ends with fact"
            f" {last_seq}, and the manager had stored {marked.last_seq}): its write-ahead log"
            f" {journal.name}-wal was lost or cut off, or it was replaced by an older copy. Put the journal"
            f" back with its -wal file, or, to continue without these commits, use `tir restore {journal}`"
        )
    return ""
