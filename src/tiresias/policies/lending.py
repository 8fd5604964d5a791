"""Two walks that share out GPUs between tenants: first what each tenant owns, then what is lent.

The first walk admits jobs of each tenant, in rank order, as far as they fit into the GPUs that are kept for
that tenant. The second walk is over the jobs of all tenants that the first one refused, for what is left.

A job that runs gets a better rank than one that waits. If a job that runs on lent GPUs could use that rank in
the first walk, it would take GPUs of its own tenant from a job that has just been given them, for no gain. So
the jobs that the wish that stands lends GPUs to come last in the first walk, until the second one refuses
them: only then do they compete for what their tenant owns, by their ranks.

Everything follows from the State, the wish that stands, and the arguments. The walks are kept exact while
jobs change one at a time, and give the same as if they were made anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.core.entries import Entry, Key
from tiresias.core.facts import Allotment
from tiresias.core.model import JobId
from tiresias.core.state import JobState
from tiresias.core.target import Target


class Claim(Entry):
    """A job in the first walk (`by` its rank key), and its twin in the second one."""

    __slots__ = ("by", "tenant", "twin")

    def __init__(self, id: JobId, gpus: int, tenant: str):
        super().__init__(id, gpus)
        self.tenant = tenant
        self.by: Key = ()
        self.twin: Claim | None = None  # set while the job is in the second walk


class Lending:
    """The two walks. `update` and `share_out` are called with what has changed, then `wanted` is asked."""

    def __init__(self, wish: Mapping[JobId, Allotment]) -> None:
        self.claims: dict[JobId, Claim] = {}  # every job that may be given GPUs
        self.lent: Target[Claim] = Target(0)
        self._by_tenant: dict[str, Target[Claim]] = {}
        self._taken: dict[JobId, tuple[str, int]] = {}
        self._behind: frozenset[str] = frozenset()
        self._settings: object = None
        self._touched: dict[JobId, None] = {}
        self._borrowers = {id for id, each in wish.items() if each.lent}

    @property
    def room(self) -> int:
        """The GPUs that nobody is given."""
        return self.lent.capacity - self.lent.used

    def set_behind(self, tenants: frozenset[str]) -> None:
        """Other tenants are behind now: their jobs go first in the second walk."""
        changed = self._behind ^ tenants
        if not changed:
            return
        self._behind = tenants
        for claim in self.claims.values():
            if claim.twin is not None and claim.tenant in changed:
                self._borrow(claim)

    def update(self, job: JobState, key: Key | None, *, is_taken: bool) -> None:
        """The job has changed; its key is None if it may not be given GPUs."""
        id = job.id
        self._touched[id] = None
        claim = self.claims.get(id)
        if claim is not None and (key is None or (claim.gpus, claim.tenant) != (job.gpus, job.tenant)):
            self._drop(claim)
            claim = None
        if is_taken:
            self._taken[id] = (job.tenant, job.gpus)
        else:
            self._taken.pop(id, None)
        if key is None:
            return
        if claim is None:
            claim = self.claims[id] = Claim(id, job.gpus, job.tenant)
            claim.by = key
            self._walk_of(job.tenant).add(claim, self._own_key(claim))
        elif claim.by != key:
            claim.by = key
            self._walk_of(job.tenant).rerank(claim, self._own_key(claim))
            if claim.twin is not None:
                self._borrow(claim)

    def share_out(self, kept: Mapping[str, int], room: int) -> None:
        """Let both walks follow what has changed: `kept` GPUs by tenant, of `room` that can be given."""
        settings = (kept, room, tuple(self._taken.values()))
        if settings != self._settings:
            self._settings = settings
            owned = self._owned(kept, room)
            for tenant, walk in self._by_tenant.items():
                if walk.capacity != owned[tenant]:
                    walk.resize(owned[tenant])
        while True:
            self._follow(room)
            refused = [id for id in self._touched if id in self._borrowers and self._is_refused(id)]
            if not refused:
                return
            for id in refused:  # nothing is lent to them any more: they compete for what their tenant owns
                self._borrowers.discard(id)
                claim = self.claims.get(id)
                if claim is not None:
                    self._walk_of(claim.tenant).rerank(claim, self._own_key(claim))

    def wanted(self, id: JobId) -> Allotment | None:
        """What the job is to be given; None: nothing."""
        claim = self.claims.get(id)
        if claim is None:
            return None
        if claim.admitted:
            return Allotment(id, claim.gpus)
        if claim.twin is not None and claim.twin.admitted:
            return Allotment(id, claim.gpus, lent=True)
        return None

    def is_taken(self, id: JobId) -> bool:
        return id in self._taken

    def take_touched(self) -> list[JobId]:
        """The jobs about which the walks may have decided otherwise since the last call."""
        touched = list(self._touched)
        self._touched.clear()
        return touched

    def remember(self, id: JobId, allotment: Allotment | None) -> None:
        """The wish now gives this to the job."""
        was, is_lent = id in self._borrowers, allotment is not None and allotment.lent
        if was == is_lent:
            return
        if is_lent:
            self._borrowers.add(id)
        else:
            self._borrowers.discard(id)
        claim = self.claims.get(id)
        if claim is not None:
            self._walk_of(claim.tenant).rerank(claim, self._own_key(claim))

    # --- inside ----------------------------------------------------------------------------------------

    def _own_key(self, claim: Claim) -> Key:
        return (claim.id in self._borrowers, *claim.by)

    def _is_refused(self, id: JobId) -> bool:
        """Whether a job that the wish lends GPUs to gets none in either walk."""
        claim = self.claims.get(id)
        return claim is None or not (claim.admitted or (claim.twin is not None and claim.twin.admitted))

    def _follow(self, room: int) -> None:
        """Let the second walk have what the first one refuses, and the GPUs that it leaves."""
        used = 0
        for walk in self._by_tenant.values():
            used += walk.used
            if walk.flips:
                for id, claim in walk.flips.items():
                    self._touched[id] = None
                    if not claim.admitted:
                        self._borrow(claim)
                    elif claim.twin is not None:
                        self._stop_borrowing(claim)
                walk.flips.clear()
        if self.lent.capacity != room - used:
            self.lent.resize(room - used)
        self._touched.update(dict.fromkeys(self.lent.flips))
        self.lent.flips.clear()

    def _owned(self, kept: Mapping[str, int], room: int) -> dict[str, int]:
        """By tenant, the GPUs that are kept for its jobs, of which taken runs have some already."""
        owned = {who: kept.get(who, 0) for who in self._by_tenant}
        for tenant, gpus in self._taken.values():
            if tenant in owned:
                owned[tenant] = max(0, owned[tenant] - gpus)
        over = sum(owned.values()) - room
        for who in sorted(owned, key=lambda each: (-owned[each], each)):
            if over <= 0:
                break
            less = min(over, owned[who])  # taken runs have more than what is kept for their tenants
            owned[who] -= less
            over -= less
        return owned

    def _walk_of(self, tenant: str) -> Target[Claim]:
        walk = self._by_tenant.get(tenant)
        if walk is None:
            walk = self._by_tenant[tenant] = Target(0)
            self._settings = None
        return walk

    def _drop(self, claim: Claim) -> None:
        del self.claims[claim.id]
        walk = self._by_tenant[claim.tenant]
        walk.drop(claim)
        if next(iter(walk), None) is None:  # a tenant without jobs keeps nothing from the others
            del self._by_tenant[claim.tenant]
            self._settings = None
        if claim.twin is not None:
            self._stop_borrowing(claim)

    def _borrow(self, claim: Claim) -> None:
        """Have the job in the second walk, where it belongs by its present key."""
        key = (claim.tenant not in self._behind, *claim.by)
        if claim.twin is None:
            claim.twin = Claim(claim.id, claim.gpus, claim.tenant)
            self.lent.add(claim.twin, key)
        else:
            self.lent.rerank(claim.twin, key)

    def _stop_borrowing(self, claim: Claim) -> None:
        assert claim.twin is not None
        self.lent.drop(claim.twin)
        claim.twin = None
