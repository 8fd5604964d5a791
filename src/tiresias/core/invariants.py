"""Checks that re-derive every counter from what it counts, for tests and for drivers that ask for them."""

from __future__ import annotations

from tiresias.core.controller import Controller
from tiresias.core.entries import JobEntry
from tiresias.core.ledger import Ledger
from tiresias.core.lifecycle import ENDED, HELD, HOLDING
from tiresias.core.model import JobId, Phase, Pool, RunId
from tiresias.core.overflow import overflow
from tiresias.core.plugins import Allocator
from tiresias.core.protection import protected_runs
from tiresias.core.state import JobState, State, is_schedulable
from tiresias.core.target import Target, plain_target
from tiresias.core.wish_target import WishTarget
from tiresias.core.without_gpus import most


def check(state: State) -> None:
    """Nothing in the State contradicts anything else in it."""
    _check_ledger(state.ledger)
    if state.cpus is not None:
        _check_ledger(state.cpus)
    for id, job in state.jobs.items():
        assert job.id == id, (id, job.id)
        assert job.phase not in ENDED, ("an ended job is active", id, job.phase)
        run = job.run
        assert (run is not None) == (job.phase in HOLDING), (id, job.phase, run)
        assert (job.phase is HELD) <= job.on_hold, ("HELD, but not on hold", id)
        goes_on = job.phase in (Phase.STARTING, Phase.RUNNING, Phase.PAUSED)
        assert not (job.on_hold and goes_on), ("on hold, but runs", id)
        assert not (job.deferred and run is not None), ("deferred, but holds slots", id, job.deferred)
        if run is not None:
            assert state.runs.get(run.id) is run, ("unknown run", id, run.id)
            assert sum(slots.bit_count() for _, slots in run.allocation) == run.gpus, ("its slots", id)
            goes_on_gpus = goes_on and run.pool is Pool.GPUS
            assert run.gpus == job.gpus or not goes_on_gpus, ("partial gang", id, run.gpus, job.gpus)
            demand = job.job.demand
            assert demand.least <= run.gpus <= demand.most, ("a size that its job does not run on", id)
            if demand.nodes is not None and run.pool is Pool.GPUS:
                pieces = sorted([slots.bit_count() for _, slots in run.allocation], reverse=True)
                assert tuple(pieces) == demand.pieces, ("not on the nodes asked for", id, pieces)
            assert run.granted_at <= state.at, (id, run.granted_at, state.at)
            assert run.pool is state.pool_of(run.allocation), ("slots of another pool", id, run.pool)
            assert run.pool is not Pool.GPUS or run.layer == state.ledger.layer_of(run.id), (id, run.layer)
            assert (run.turns != 1) == (run.id in state.paced), ("its turns", id, run.turns)
            assert (job.phase is Phase.PAUSED) <= (not run.turns), ("PAUSED, and has turns", id, run.turns)
            assert not (job.phase is Phase.RUNNING and not run.turns), ("RUNNING, and has no turns", id)
            can_run_there = run.pool is Pool.GPUS or job.job.demand.cpu_speed is not None
            assert can_run_there, ("cannot run on CPUs", id)
        assert job.runs >= job.preemptions, (id, job.runs, job.preemptions)
        _check_size(state, job)
        _check_service(state, job)
    runs = [job.run for job in state.jobs.values() if job.run is not None]
    on_gpus, on_cpus = ({run.id for run in runs if run.pool is pool} for pool in Pool)
    assert on_gpus == state.ledger.allocations.keys(), (on_gpus, state.ledger.allocations.keys())
    assert on_cpus == (state.cpus.allocations.keys() if state.cpus is not None else set()), on_cpus
    assert on_gpus | on_cpus == state.runs.keys(), (on_gpus, on_cpus, state.runs.keys())


def _check_size(state: State, job: JobState) -> None:
    """What a job needs is its demand, or, if it is elastic, what the wish gives it or its run holds."""
    demand, size = job.job.demand, job.gpus
    assert demand.least <= size <= demand.most, ("a size that it does not run on", job.id, size)
    state.fit(job)
    assert job.gpus == size, ("another size follows from the State", job.id, size, job.gpus)


