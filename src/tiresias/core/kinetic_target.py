"""The target of policies whose ranks drift while a job runs, such as `srsf`, kept exact without sorting.

Between two instants the ranks of running jobs change at known rates. Four facts make sorting unnecessary:

1. The walk along the ranks admits an entry if its GPUs fit into the room left by the admitted ones ahead of
   it. Refused entries take no room, so all that matters about the order is how many GPUs of admitted entries
   are ahead of a given key.
2. An admitted entry whose rank improves passes others without changing any admission: what it passes sees
   less room only if it was behind, where it had that room already. So nothing needs to be done while time
   passes, as long as the ranks of running jobs improve.
3. Admitted entries of one size whose ranks drift at one rate never change their order among themselves. In
   such a lane the number of entries ahead of a key is found by bisection, and their GPUs by a product.
4. Of the refused entries of one size, the first behind a change sees the most room. If it does not fit, none
   of that size does.

After each change `_mend` therefore looks for the first entry behind it whose admission is wrong: among the
last entries of the lanes, if more GPUs are admitted than there are, and among the first refused ones of each
size. It corrects that entry and goes on behind it. Entries to which (2) does not apply, because they are
refused and improve or are admitted and fall behind, are ranked anew at each instant; there are few of them
under the policies of this package.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from operator import itemgetter

from tiresias.core.entries import JobEntry, Key
from tiresias.core.model import JobId
from tiresias.core.state import JobState, State

CLOSE = 1e-3  # ranks of a lane that differ by less from a key are compared exactly
FIRST: Key = (-1,)  # ahead of every key


class Drifting:
    """How the rank of an entry changes: it was `rank` at the instant `since`, and changes at `rate`."""

    __slots__ = ("entry", "id", "priority", "rank", "rate", "since", "submitted_at")

    def __init__(self, entry: JobEntry, key: Key, since: float, rate: float):
        self.entry = entry
        self.priority, self.rank, self.submitted_at, self.id = key
        self.since = since
        self.rate = rate

    def key(self, at: float) -> Key:
        return (self.priority, self.rank + self.rate * (at - self.since), self.submitted_at, self.id)


class Lane:
    """Admitted entries of one size whose ranks drift at one rate, in an order that never changes."""

    __slots__ = ("gpus", "keys", "members", "rate")

    def __init__(self, gpus: int, rate: float):
        self.gpus = gpus
        self.rate = rate
        self.keys: list[Key] = []  # of each member, with its rank at the start of the target
        self.members: list[Drifting] = []

    def add(self, member: Drifting, start: float) -> None:
        key = self._timeless(member, start)
        index = bisect_left(self.keys, key)
        self.keys.insert(index, key)
        self.members.insert(index, member)

    def remove(self, member: Drifting, start: float) -> None:
        index = bisect_left(self.keys, self._timeless(member, start))
        assert self.members[index] is member, ("not in its lane", member.id)
        del self.keys[index], self.members[index]

    def _timeless(self, member: Drifting, start: float) -> Key:
        rank = member.rank - member.rate * (member.since - start)
        return (member.priority, rank, member.submitted_at, member.id)

    def corrected(self, index: int, key: Key, at: float) -> int:
        """How many members rank before this key at this instant, if rounding aside it is `index`."""
        members = self.members
        while index and members[index - 1].key(at) > key:
            index -= 1
        while index < len(members) and members[index].key(at) < key:
            index += 1
        return index


class KineticTarget:
    """Has the same contract as Target; ranks are single numbers, and `drift` is their change per second."""

    def __init__(self, state: State, drift: Callable[[JobState], float]):
        self.capacity = state.ledger.capacity
        self.used = 0  # GPUs of the admitted entries
        self.refused = 0  # how many ranked entries are not admitted
        self.flips: dict[JobId, JobEntry] = {}
        self._state = state
        self._drift = drift
        self._start = self._at = state.at
        self._ranked: dict[JobId, Drifting] = {}
        self._lanes: dict[tuple[int, float], Lane] = {}  # by size and rate
        self._waiting: dict[int, list[Key]] = {}  # by size: the keys of the refused entries, sorted
        self._restless: dict[JobId, Drifting] = {}  # to be ranked anew at each instant

    def __iter__(self) -> Iterator[JobEntry]:
        """The ranked entries in order; their keys are brought up to date."""
        at = self._at
        for each in self._ranked.values():
            each.entry.key = each.key(at)
        for key in sorted(each.key(at) for each in self._ranked.values()):
            yield self._ranked[key[-1]].entry

    # --- changes ---------------------------------------------------------------------------------------

    def gather(self) -> None:
        """Nothing to do: an entry is added in the time that a few bisections take."""

    def fill(self) -> None:
        """Nothing to do."""

    def add(self, entry: JobEntry, key: Key) -> None:
        """Rank an entry that was not ranked."""
        self._advance(self._state.at)
        self.flips[entry.id] = entry
        self._add(entry, key)

    def drop(self, entry: JobEntry) -> None:
        """Take a ranked entry out of the ranking."""
        self._advance(self._state.at)
        self._drop(entry)

    def rerank(self, entry: JobEntry, key: Key) -> None:
        """Give a ranked entry a new key, and the rate of change that its job has now."""
        self._advance(self._state.at)
        self._rerank(entry, key)

    def pin(self, entry: JobEntry) -> None:
        """Take an admitted entry out, and its GPUs off the capacity: no other entry's room changes."""
        assert entry.admitted, ("pinned but not admitted", entry.id)
        self._advance(self._state.at)
        self._take_out(entry)
        entry.key = None
        entry.admitted = False
        self.capacity -= entry.gpus
        self.flips.pop(entry.id, None)

    def resize(self, capacity: int) -> None:
        """Set how many GPUs there are to share."""
        self._advance(self._state.at)
        self.capacity = capacity
        self._mend(FIRST)

    def settle(self, at: float) -> None:
        """Bring the ranking to this instant."""
        self._advance(at)

    def trial(self, entry: JobEntry, key: Key, at: float) -> tuple[bool, list[JobEntry]]:
        """Whether an entry that is not ranked would be admitted so, and which ones it would push out.

        Everything is as before afterwards: the target is a function of the ranked entries.
        """
        assert not self.flips, ("a trial in the middle of a plan", list(self.flips))
        before = self._at
        self._advance(at)
        self.flips.clear()
        self._add(entry, key)
        is_admitted = entry.admitted
        out = [self.flips[id] for id in sorted(self.flips) if not self.flips[id].admitted]
        self._drop(entry)
        self._advance(before)
        self.flips.clear()
        return is_admitted, out

    # --- the ranking -----------------------------------------------------------------------------------

    def _advance(self, at: float) -> None:
        """Time passes: only what is restless has to be ranked anew. After a trial it goes back."""
        if at == self._at:
            return
        goes_back, self._at = at < self._at, at
        if not self._ranked:
            self._start = at  # the nearer it is, the less is lost to rounding
        if not self._restless and not goes_back:
            return
        for each in self._restless.values():
            if not each.entry.admitted:  # lanes need no new keys
                self._leave_waiting(each)
                self._wait(each.entry, each.key(at))
        self._mend(FIRST)

    def _add(self, entry: JobEntry, key: Key) -> None:
        gpus = entry.gpus
        entry.key = key
        self._ranked[entry.id] = each = Drifting(entry, key, self._at, self._rate(entry))
        if self.used + gpus <= self.capacity or gpus <= self.capacity - self._ahead(key):
            self._admit(each)
            if self.used > self.capacity:
                self._mend(key)
        else:
            self._refuse(each, key)

    def _rate(self, entry: JobEntry) -> float:
        return self._drift(entry.job) if entry.job.gpu_run is not None else 0.0

    def _drop(self, entry: JobEntry) -> None:
        key = self._take_out(entry)
        was_admitted, entry.admitted, entry.key = entry.admitted, False, None
        self.flips.pop(entry.id, None)
        if was_admitted and self.refused:
            self._mend(key)

    def _rerank(self, entry: JobEntry, key: Key) -> None:
        each = self._ranked[entry.id]
        if not each.rate and not self._rate(entry) and key == entry.key:
            return
        before, was_admitted = self._take_out(entry), entry.admitted
        if was_admitted and self.refused and key > before:
            self._mend(before)  # as if it were gone
        self._add(entry, key)
        if entry.admitted != was_admitted:
            self.flips[entry.id] = entry

    def _take_out(self, entry: JobEntry) -> Key:
        """Remove it from all lists, and leave the admissions of others as they are; its key at present."""
        each = self._ranked.pop(entry.id)
        self._restless.pop(entry.id, None)
        key = each.key(self._at)
        if entry.admitted:
            self._leave_lane(each)
        else:
            self._leave_waiting(each)
        return key

    def _admit(self, each: Drifting) -> None:
        entry = each.entry
        entry.admitted = True
        self.used += entry.gpus
        kind = (entry.gpus, each.rate)
        lane = self._lanes.get(kind)
        if lane is None:
            lane = self._lanes[kind] = Lane(*kind)
        lane.add(each, self._start)
        if each.rate > 0:
            self._restless[each.id] = each

    def _refuse(self, each: Drifting, key: Key) -> None:
        each.entry.admitted = False
        self._wait(each.entry, key)
        if each.rate:
            self._restless[each.id] = each

    def _wait(self, entry: JobEntry, key: Key) -> None:
        entry.key = key
        self.refused += 1
        insort(self._waiting.setdefault(entry.gpus, []), key)

    def _leave_lane(self, each: Drifting) -> None:
        kind = (each.entry.gpus, each.rate)
        lane = self._lanes[kind]
        lane.remove(each, self._start)
        if not lane.keys:
            del self._lanes[kind]
        self.used -= each.entry.gpus

    def _leave_waiting(self, each: Drifting) -> None:
        entry = each.entry
        key = entry.key
        assert key is not None
        keys = self._waiting[entry.gpus]
        index = bisect_left(keys, key)
        assert keys[index] == key, ("not ranked under this key", key)
        del keys[index]
        if not keys:
            del self._waiting[entry.gpus]
        self.refused -= 1

    # --- the walk --------------------------------------------------------------------------------------

    def _ahead(self, key: Key) -> int:
        """The GPUs of the admitted entries that rank before this key."""
        at = self._at
        passed = at - self._start
        priority, rank, submitted_at, id = key
        gpus = 0
        for lane in self._lanes.values():
            keys = lane.keys
            rate = lane.rate
            if not rate:
                gpus += lane.gpus * bisect_left(keys, key)
                continue
            timeless = rank - rate * passed
            index = bisect_left(keys, (priority, timeless, submitted_at, id))
            # Products are rounded: what is close is compared by the keys themselves.
            if (index and keys[index - 1][1] > timeless - CLOSE) or (
                index < len(keys) and keys[index][1] < timeless + CLOSE
            ):
                index = lane.corrected(index, key, at)
            gpus += lane.gpus * index
        return gpus

    def _mend(self, key: Key) -> None:
        """Correct all admissions behind this key; those ahead of it are right."""
        while True:
            room = self.capacity - (self._ahead(key) if key is not FIRST else 0)
            wrongly_refused = self._first_that_fits(key, room) if self.refused and room > 0 else None
            if self.used > self.capacity:
                wrongly_admitted, its_key = self._first_without_room()
                if wrongly_refused is None or its_key < wrongly_refused:
                    self._restless.pop(wrongly_admitted.id, None)
                    self._leave_lane(wrongly_admitted)
                    self._refuse(wrongly_admitted, its_key)
                    self.flips[wrongly_admitted.id] = wrongly_admitted.entry
                    key = its_key
                    continue
            if wrongly_refused is None:
                return
            each = self._ranked[wrongly_refused[-1]]
            self._restless.pop(each.id, None)
            self._leave_waiting(each)
            self._admit(each)
            self.flips[each.id] = each.entry
            key = wrongly_refused

    def _first_that_fits(self, key: Key, room: int) -> Key | None:
        """The first refused entry behind this key that fits into the room left by those ahead of it.

        `room` is what is left at the key, and more than that is left to none.
        """
        found: Key | None = None
        at_the_end = self.capacity - self.used
        for gpus, keys in self._waiting.items():
            if gpus > room:
                continue
            index = bisect_right(keys, key)
            if index == len(keys):
                continue
            first = keys[index]
            if found is not None and first > found:
                continue
            if gpus <= at_the_end or gpus <= self.capacity - self._ahead(first):
                found = first
        return found

    def _first_without_room(self) -> tuple[Drifting, Key]:
        """The first admitted entry that does not fit behind those ahead of it: more is admitted than fits."""
        at = self._at
        over = self.used - self.capacity
        last = [(lane.members[-1].key(at), len(lane.members) - 1, lane) for lane in self._lanes.values()]
        while True:
            behind = max(last, key=itemgetter(0))
            key, index, lane = behind
            over -= lane.gpus
            if over <= 0:
                return lane.members[index], key
            last.remove(behind)
            if index:
                last.append((lane.members[index - 1].key(at), index - 1, lane))
