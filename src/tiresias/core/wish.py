"""Wishes: what an allocator wants all jobs to hold, and the checks that a wish must pass.

An allocator answers with a Wish, which is whole, or with a WishChange: the wish that stands, but for some
jobs. Either way the Controller works with the difference to the wish that stands, and checks no more than
that. A wish with a problem is refused as a whole (WishError), and the wish before stands.

A job whose run may not be stopped (it is pinned, or leased) is taken. Its allotment stays as it is while it
is taken, whether a wish names it or not; only its turns may change, because a pause stops nothing.

An elastic job may be given any number of GPUs in its range (Demand). If it runs on another number, its run is
stopped, and the next one has the new size.

An allocator whose `layers` are more than 1 may give one slot to several jobs, each on a layer of its own, as
far as the memory of the GPU is enough for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from tiresias.core.facts import Allocation, Allotment
from tiresias.core.model import INFINITY, JobId

if TYPE_CHECKING:
    from tiresias.core.entries import JobEntry
    from tiresias.core.state import JobState, State
    from tiresias.core.wish_target import WishTarget


_BY_JOB = attrgetter("job_id")


class WishError(ValueError):
    """A wish that cannot be applied; the message names the job or the slot."""


@dataclass(slots=True)
class Wish:
    """Allotments by job, and the instant at which the allocator wants to be asked again."""

    jobs: dict[JobId, Allotment] = field(default_factory=dict)
    again_at: float = INFINITY
    by: str = ""  # the allocator; the Controller sets it

    def give(
        self,
        job: JobState,
        slots: Allocation | None = None,
        until: float | None = None,
        *,
        gpus: int | None = None,
        layer: int = 0,
        turn: int = 0,
        turns: int = 1,
    ) -> None:
        """Want the job to hold its GPUs: on these slots, and until this instant in any case.

        An elastic job holds `gpus`, by default as many as it has now.
        """
        size = job.gpus if gpus is None else gpus
        self.jobs[job.id] = Allotment(job.id, size, slots, until, layer, turn, turns)


@dataclass(slots=True)
class WishChange:
    """The wish that stands, but for these jobs."""

    given: Iterable[Allotment] = ()
    withdrawn: Iterable[JobId] = ()
    again_at: float = INFINITY


def difference(
    answer: Wish | WishChange, state: State, entries: Mapping[JobId, JobEntry]
) -> tuple[tuple[Allotment, ...], tuple[JobId, ...]]:
    """What is given and what is withdrawn, compared with the wish that stands.

    Both are in the order of the jobs, whatever order the allocator chose: it may have found its wish in
    another order if the manager was restarted before, and the decisions must be the same.
    """
    standing = {} if state.wish is None else state.wish.jobs
    if isinstance(answer, WishChange):
        return tuple(sorted(answer.given, key=_BY_JOB)), tuple(sorted(answer.withdrawn))
    jobs = answer.jobs
    given = sorted([each for id, each in jobs.items() if standing.get(id) != each], key=_BY_JOB)
    gone = standing.keys() - jobs.keys()
    return tuple(given), tuple(sorted(id for id in gone if id not in entries or not entries[id].pinned))


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
    layers = state.ledger.layers
    used = target.used - sum(entries[id].gpus for id in gone if id in entries and entries[id].admitted)
    named: list[Allotment] = []
    seen: set[JobId] = set()
    for allotment in given:
        id, gpus = allotment.job_id, allotment.gpus
        entry = entries.get(id)
        _check_turns(allotment, layers)
        if entry is not None and entry.pinned and _is_pace_only(allotment, entry.job, standing.get(id)):
            continue
        _check_job(id, gpus, entry, seen)
        assert entry is not None
        used += gpus
        if entry.admitted:
            used -= entry.gpus
            if id in gone:
                raise WishError(f"it both gives and withdraws job {id}")
        if allotment.until is not None and not -INFINITY < allotment.until < INFINITY:
            raise WishError(f"the lease of job {id} ends at {allotment.until!r}, which is no instant")
        if (allotment.slots is not None) is not names_slots:
            rule = "names no slots for" if names_slots else "names slots for"
            raise WishError(f"it {rule} job {id}, against what it declares (names_slots = {names_slots})")
        if allotment.slots is not None:
            named.append(allotment)
    if used > target.capacity and layers == 1:
        last = f" (the last one is job {max(seen)})" if seen else ""
        raise WishError(f"it gives jobs {used} GPUs{last}, and there are {target.capacity} to give")
    if named:
        _check_slots(named, gone, state, target, entries)


def _check_turns(allotment: Allotment, layers: int) -> None:
    id, turn, turns = allotment.job_id, allotment.turn, allotment.turns
    if turns < 0 or not 0 <= turn < max(turns, 1):
        raise WishError(f"it gives job {id} the turn {turn} of {turns}; turns count from 0")
    if not 0 <= allotment.layer < layers:
        raise WishError(
            f"it gives job {id} layer {allotment.layer} of its slots, and they have {layers}; layers count"
            " from 0"
        )
    if allotment.layer and allotment.slots is None:
        raise WishError(f"it gives job {id} layer {allotment.layer} without naming slots")


def _is_pace_only(allotment: Allotment, job: JobState, standing: Allotment | None) -> bool:
    """Whether nothing but the turns of a run that may not be stopped are to change."""
    return standing is not None and (standing.gpus, standing.slots, standing.until, standing.layer) == (
        allotment.gpus,
        allotment.slots,
        allotment.until,
        allotment.layer,
    )


def _check_job(id: JobId, gpus: int, entry: JobEntry | None, seen: set[JobId]) -> None:
    if entry is None:
        raise WishError(f"it names job {id}, which has ended or never was")
    job = entry.job
    if entry.pinned:
        raise WishError(f"it names job {id} anew, whose run may not be stopped now")
    if entry.key is None:
        raise WishError(f"it names job {id}, which is {_obstacle(job)}")
    demand = job.job.demand
    if not demand.is_elastic and gpus != demand.gpus:
        needs = f"it gives {gpus} GPUs, and the job needs {demand.gpus}"
        raise WishError(f"it splits the gang of job {id}: {needs}")
    if type(gpus) is not int or not demand.least <= gpus <= demand.most:
        needs = f"the job runs on {demand.least} to {demand.most}"
        raise WishError(f"it gives job {id} {gpus!r} GPUs, and {needs}")
    if id in seen:
        raise WishError(f"it names job {id} twice")
    seen.add(id)


def _obstacle(job: JobState) -> str:
    """Why a wish may not name this active job."""
    if not job.gpus:
        return "a job without GPUs"
    return "on hold" if job.on_hold else "being cancelled" if job.cancelled else "deferred"


def _check_slots(
    named: Iterable[Allotment],
    gone: set[JobId],
    state: State,
    target: WishTarget,
    entries: Mapping[JobId, JobEntry],
) -> None:
    """No layer of a slot is given twice, or although a run that may not be stopped holds it."""
    ledger = state.ledger
    sold = target.sold(entries)
    changed = {each.job_id: each for each in named}
    fresh: dict[tuple[int, int], dict[JobId, int]] = {}
    for id, allotment in changed.items():
        slots = allotment.slots or ()
        if len({node for node, _ in slots}) != len(slots):
            raise WishError(f"it names a node twice for job {id}: {slots!r}")
        for slot in slots_of(slots):
            node, index = slot
            if not 0 <= node < len(ledger.nodes) or not ledger.offered[node] >> index & 1:
                name = ledger.nodes[node].name if 0 <= node < len(ledger.nodes) else f"node {node}"
                raise WishError(f"it gives job {id} the slot {name}:{index}, which is not in service")
            others = {
                other: layer
                for other, layer in sold.get(slot, NOBODY).items()
                if other not in gone and other not in changed
            } | fresh.get(slot, NOBODY)
            for other, layer in others.items():
                if layer == allotment.layer:
                    name = ledger.nodes[node].name
                    raise WishError(f"it sells the slot {name}:{index} twice: to job {other} and to job {id}")
            if others and ledger.nodes[node].gpu_memory_bytes:
                _check_memory(id, others, node, index, state, entries)
            fresh.setdefault(slot, {})[id] = allotment.layer
        count = sum(mask.bit_count() for _, mask in slots)
        if count != allotment.gpus:
            what = f"it names {count} slots, and the job needs {allotment.gpus}"
            raise WishError(f"it splits the gang of job {id}: {what}")
        demand = entries[id].job.job.demand
        counts = sorted([mask.bit_count() for _, mask in slots], reverse=True)
        if demand.nodes is not None and tuple(counts) != demand.pieces:
            here, wanted = (" + ".join(map(str, each)) for each in (counts, demand.pieces))
            raise WishError(f"it gives job {id} {here} slots on a node each, and it has asked for {wanted}")


def _check_memory(
    id: JobId, others: Iterable[JobId], node: int, index: int, state: State, entries: Mapping[JobId, JobEntry]
) -> None:
    """The memory of the GPU is enough for all jobs that shall share it."""
    most = state.ledger.nodes[node].gpu_memory_bytes
    needs = [entries[each].job.job.demand.gpu_memory_bytes for each in (*others, id)]
    need = sum(most if each is None else each for each in needs)
    if need > most:
        name = f"{state.ledger.nodes[node].name}:{index}"
        who = ", ".join(str(each) for each in (*others, id))
        raise WishError(
            f"it lets jobs {who} share the slot {name}, whose memory is {most} bytes, and they need {need}"
            " (a job that does not state its need may use all of it)"
        )


def slots_of(allocation: Allocation) -> Iterable[tuple[int, int]]:
    """Each slot as (node, index)."""
    for node, mask in allocation:
        for index in range(mask.bit_length()):
            if mask >> index & 1:
                yield node, index


NOBODY: dict[JobId, int] = {}
