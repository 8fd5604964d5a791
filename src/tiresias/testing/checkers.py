"""What must be true of every simulation, checked on its journal alone, not on the books of who wrote it."""

from __future__ import annotations

from collections import defaultdict
from math import isclose

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import JobId, RunId
from tiresias.testing.story import Story

CLOSE = 1e-6  # relative: sums of many floats


def check_story(story: Story, *, moves_while_nothing_happens: bool = False) -> None:
    """All of the following."""
    time_never_goes_back(story)
    everything_is_told_once(story)
    slots_are_held_once(story)
    gangs_are_whole(story)
    nobody_is_lost(story)
    service_is_conserved(story)
    work_is_conserved(story)
    no_run_is_pointless(story)
    if not moves_while_nothing_happens:
        nobody_is_preempted_back(story)


def time_never_goes_back(story: Story) -> None:
    instants = [fact.at for fact in story.facts]
    assert instants == sorted(instants), "facts out of order"


def everything_is_told_once(story: Story) -> None:
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
        assert what not in seen, ("told twice", fact)
        seen.add(what)


def slots_are_held_once(story: Story) -> None:
    """A slot exists, is granted only when free, and is free only after the exit of its last run."""
    sizes = [node.gpus or node.cpu_slots for node in story.cluster.nodes]
    free = [(1 << gpus) - 1 for gpus in sizes]
    held: dict[RunId, f.Allocation] = {}
    for fact in story.facts:
        if isinstance(fact, f.RunGranted):
            assert fact.run_id not in held, ("granted twice", fact)
            held[fact.run_id] = fact.allocation
            for node, slots in fact.allocation:
                assert slots & free[node] == slots, ("slots that were not free", fact, free[node])
                free[node] ^= slots
        elif isinstance(fact, f.RunExited):
            for node, slots in held.pop(fact.run_id):
                free[node] |= slots
    if not story.result.interrupted:
        assert not held, ("runs that never exited", held)


def gangs_are_whole(story: Story) -> None:
    jobs = story.jobs()
    for grant in story.grants().values():
        nodes = [node for node, _ in grant.allocation]
        assert len(set(nodes)) == len(nodes), ("a node twice in one allocation", grant)
        gpus = sum(slots.bit_count() for _, slots in grant.allocation)
        assert gpus == jobs[grant.job_id].demand.gpus, ("a partial gang", grant)


def nobody_is_lost(story: Story) -> None:
    """Every job of the trace is rejected because it can never fit, or finishes, once."""
    finished = [grant.job_id for grant, exited in story.runs() if exited.cause is ExitCause.FINISHED]
    assert len(finished) == len(set(finished)), "a job that finished twice"
    fits = story.trace.jobs["gpus"] <= story.cluster.gpus
    assert story.result.rejected_jobs == len(story.trace) - int(fits.sum())
    assert len(story.jobs()) == int(fits.sum()), "a job that never came"
    assert set(finished) == story.jobs().keys(), "a job that never finished"
    assert story.result.jobs.height == len(finished)


def service_is_conserved(story: Story) -> None:
    """What is reported is the time between grants and exits times GPUs; likewise starts and preemptions.

    A run on CPUs attains none, and that it is told to leave is no preemption.
    """
    jobs = story.jobs()
    service: dict[JobId, float] = defaultdict(float)
    runs: dict[JobId, int] = defaultdict(int)
    revoked: dict[JobId, int] = defaultdict(int)
    for grant, exited in story.runs():
        if story.on_gpus(grant):
            service[grant.job_id] += (exited.at - grant.at) * jobs[grant.job_id].demand.gpus
        runs[grant.job_id] += 1
    grants = story.grants()
    for fact in story.facts:
        if isinstance(fact, f.RunRevoked) and story.on_gpus(grants[fact.run_id]):
            revoked[grants[fact.run_id].job_id] += 1
    positions = {name: JobId(row) for row, name in enumerate(story.trace.jobs["id"])}
    for row in story.result.jobs.iter_rows(named=True):
        id = positions[row["id"]]
        assert isclose(row["service_gpu_s"], service[id], rel_tol=CLOSE, abs_tol=CLOSE), (row, service[id])
        assert (row["runs"], row["preemptions"]) == (runs[id], revoked[id]), row


def work_is_conserved(story: Story) -> None:
    """A job has done its whole work when it finishes, loses none on the way, and the rest was lost time."""
    jobs = story.jobs()
    done: dict[JobId, float] = defaultdict(float)
    held_gpu_s = work_gpu_s = 0.0
    for grant, exited in story.runs():
        job = jobs[grant.job_id]
        assert exited.progress_s >= done[job.id] - CLOSE, ("work lost", exited)
        done[job.id] = exited.progress_s
        if story.on_gpus(grant):
            held_gpu_s += (exited.at - grant.at) * job.demand.gpus
        if exited.cause is ExitCause.FINISHED:
            assert job.duration_s is not None
            assert isclose(exited.progress_s, job.duration_s, rel_tol=CLOSE), exited
            work_gpu_s += job.duration_s * job.demand.gpus
    on_cpus = story.result.on_cpus
    spent_gpu_s = work_gpu_s + story.result.lost_gpu_s - (0.0 if on_cpus is None else on_cpus.work_gpu_s)
    assert isclose(held_gpu_s, spent_gpu_s, rel_tol=CLOSE, abs_tol=CLOSE), (held_gpu_s, spent_gpu_s)


def no_run_is_pointless(story: Story) -> None:
    """Nobody is granted slots and told to give them back at one instant, in either order.

    Unless somebody was promoted meanwhile, who may have starved long before he was preempted.
    """
    at, granted, revoked = 0.0, set[JobId](), set[JobId]()
    grants = story.grants()
    for fact in story.facts:
        if fact.at != at or isinstance(fact, f.JobPromoted):
            at, granted, revoked = fact.at, set(), set()
        if isinstance(fact, f.RunGranted) and story.on_gpus(fact):
            granted.add(fact.job_id)
        elif isinstance(fact, f.RunRevoked) and story.on_gpus(grants[fact.run_id]):
            revoked.add(grants[fact.run_id].job_id)
        assert not granted & revoked, ("granted and revoked at one instant", fact)


def nobody_is_preempted_back(story: Story) -> None:
    """Without news nobody is both granted slots and told to give them back, in either order.

    News is an arrival, the end of a job, a timer, a promotion. What follows from our own decisions (victims
    exit, runs start) is none: the plan made at the news must stand until the next. So no two jobs can preempt
    each other by turns, whatever the number of jobs in between. How far a job got on CPUs is known when it
    leaves them: that is news, too.
    """
    granted, revoked = set[JobId](), set[JobId]()
    grants = story.grants()
    for fact in story.facts:
        if isinstance(fact, f.RunGranted) and story.on_gpus(fact):
            granted.add(fact.job_id)
        elif isinstance(fact, f.RunRevoked) and story.on_gpus(grants[fact.run_id]):
            revoked.add(grants[fact.run_id].job_id)
        elif _is_news(fact) or (isinstance(fact, f.RunExited) and not story.on_gpus(grants[fact.run_id])):
            granted, revoked = set(), set()
        assert not granted & revoked, ("preempted back without news", fact)


def _is_news(fact: f.Fact) -> bool:
    if isinstance(fact, f.RunExited):
        return fact.cause is not ExitCause.PREEMPTED
    return not isinstance(fact, f.RunStarted | f.RunProgressed | f.RunGranted | f.RunRevoked)