def _check_service(state: State, job: JobState) -> None:
    """Its runs together attained service for no more and no fewer GPUs than they may have held."""
    demand, close = job.job.demand, 1e-6 * (1 + job.service_gpu_s)
    assert job.executed_s * demand.most >= job.service_gpu_s - close, ("too much service", job.id)
    if state.cpus is None:  # a run on CPUs attains none
        assert job.executed_s * demand.least <= job.service_gpu_s + close, ("too little service", job.id)


def _check_ledger(ledger: Ledger) -> None:
    taken = [0] * len(ledger.nodes)
    held: dict[tuple[int, int], int] = {}  # by layer and node
    for run_id, allocation in ledger.allocations.items():
        layer = ledger.layer_of(run_id)
        for node, slots in allocation:
            on_layer = held.get((layer, node), 0)
            assert slots & ~on_layer == slots != 0, ("slots taken twice or none", run_id, node, slots, layer)
            held[layer, node] = on_layer | slots
            taken[node] |= slots
    buckets = [0] * len(ledger.buckets)
    free = gpus = capacity = 0
    for node, (spec, slots) in enumerate(zip(ledger.nodes, ledger.free_slots, strict=True)):
        everything = (1 << spec.gpus) - 1
        offered = everything & ~ledger.out_slots[node] if ledger.is_usable(node) else 0
        assert ledger.offered[node] == offered, (spec.name, ledger.offered[node], offered)
        assert slots == offered & ~taken[node], (spec.name, taken[node], offered, slots)
        assert ledger.free_counts[node] == slots.bit_count(), (spec.name, ledger.free_counts[node])
        buckets[slots.bit_count()] |= 1 << node
        free += slots.bit_count()
        gpus += offered.bit_count()
        capacity += (offered | taken[node]).bit_count()
    assert buckets == ledger.buckets, (buckets, ledger.buckets)
    assert (free, gpus, capacity) == (ledger.free, ledger.gpus, ledger.capacity)


def check_plan(controller: Controller) -> None:
    """The State is sound, and the target is what a plain walk over the ranks would choose."""
    state, target, entries = controller.state, controller.target, controller.entries
    check(state)
    assert entries.keys() == state.jobs.keys(), ("entries of other jobs", entries.keys() ^ state.jobs.keys())
    for id, entry in entries.items():
        assert entry.job is state.jobs[id], ("the entry of another job", id)
        assert entry.key is None or entry.gpus == entry.job.gpus, ("another demand", id, entry.gpus)
    ranked = list(target)
    keys = [entry.key for entry in ranked]
    assert keys == sorted(keys), ("ranks out of order", keys)  # type: ignore[type-var]
    pinned = controller.pinned()
    unsaving = [job for job in state.jobs.values() if job.resumable is False]
    protected = protected_runs(unsaving, controller.policy.protect, state.ledger.gpus)
    lost = protected - {entry.job.run.id for entry in pinned if entry.job.run is not None}
    assert not lost, ("protected, but not pinned", lost)
    assert target.capacity == state.ledger.capacity - sum(entry.gpus for entry in pinned)
    expected = {id for id, entry in entries.items() if _is_ranked(entry, state.ledger)}
    assert {entry.id for entry in ranked} == expected, "a job lost from the ranking"
    if isinstance(target, WishTarget):
        chosen = _wished(controller, ranked)
    else:
        chosen = plain_target(ranked, target.capacity, strict=controller.policy.strict)
    assert {entry.id for entry in ranked if entry.admitted} == chosen, ("not the plain target", chosen)
    assert target.used == sum(entry.gpus for entry in ranked if entry.admitted), target.used
    assert target.refused == len(ranked) - len(chosen), target.refused
    if isinstance(target, Target):
        _check_chunks(target)
    assert not target.flips, ("a change that the plan has not seen", target.flips)
    for entry in ranked:
        job = entry.job
        if job.phase in (Phase.STARTING, Phase.RUNNING, Phase.PAUSED) and job.gpu_run is not None:
            assert entry.admitted, ("runs, but is not in the target", job.id)
    assert state.refused_since.keys() <= chosen, ("refused, but not in the target", state.refused_since)
    ready = [entry for entry in ranked if entry.admitted and entry.job.gpu_run is None]
    if isinstance(controller.policy, Allocator) and controller.policy.names_slots:
        _check_named_starts(state, ready)
    else:
        _check_starts(controller, ready)
    _check_without_gpus(controller)
    if state.cpus is not None and controller.policy.uses_cpus:
        left = [entry.id for entry in overflow(ranked, state.cpus.free)]
        assert not left, ("would fit on CPUs, and was not started there", left)


