"""Checks what must be true of every simulation, from its journal and its result alone.

Each function raises AssertionError with the offending fact; `check_story` calls all of them.
"""

from __future__ import annotations

from collections import defaultdict
from math import isclose

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import JobId, RunId
from tiresias.testing.story import Story

CLOSE = 1e-6  # relative: sums of many floats
BY_WISH = (f.Rule.WISH, f.Rule.RESIZE)  # stopped to go on elsewhere, or on more or fewer slots


def check_story(story: Story, *, replans_without_events: bool = False) -> None:
    """Run all checks. `replans_without_events` is for policies and placers that change the plan without
    a new fact, for which `no_job_is_preempted_back` does not hold."""
    time_never_goes_back(story)
    facts_are_unique(story)
    slots_are_held_once(story)
    gangs_are_whole(story)
    no_job_is_lost(story)
    service_is_conserved(story)
    work_is_conserved(story)
    work_follows_speeds(story)
    no_run_is_pointless(story)
    if not replans_without_events:
        no_job_is_preempted_back(story)


def time_never_goes_back(story: Story) -> None:
    instants = [fact.at for fact in story.facts]
    assert instants == sorted(instants), "facts out of order"


def facts_are_unique(story: Story) -> None:
    """No job is submitted twice, and no run is granted, started, revoked or exited twice."""
    seen = set[tuple[object, ...]]()
    for fact in story.facts:
        if isinstance(fact, f.RunGranted | f.RunStarted | f.RunRevoked | f.RunExited):
            what: tuple[object, ...] = (type(fact), fact.run_id)
        elif isinstance(fact, f.JobPromoted):
            what = (type(fact), fact.job_id, fact.at)
        elif isinstance(fact, f.JobSubmitted):
            what = (type(fact), fact.job.id)
        else:
            continue
        assert what not in seen, ("a fact occurred twice", fact)
        seen.add(what)


def slots_are_held_once(story: Story) -> None:
    """A slot exists, is granted only when free, and is free only after the exit of its last run.

    A slot with several layers is free or not on each of them.
    """
    sizes = [node.gpus or node.cpu_slots for node in story.cluster.nodes]
    all_free = [(1 << gpus) - 1 for gpus in sizes]
    layers: dict[int, list[int]] = {}
    allocations: dict[RunId, tuple[int, f.Allocation]] = {}
    for fact in story.facts:
        if isinstance(fact, f.RunGranted):
            assert fact.run_id not in allocations, ("granted twice", fact)
            allocations[fact.run_id] = fact.layer, fact.allocation
            free = layers.setdefault(fact.layer, list(all_free))
            for node, slots in fact.allocation:
                assert slots & free[node] == slots, ("slots that were not free", fact, free[node])
                free[node] ^= slots
        elif isinstance(fact, f.RunExited):
            layer, allocation = allocations.pop(fact.run_id)
            for node, slots in allocation:
                layers[layer][node] |= slots
    if not story.result.interrupted:
        assert not allocations, ("runs that never exited", allocations)


def gangs_are_whole(story: Story) -> None:
    """Every run holds exactly as many slots as its job demands; an elastic one, as the wish gives it."""
    jobs = story.jobs()
    wished: dict[JobId, int] = {}
    for fact in story.facts:
        if isinstance(fact, f.WishChanged):
            for id in fact.withdrawn:
                del wished[id]
            wished |= {each.job_id: each.gpus for each in fact.given}
        if not isinstance(fact, f.RunGranted):
            continue
        nodes = [node for node, _ in fact.allocation]
        assert len(set(nodes)) == len(nodes), ("a node twice in one allocation", fact)
        demand = jobs[fact.job_id].demand
        wanted = wished.get(fact.job_id, demand.gpus) if demand.is_elastic else demand.gpus
        assert demand.least <= wanted <= demand.most, ("a size that it does not run on", fact, wanted)
        assert size_of(fact) == wanted, ("a partial gang", fact, wanted)


def size_of(grant: f.RunGranted) -> int:
    return sum(slots.bit_count() for _, slots in grant.allocation)


