"""The target: which jobs should hold GPUs now, kept exact while ranks change one at a time.

The target is what a walk along the ranks admits: each entry takes its GPUs if they fit into the room left
by those ahead, and is skipped otherwise. Pinned runs are not ranked; their GPUs are off the capacity.
The walk is never repeated from the start. Three facts carry the incremental version:

1. Room never grows along the ranks; a change at rank r leaves everything ahead of r as it was.
2. Behind a change, each entry sees its old room shifted by the same `new - old` until the first entry whose
   admission flips. With less room only admitted entries can flip, with more room only refused ones.
3. Where `new == old` behind the last change, nothing further can differ.

Entries are kept in rank order in chunks. A chunk knows the GPUs of its admitted entries (`sums`) and a lower
bound on the extra room that would admit any of its refused ones (`needs`), so that a shift passes a whole
chunk in constant time unless something in it really flips, or the bound is out of date, which a pass over
that chunk corrects. The more entries there are, the more of them a chunk has, so that the number of chunks
grows only with the square root of theirs. Ranking an admitted entry further ahead, or a refused one further
behind, flips nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from math import isqrt
from operator import itemgetter
from typing import Generic, TypeVar

from tiresias.core.entries import Entry, Key
from tiresias.core.model import JobId

CHUNK = 24  # entries, or more where there are very many; a chunk splits when it has more than twice as many
SHARE = 8  # a chunk has at least the number of chunks divided by this
NEVER = 1 << 60

E = TypeVar("E", bound=Entry)


class Target(Generic[E]):
    """The admitted ones among the ranked entries, for `capacity` GPUs.

    `flips` gathers every entry whose admission may have changed. The caller that acts on it empties it.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.used = 0  # GPUs of the admitted entries
        self.refused = 0  # how many ranked entries are not admitted
        self.flips: dict[JobId, E] = {}
        self._chunk = CHUNK  # into how many entries a chunk is split
        self._last: list[Key] = []  # by chunk: its last key
        self._keys: list[list[Key]] = []
        self._entries: list[list[E]] = []
        self._sums: list[int] = []
        self._needs: list[int] = []
        self._gathered: list[tuple[Key, E]] | None = None  # between `gather` and `fill`

    def __iter__(self) -> Iterator[E]:
        """The ranked entries in order."""
        for entries in self._entries:
            yield from entries

    # --- changes ---------------------------------------------------------------------------------------

    def add(self, entry: E, key: Key) -> None:
        """Rank an entry that was not ranked."""
        assert not entry.admitted, ("admitted but not ranked", entry.id)
        if self._gathered is not None:
            self._gathered.append((key, entry))
            return
        chunk, index = self._insert(entry, key)
        gpus = entry.gpus
        self.flips[entry.id] = entry
        if self.used + gpus <= self.capacity:  # fits behind all others: none of them is displaced
            entry.admitted = True
            self._sums[chunk] += gpus
            self.used += gpus
            return
        behind = self.capacity - sum(self._sums[: chunk + 1])  # room at the end of its chunk
        if gpus > behind:
            room = behind + sum([other.gpus for other in self._entries[chunk][index + 1 :] if other.admitted])
            if gpus > room:
                self.refused += 1
                if gpus - room < self._needs[chunk]:
                    self._needs[chunk] = gpus - room
                return
        entry.admitted = True
        self._sums[chunk] += gpus
        self.used += gpus
        if gpus > behind:
            self._walk_from(chunk, index + 1, -gpus)
        else:  # the rest of its chunk still fits
            self._walk(chunk + 1, behind - gpus, behind)

    def gather(self) -> None:
        """From now on until `fill`, added entries are only gathered. Nothing may be ranked yet."""
        assert not self._last, "only an empty target can be filled"
        self._gathered = []

    def fill(self) -> None:
        """Rank all gathered entries at once, by one sort and one walk."""
        assert self._gathered is not None, "nothing was gathered"
        ranked, self._gathered = self._gathered, None
        for key, entry in ranked:
            entry.key = key
            self.flips[entry.id] = entry
        ranked.sort(key=itemgetter(0))
        room = self.capacity
        self._chunk = size = max(CHUNK, isqrt(len(ranked) // SHARE))
        for first in range(0, len(ranked), size):
            part = ranked[first : first + size]
            taken, need = 0, NEVER
            for _, entry in part:
                gpus = entry.gpus
                if gpus <= room:
                    entry.admitted = True
                    taken += gpus
                    room -= gpus
                else:
                    self.refused += 1
                    need = min(need, gpus - room)
            self._last.append(part[-1][0])
            self._keys.append([key for key, _ in part])
            self._entries.append([entry for _, entry in part])
            self._sums.append(taken)
            self._needs.append(need)
        self.used = self.capacity - room

    def drop(self, entry: E) -> None:
        """Take a ranked entry out of the ranking."""
        assert entry.key is not None, ("dropped but not ranked", entry.id)
        chunk, index = self._remove(entry.key)
        entry.key = None
        self.flips.pop(entry.id, None)
        if not entry.admitted:
            self.refused -= 1
            return
        entry.admitted = False
        self._vacate(entry, chunk, index)

    def rerank(self, entry: E, key: Key) -> None:
        """Give a ranked entry a new key."""
        old_key = entry.key
        assert old_key is not None, ("ranked anew but not ranked", entry.id)
        if key == old_key:
            return
        forward = key < old_key
        if not self.refused or entry.admitted is forward:
            self._relocate(entry, key)
        elif forward:
            self._remove(old_key)
            self.refused -= 1
            self.add(entry, key)
        else:
            self._demote(entry, key)

    def pin(self, entry: E) -> None:
        """Take an admitted entry out, and its GPUs off the capacity: no other entry's room changes."""
        assert entry.admitted, ("pinned but not admitted", entry.id)
        assert entry.key is not None
        chunk, _ = self._remove(entry.key)
        entry.key = None
        entry.admitted = False
        if chunk >= 0:
            self._sums[chunk] -= entry.gpus
        self.used -= entry.gpus
        self.capacity -= entry.gpus
        self.flips.pop(entry.id, None)

    def resize(self, capacity: int) -> None:
        """Set how many GPUs there are to share."""
        old, self.capacity = self.capacity, capacity
        if (capacity > old and self.refused) or capacity < self.used:
            self._walk(0, capacity, old)

    def settle(self, at: float) -> None:
        """Nothing to do: the target is exact after every change."""

    def trial(self, entry: E, key: Key, at: float) -> tuple[bool, list[E]]:
        """Whether an entry that is not ranked would be admitted under this key, and which ones it would push
        out.

        Everything is as before afterwards: the target is a function of the ranked entries.
        """
        assert not self.flips, ("a trial in the middle of a plan", list(self.flips))
        self.add(entry, key)
        is_admitted = entry.admitted
        out = [other for other in self.flips.values() if not other.admitted and other is not entry]
        self.drop(entry)
        self.flips.clear()
        return is_admitted, out

    # --- the walk --------------------------------------------------------------------------------------

    def _walk(self, chunk: int, new: int, old: int, through: int = -1) -> None:
        """From a chunk on, admit and refuse anew: the room there was `old` and is `new`.

        Up to chunk `through` the walk does not stop early, and that chunk is looked at entry by entry.
        """
        sums, needs = self._sums, self._needs
        c, chunks = chunk, len(sums)
        while c < chunks:
            shift = new - old
            if c != through:
                if shift == 0:
                    if c > through:
                        return
                    old = new = new - sum(sums[c:through])  # no chunk before that one can differ
                    c = through
                    continue
                if (needs[c] > shift) if shift > 0 else (sums[c] <= new):
                    needs[c] -= shift
                    new -= sums[c]
                    old = new - shift
                    c += 1
                    continue
            new, old = self._walk_chunk(c, self._entries[c], new, old, NEVER, c <= through)
            c += 1

    def _walk_from(self, chunk: int, index: int, shift: int, through: int = -1) -> None:
        """The same from inside a chunk on, where the room is now `shift` more than it was."""
        room = self.capacity - sum(self._sums[:chunk])
        entries = self._entries[chunk]
        need = NEVER
        for entry in entries[:index]:
            if entry.admitted:
                room -= entry.gpus
            elif entry.gpus - room < need:
                need = entry.gpus - room
        new, old = self._walk_chunk(chunk, entries[index:], room, room - shift, need, chunk <= through)
        if new != old or chunk < through:
            self._walk(chunk + 1, new, old, through)

    def _walk_chunk(
        self, chunk: int, entries: list[E], new: int, old: int, need: int, to_the_end: bool
    ) -> tuple[int, int]:
        """The rooms behind these last entries of a chunk; each is looked at until the two rooms agree."""
        total = 0
        for entry in entries:
            gpus = entry.gpus
            if entry.admitted:
                old -= gpus
                if gpus <= new:
                    new -= gpus
                    continue
                entry.admitted = False
                self.refused += 1
                total -= gpus
                if gpus - new < need:
                    need = gpus - new
            elif gpus <= new:
                new -= gpus
                entry.admitted = True
                self.refused -= 1
                total += gpus
            else:
                if gpus - new < need:
                    need = gpus - new
                continue
            self.flips[entry.id] = entry
            if new == old and not to_the_end:
                need = min(need, self._needs[chunk])  # still a bound for those not looked at
                break
        self._needs[chunk] = need
        self._sums[chunk] += total
        self.used += total
        return new, old

    def _vacate(self, entry: E, chunk: int, index: int) -> None:
        """An admitted entry has left this position: those behind it have its GPUs to share."""
        gpus = entry.gpus
        self.used -= gpus
        if chunk < 0:  # it was alone in its chunk, which is gone: -1 - the chunk that follows
            chunk, index = -1 - chunk, 0
        else:
            self._sums[chunk] -= gpus
        if not self.refused:
            return
        needs = self._needs
        if index:
            if needs[chunk] <= gpus:
                self._walk_from(chunk, index, gpus)
                return
            needs[chunk] -= gpus
            chunk += 1
        for c in range(chunk, len(needs)):
            if needs[c] <= gpus:
                room = self.capacity - sum(self._sums[:c])
                self._walk(c, room, room - gpus)
                return
            needs[c] -= gpus

    def _demote(self, entry: E, key: Key) -> None:
        """Rank an admitted entry further behind: those in between see its GPUs, it takes what they leave."""
        gpus = entry.gpus
        old_key = entry.key
        assert old_key is not None
        chunk, index = self._remove(old_key)
        if chunk < 0:
            chunk, index = -1 - chunk, 0
        else:
            self._sums[chunk] -= gpus
        self.used -= gpus
        entry.admitted = False
        chunks = len(self._sums)
        to_chunk, _ = self._insert(entry, key)
        if len(self._sums) != chunks or to_chunk < chunk:  # chunks have shifted: find the old position again
            chunk = bisect_left(self._last, old_key)
            index = bisect_left(self._keys[chunk], old_key)
        needs = self._needs
        if min(needs[chunk : to_chunk + 1]) > gpus:  # none in between can use what it leaves: it fits again
            for c in range(chunk, to_chunk + 1):
                needs[c] -= gpus
            entry.admitted = True
            self._sums[to_chunk] += gpus
            self.used += gpus
            return
        self.refused += 1
        self.flips[entry.id] = entry
        self._walk_from(chunk, index, gpus, through=to_chunk)

    # --- chunks ----------------------------------------------------------------------------------------

    def _insert(self, entry: E, key: Key) -> tuple[int, int]:
        """Insert the entry by its key; (chunk, index). The caller updates the chunk's sum and need."""
        entry.key = key
        last = self._last
        if not last:
            last.append(key)
            self._keys.append([key])
            self._entries.append([entry])
            self._sums.append(0)
            self._needs.append(NEVER)
            return 0, 0
        chunk = bisect_left(last, key)
        if chunk == len(last):
            chunk -= 1
            last[chunk] = key
        keys = self._keys[chunk]
        index = bisect_left(keys, key)
        keys.insert(index, key)
        self._entries[chunk].insert(index, entry)
        size = self._chunk
        if len(keys) <= 2 * size:
            return chunk, index
        self._split(chunk, size)
        self._chunk = max(CHUNK, len(last) // SHARE)
        return (chunk, index) if index < size else (chunk + 1, index - size)

    def _split(self, chunk: int, size: int) -> None:
        keys, entries = self._keys[chunk], self._entries[chunk]
        self._keys.insert(chunk + 1, keys[size:])
        self._entries.insert(chunk + 1, entries[size:])
        del keys[size:], entries[size:]
        self._last.insert(chunk, keys[-1])
        behind = sum(entry.gpus for entry in self._entries[chunk + 1] if entry.admitted)
        self._sums[chunk] -= behind
        self._sums.insert(chunk + 1, behind)
        self._needs.insert(chunk + 1, self._needs[chunk])  # still a bound for either half

    def _remove(self, key: Key) -> tuple[int, int]:
        """Remove the entry with this key; (chunk, index), or -1 - chunk if the chunk is gone with it."""
        chunk = bisect_left(self._last, key)
        keys = self._keys[chunk]
        index = bisect_left(keys, key)
        assert keys[index] == key, ("not ranked under this key", key)
        if len(keys) == 1:
            del self._last[chunk], self._keys[chunk], self._entries[chunk]
            del self._sums[chunk], self._needs[chunk]
            return -1 - chunk, 0
        del keys[index], self._entries[chunk][index]
        if index == len(keys):
            self._last[chunk] = keys[-1]
        return chunk, index

    def _relocate(self, entry: E, key: Key) -> None:
        """Rerank an entry where that changes no admission."""
        old_key = entry.key
        assert old_key is not None
        chunk = bisect_left(self._last, old_key)
        if bisect_left(self._last, key) == chunk:
            self._relocate_within(chunk, entry, old_key, key)
            return
        chunk, _ = self._remove(old_key)
        if not entry.admitted:
            to_chunk, _ = self._insert(entry, key)
            if self._needs[to_chunk] > 1:
                self._needs[to_chunk] = 1
            return
        if chunk >= 0:
            self._sums[chunk] -= entry.gpus
        entry.admitted = False  # not yet in any chunk's sum, should one split
        to_chunk, _ = self._insert(entry, key)
        entry.admitted = True
        self._sums[to_chunk] += entry.gpus

    def _relocate_within(self, chunk: int, entry: E, old_key: Key, key: Key) -> None:
        """The same where the chunk stays the same."""
        keys, entries = self._keys[chunk], self._entries[chunk]
        index = bisect_left(keys, old_key)
        assert keys[index] == old_key, ("not ranked under this key", old_key)
        del keys[index], entries[index]
        index = bisect_left(keys, key)
        keys.insert(index, key)
        entries.insert(index, entry)
        entry.key = key
        self._last[chunk] = keys[-1]
        if not entry.admitted and self._needs[chunk] > 1:
            self._needs[chunk] = 1


def plain_target(ranked: Iterable[Entry], room: int, *, strict: bool = False) -> set[JobId]:
    """The definition that the incremental target must equal: the ids that a walk in rank order admits."""
    chosen: set[JobId] = set()
    for entry in ranked:
        if entry.gpus <= room:
            room -= entry.gpus
            chosen.add(entry.id)
        elif strict:
            break
    return chosen
