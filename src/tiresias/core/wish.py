"""Wishes: what an allocator wants all jobs to hold, and the checks that a wish must pass.

An allocator answers with a Wish, which is whole, or with a WishChange: the wish that stands, but for some
jobs. Either way the Controller works with the difference to the wish that stands, and checks no more than
that. A wish with a problem is refused as a whole (WishError), and the wish before stands.

A job whose run may not be stopped (it is pinned, or leased) is taken. Its allotment stays as it is while it
is taken, whether a wish names it or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiresias.core.facts import Allocation, Allotment
from tiresias.core.model import INFINITY, JobId

if TYPE_CHECKING:
    from tiresias.core.entries import JobEntry
    from tiresias.core.state import JobState, State
    from tiresias.core.wish_target import WishTarget


class WishError(ValueError):
    """A wish that cannot be applied; the message names the job or the slot."""


@dataclass(slots=True)
class Wish:
    """Allotments by job, and the instant at which the allocator wants to be asked again."""

    jobs: dict[JobId, Allotment] = field(default_factory=dict)
    again_at: float = INFINITY
    by: str = ""  # the allocator; the Controller sets it

    def give(self, job: JobState, slots: Allocation | None = None, until: float | None = None) -> None:
        """Want the job to hold its GPUs: on these slots, and until this instant in any case."""
        self.jobs[job.id] = Allotment(job.id, job.gpus, slots, until)


@dataclass(slots=True)
class WishChange:
    """The wish that stands, but for these jobs."""

    given: Iterable[Allotment] = ()
    withdrawn: Iterable[JobId] = ()
    again_at: float = INFINITY


def difference(
    answer: Wish | WishChange, state: State, entries: Mapping[JobId, JobEntry]
) -> tuple[tuple[Allotment, ...], tuple[JobId, ...]]:
    """What is given and what is withdrawn, compared with the wish that stands."""
    standing = {} if state.wish is None else state.wish.jobs
    if isinstance(answer, WishChange):
        return tuple(answer.given), tuple(answer.withdrawn)
    jobs = answer.jobs
    given = tuple([each for id, each in jobs.items() if standing.get(id) != each])
    gone = standing.keys() - jobs.keys()
    return given, tuple(sorted(id for id in gone if id not in entries or not entries[id].pinned))


def check(
    given: Iterable[Allotment],
    withdrawn: Iterable[JobId],
    state: State,
    target: WishTarget,
    entries: Mapping[JobId, JobEntry],
    *,
    names_slots: bool,
) -> None:
    """Raise WishError unless the wish that stands can become this one."""
    standing = {} if state.wish is None else state.wish.jobs
    gone = set(withdrawn)
    for id in gone:
        if id not in standing:
            raise WishError(f"it withdraws job {id}, to which the wish before gives nothing")
        if id in entries and entries[id].pinned:
            raise WishError(f"it withdraws job {id}, whose run may not be stopped now")
    used = target.used - sum(entries[id].gpus for id in gone if id in entries and entries[id].admitted)
    named: list[Allotment] = []
    seen: set[JobId] = set()
    for allotment in given:
        id, gpus = allotment.job_id, allotment.gpus
        entry = entries.get(id)
        _check_job(id, gpus, entry, seen)
        assert entry is not None
        if not entry.admitted:
            used += gpus
        elif id in gone:
            raise WishError(f"it both gives and withdraws job {id}")
        if allotment.until is not None and not -INFINITY < allotment.until < INFINITY:
            raise WishError(f"the lease of job {id} ends at {allotment.until!r}, which is no instant")
        if (allotment.slots is not None) is not names_slots:
            rule = "names no slots for" if names_slots else "names slots for"
            raise WishError(f"it {rule} job {id}, against what it declares (names_slots = {names_slots})")
        if allotment.slots is not None:
            named.append(allotment)
    if used > target.capacity:
        last = f" (the last one is job {max(seen)})" if seen else ""
        raise WishError(f"it gives jobs {used} GPUs{last}, and there are {target.capacity} to give")
    if named:
        _check_slots(named, gone, state, entries)


def _check_job(id: JobId, gpus: int, entry: JobEntry | None, seen: set[JobId]) -> None:
    if entry is None:
        raise WishError(f"it names job {id}, which has ended or never was")
    job = entry.job
    if entry.pinned:
        raise WishError(f"it names job {id} anew, whose run may not be stopped now")
    if entry.key is None:
        raise WishError(f"it names job {id}, which is {_obstacle(job)}")
    if gpus != job.gpus:
        raise WishError(f"it splits the gang of job {id}: it gives {gpus} GPUs, and the job needs {job.gpus}")
    if id in seen:
        raise WishError(f"it names job {id} twice")
    seen.add(id)


def _obstacle(job: JobState) -> str:
    """Why a wish may not name this active job."""
    if not job.gpus:
        return "a job without GPUs"
    return "on hold" if job.on_hold else "being cancelled" if job.cancelled else "deferred"


def _check_slots(
    named: Iterable[Allotment], gone: set[JobId], state: State, entries: Mapping[JobId, JobEntry]
) -> None:
    """No slot is given twice, or although a run that may not be stopped holds it."""
    ledger = state.ledger
    owner: dict[tuple[int, int], JobId] = {}
    changed = {each.job_id: each for each in named}
    standing = {} if state.wish is None else state.wish.jobs
    for id, entry in entries.items():
        run = entry.job.gpu_run
        if entry.pinned and run is not None:
            for slot in _slots(run.allocation):
                owner[slot] = id
        elif id in standing and id not in gone and id not in changed and entry.key is not None:
            for slot in _slots(standing[id].slots or ()):
                owner[slot] = id
    for id, allotment in changed.items():
        slots = allotment.slots or ()
        if len({node for node, _ in slots}) != len(slots):
            raise WishError(f"it names a node twice for job {id}: {slots!r}")
        for node, index in _slots(slots):
            if not 0 <= node < len(ledger.nodes) or not ledger.offered[node] >> index & 1:
                name = ledger.nodes[node].name if 0 <= node < len(ledger.nodes) else f"node {node}"
                raise WishError(f"it gives job {id} the slot {name}:{index}, which is not in service")
            other = owner.get((node, index))
            if other is not None:
                name = ledger.nodes[node].name
                raise WishError(f"it sells the slot {name}:{index} twice: to job {other} and to job {id}")
            owner[node, index] = id
        count = sum(mask.bit_count() for _, mask in slots)
        if count != allotment.gpus:
            what = f"it names {count} slots, and the job needs {allotment.gpus}"
            raise WishError(f"it splits the gang of job {id}: {what}")


def _slots(allocation: Allocation) -> Iterable[tuple[int, int]]:
    for node, mask in allocation:
        for index in range(mask.bit_length()):
            if mask >> index & 1:
                yield node, index