def no_job_is_lost(story: Story) -> None:
    """Every job of the trace is rejected because it can never fit, or finishes exactly once."""
    finished = [grant.job_id for grant, exited in story.runs() if exited.cause is ExitCause.FINISHED]
    assert len(finished) == len(set(finished)), "a job that finished twice"
    fits = story.trace.jobs["gpus"] <= story.cluster.gpus
    assert story.result.rejected_jobs == len(story.trace) - int(fits.sum())
    assert len(story.jobs()) == int(fits.sum()), "a job that was never submitted"
    assert set(finished) == story.jobs().keys(), "a job that never finished"
    assert story.result.jobs.height == len(finished)


def service_is_conserved(story: Story) -> None:
    """The service in the result is the time from grants to exits x GPUs; runs and preemptions agree, too.

    A run on CPUs attains no service, and a stop there is not a preemption.
    """
    service: dict[JobId, float] = defaultdict(float)
    runs: dict[JobId, int] = defaultdict(int)
    revoked: dict[JobId, int] = defaultdict(int)
    for grant, exited in story.runs():
        if story.on_gpus(grant):
            service[grant.job_id] += (exited.at - grant.at) * size_of(grant)
        runs[grant.job_id] += 1
    grants = story.grants()
    for fact in story.facts:
        if isinstance(fact, f.RunRevoked) and story.on_gpus(grants[fact.run_id]):
            revoked[grants[fact.run_id].job_id] += 1
    ids = {name: JobId(row) for row, name in enumerate(story.trace.jobs["id"])}
    for row in story.result.jobs.iter_rows(named=True):
        id = ids[row["id"]]
        assert isclose(row["service_gpu_s"], service[id], rel_tol=CLOSE, abs_tol=CLOSE), (row, service[id])
        assert (row["runs"], row["preemptions"]) == (runs[id], revoked[id]), row


def work_is_conserved(story: Story) -> None:
    """A job has done all its work when it finishes and never loses any; the rest of its time is lost time.

    Runs that share slots are slower than that, and those of elastic jobs of another size do the same work in
    other times: see `work_follows_speeds`.
    """
    jobs = story.jobs()
    done: dict[JobId, float] = defaultdict(float)
    executed_gpu_s = work_gpu_s = 0.0
    for grant, exited in story.runs():
        job = jobs[grant.job_id]
        assert exited.progress_s >= done[job.id] - CLOSE, ("work lost", exited)
        done[job.id] = exited.progress_s
        if story.on_gpus(grant):
            executed_gpu_s += (exited.at - grant.at) * job.demand.gpus
        if exited.cause is ExitCause.FINISHED:
            assert job.duration_s is not None
            assert isclose(exited.progress_s, job.duration_s, rel_tol=CLOSE), exited
            work_gpu_s += job.duration_s * job.demand.gpus
    on_cpus = story.result.on_cpus
    spent_gpu_s = work_gpu_s + story.result.lost_gpu_s - (0.0 if on_cpus is None else on_cpus.work_gpu_s)
    if any(job.demand.is_elastic for job in jobs.values()):
        return
    if any(grant.layer for grant in story.grants().values()):
        assert executed_gpu_s >= spent_gpu_s * (1 - CLOSE), (executed_gpu_s, spent_gpu_s)
        return
    assert isclose(executed_gpu_s, spent_gpu_s, rel_tol=CLOSE, abs_tol=CLOSE), (executed_gpu_s, spent_gpu_s)


