"""Regular cleaning: old facts leave the journal, and unused snapshots leave the disk."""

from __future__ import annotations

import os
import shutil
from threading import Thread

from tiresias.core.model import INFINITY
from tiresias.live.home_paths import HomePaths
from tiresias.live.journal import Input, Journal, Taken
from tiresias.live.settings import Settings
from tiresias.store import StoreError

FACTS_PER_BITE = 1000  # small enough that requests are not delayed
BITE_EVERY_S = 1.0  # while there is more to remove


class Compaction:
    """The part that takes old facts out of the journal at intervals, a limited number at a time."""

    def __init__(self, journal: Journal, settings: Settings):
        self._journal, self._settings = journal, settings
        self.next_due_at = journal.now() + settings.compact_every_s

    def on(self, taken: Taken) -> list[Input]:
        return []

    def due(self, at: float) -> list[Input]:
        if at >= self.next_due_at:
            self.next_due_at = at + self._settings.compact_every_s
            self._journal.after_commit(self.compact)
        return []

    def compact(self) -> None:
        journal, keep_s = self._journal, self._settings.keep_facts_s
        try:
            done = journal.store.compact(
                journal.now() - keep_s, limit=FACTS_PER_BITE, base_every_s=keep_s / 8, state=journal.state
            )
        except StoreError as error:
            journal.problem = str(error)
            return
        if not done.is_complete:
            self.next_due_at += BITE_EVERY_S - self._settings.compact_every_s


class Snapshots:
    """The part that removes the copies of working directories that no active job uses."""

    next_due_at = INFINITY

    def __init__(self, journal: Journal, paths: HomePaths):
        self._journal, self._paths = journal, paths

    def on(self, taken: Taken) -> list[Input]:
        for ended in taken.ended:
            if path := ended.managed.spec.snapshot:
                self._journal.after_commit(lambda path=path: self._remove(path))  # type: ignore[misc]
        return []

    def due(self, at: float) -> list[Input]:
        return []

    def _remove(self, path: str) -> None:
        """Remove a copy if it is in our own home and no other job uses it.

        The path was given by a user and may be anything, such as `..`. The jobs of an array share one copy.
        """
        ours = self._paths.snapshots / os.path.basename(os.path.normpath(path))
        if path == str(ours) and not self._journal.managed.is_snapshot_used(path):
            Thread(target=shutil.rmtree, args=(path, True), daemon=True).start()  # a large tree takes long