def _wished(controller: Controller, ranked: list[JobEntry]) -> set[JobId]:
    """The ranked jobs to which the wish gives what they need; it names no other active job but taken ones."""
    state = controller.state
    wanted = {} if state.wish is None else state.wish.jobs
    assert wanted.keys() <= state.jobs.keys(), ("the wish names jobs that have ended", wanted.keys())
    chosen = {entry.id for entry in ranked if entry.id in wanted and wanted[entry.id].gpus == entry.gpus}
    given = sum(entry.gpus for entry in ranked if entry.id in chosen)
    if state.ledger.layers == 1:
        assert given <= controller.target.capacity or controller.allotting.refused_wish, (
            "more than there is",
            given,
        )
    return chosen


def _is_ranked(entry: JobEntry, ledger: Ledger) -> bool:
    job = entry.job
    if entry.pinned or not job.gpus or not is_schedulable(job):
        return False
    nodes = job.job.demand.nodes
    return nodes is None or job.run is not None or ledger.open_to(job.job.demand).could_hold(job.gpus)


def _check_without_gpus(controller: Controller) -> None:
    """Those that run are counted, and one waits only if as many run as may."""
    kept, jobs = controller.without_gpus, [job for job in controller.state.jobs.values() if not job.gpus]
    assert kept.running == {job.id for job in jobs if job.run is not None}, kept.running
    waiting = {job.id for job in jobs if job.run is None and is_schedulable(job)}
    assert kept.waiting.keys() == waiting, (kept.waiting.keys(), waiting)
    assert kept.most == most(controller.state), kept.most
    assert not waiting or len(kept.running) >= kept.most, ("could run, and was not started", waiting)


def _check_starts(controller: Controller, ready: list[JobEntry]) -> None:
    """No job in the target could start: there are too few slots, or the placer refuses what is not kept."""
    state, placer = controller.state, controller.placer
    ledger, at = state.ledger, state.at
    mark = ledger.checkpoint()
    for number, entry in enumerate(ready):
        job = entry.job
        holes = ledger.open_to(job.job.demand)
        fits = job.gpus <= ledger.free
        since = state.refused_since.get(job.id, at)
        if fits:
            allocation = placer.place(job, holes, at, since)
            if allocation is not None and job.run is not None:
                assert job.phase is Phase.STOPPING, ("its GPUs are free, and it is kept on CPUs", job.id)
                ledger.take(RunId(-1 - number), allocation)
                continue
            assert allocation is None, ("in the target, fits, and was not started", job.id)
            if controller.policy.strict:
                break
        if fits or placer.waits or holes is not ledger:
            claim = placer.claim(job, holes, at, since)
            if claim:
                ledger.take(RunId(-1 - number), claim)
    ledger.rollback(mark)


def _check_named_starts(state: State, ready: list[JobEntry]) -> None:
    """No job could start on the slots that the wish names for it."""
    assert state.wish is not None or not ready
    for entry in ready:
        assert state.wish is not None
        allotment = state.wish.jobs[entry.id]
        need = entry.job.job.demand.gpu_memory_bytes
        free = state.ledger.is_open(allotment.slots or (), allotment.layer, need)
        assert not free or entry.job.run is not None, ("its slots are free, and it was not started", entry.id)


def _check_chunks(target: Target[JobEntry]) -> None:
    room = target.capacity
    for entries, total, need in zip(target._entries, target._sums, target._needs, strict=True):
        assert total == sum(entry.gpus for entry in entries if entry.admitted), (total, entries)
        for entry in entries:
            if entry.admitted:
                room -= entry.gpus
            else:
                assert need <= entry.gpus - room, ("not a bound", need, entry.gpus, room)