def work_follows_speeds(story: Story) -> None:
    """A run that exits has done as much work as its speeds between the facts about them add up to."""
    jobs, grants = story.jobs(), story.grants()
    saved: dict[JobId, float] = defaultdict(float)
    going: dict[RunId, tuple[float, float, float]] = {}  # since when, from which work on, how fast
    for fact in story.facts:
        if isinstance(fact, f.RunStarted):
            going[fact.run_id] = fact.at, saved[grants[fact.run_id].job_id], fact.speed
        elif isinstance(fact, f.RunProgressed):
            since, work_s, speed = going[fact.run_id]
            done_s = work_s + speed * (fact.at - since)
            assert isclose(fact.progress_s, done_s, rel_tol=CLOSE, abs_tol=CLOSE), (fact, done_s)
            going[fact.run_id] = fact.at, fact.progress_s, fact.speed
        elif isinstance(fact, f.RunRevoked) and fact.run_id in going:
            since, work_s, speed = going[fact.run_id]
            going[fact.run_id] = fact.at, work_s + speed * (fact.at - since), 0.0
        elif isinstance(fact, f.RunExited):
            job = jobs[grants[fact.run_id].job_id]
            since, work_s, speed = going.pop(fact.run_id, (fact.at, saved[job.id], 0.0))
            saved[job.id] = done_s = work_s + speed * (fact.at - since)
            assert isclose(fact.progress_s, done_s, rel_tol=CLOSE, abs_tol=CLOSE), (fact, done_s)


def no_run_is_pointless(story: Story) -> None:
    """No job is both granted slots and preempted at one instant, in either order.

    Unless a job was promoted in between: it may have starved long before it was preempted. A run that
    migrates, for a gang or by the wish of an allocator, is granted other slots at once if saving takes no
    time.
    """
    at, granted, revoked = 0.0, set[JobId](), set[JobId]()
    grants = story.grants()
    left: dict[JobId, f.Allocation] = {}  # the slots of runs that the wish stopped
    for fact in story.facts:
        if fact.at != at or isinstance(fact, f.JobPromoted):
            at, granted, revoked = fact.at, set(), set()
            left.clear()
        if isinstance(fact, f.RunRevoked) and fact.why is not None and fact.why.rule in BY_WISH:
            grant = grants[fact.run_id]
            assert grant.job_id not in granted, ("granted and revoked at one instant", fact)
            left[grant.job_id] = grant.allocation
            continue
        if isinstance(fact, f.RunGranted) and fact.job_id in left:
            assert left[fact.job_id] != fact.allocation, ("migrates to where it was", fact)
        if isinstance(fact, f.RunGranted) and story.on_gpus(fact):
            granted.add(fact.job_id)
        elif (
            isinstance(fact, f.RunRevoked)
            and story.on_gpus(grants[fact.run_id])
            and (fact.why is None or fact.why.rule is not f.Rule.MIGRATION)
        ):
            revoked.add(grants[fact.run_id].job_id)
        assert not granted & revoked, ("granted and revoked at one instant", fact)


def no_job_is_preempted_back(story: Story) -> None:
    """Between two external events no job is both granted slots and preempted, in either order.

    An external event is a submission, the end of a job, a timer or a promotion, and also an exit from CPUs,
    because only then the work that was done there is known. What follows from the Controller's own decisions
    (victims exit, runs start) is not one: the plan that was made at an event must stand until the next. So no
    jobs can preempt each other in turn, however many are involved. A job that an allocator lets migrate is
    granted other slots than it had, and is not preempted there.
    """
    granted, revoked = set[JobId](), set[JobId]()
    grants = story.grants()
    left: dict[JobId, f.Allocation] = {}  # the slots of runs that the wish stopped
    for fact in story.facts:
        if isinstance(fact, f.RunGranted) and story.on_gpus(fact):
            granted.add(fact.job_id)
            if left.pop(fact.job_id, fact.allocation) != fact.allocation:
                revoked.discard(fact.job_id)
        elif isinstance(fact, f.RunRevoked) and story.on_gpus(grants[fact.run_id]):
            revoked.add(grants[fact.run_id].job_id)
            if fact.why is not None and fact.why.rule in BY_WISH:
                left[grants[fact.run_id].job_id] = grants[fact.run_id].allocation
        elif _is_external(fact) or (isinstance(fact, f.RunExited) and not story.on_gpus(grants[fact.run_id])):
            granted, revoked = set(), set()
        assert not granted & revoked, ("preempted back without an external event", fact)


def _is_external(fact: f.Fact) -> bool:
    if isinstance(fact, f.RunExited):
        return fact.cause is not ExitCause.PREEMPTED
    return not isinstance(fact, f.RunStarted | f.RunProgressed | f.RunGranted | f.RunRevoked)
