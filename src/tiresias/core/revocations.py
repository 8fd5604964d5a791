"""Why a plan stops runs: which job gets the slots of each, and by which rule.

Several runs may be stopped for one job, and one plan may stop runs for several jobs. They are paired so: the
jobs of the target that hold no GPUs take what they need in the order of their ranks, first from the GPUs that
are free or held by runs that save, then from the runs that are stopped, of which the one with the worst rank
comes first. A run is stopped for the first job ahead of it whose need is not met yet, or, if all needs are
met, for the first job ahead of it. If no such job is ahead of it, the GPUs have become fewer. All of this
follows from the State, so that a manager that was restarted gives the same reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tiresias.core.entries import JobEntry, Key
from tiresias.core.facts import Revocation, Rule
from tiresias.core.model import Pool
from tiresias.core.plugins import Policy
from tiresias.core.state import JobState


def revocations(
    victims: Sequence[JobEntry],
    gainers: Iterable[JobEntry],
    left: int,
    key: Callable[[JobEntry], Key],
    policy: Policy,
    memory: object,
    at: float,
) -> list[Revocation]:
    """For each of the victims, which are in the order in which they are stopped: why it is.

    `gainers` are the jobs of the target that hold no GPUs, `left` is how many GPUs are free or held by runs
    that save already, and `key` is the rank key of an entry at this instant.
    """
    ahead = sorted((key(entry), entry) for entry in gainers)
    needs = [entry.gpus for _, entry in ahead]
    for number, gpus in enumerate(needs):
        taken = min(gpus, max(left, 0))
        needs[number] -= taken
        left -= taken
    found = []
    first = 0  # the first job whose need is not met: needs are met in order, so it never goes back
    for victim in victims:
        while first < len(needs) and needs[first] <= 0:
            first += 1
        served = _served(ahead, first, key(victim))
        if served is not None:
            needs[served] -= victim.gpus
        gainer = None if served is None else ahead[served][1].job
        found.append(_revocation(victim.job, gainer, policy, memory, at))
    return found


def _served(ahead: Sequence[tuple[Key, JobEntry]], first: int, key: Key) -> int | None:
    """Which of the jobs ahead of this key the slots are for; None if none is ahead of it."""
    if first < len(ahead) and ahead[first][0] <= key:
        return first
    return 0 if ahead and ahead[0][0] < key else None


def _revocation(
    job: JobState, gainer: JobState | None, policy: Policy, memory: object, at: float
) -> Revocation:
    run = job.run
    assert run is not None, ("a job without a run is not stopped", job.id)
    before, now = policy.queue(job, memory, run.granted_at), policy.queue(job, memory, at)
    if gainer is None:
        rule = Rule.CAPACITY
    elif gainer.priority < job.priority:
        rule = Rule.PRIORITY
    else:
        other = policy.queue(gainer, memory, at)
        fell = before is not None and now is not None and other is not None and before <= other < now
        rule = Rule.DEMOTED if fell else Rule.OUTRANKED
    return Revocation(rule, None if gainer is None else gainer.id, _from_one(before), _from_one(now))


def migration(job: JobState, gang: JobState, policy: Policy, memory: object, at: float) -> Revocation:
    """The run migrates, so that the gang finds a hole."""
    queue = _from_one(policy.queue(job, memory, at))
    return Revocation(Rule.MIGRATION, gang.id, queue, queue)


def to_gpus(job: JobState, policy: Policy, memory: object, at: float) -> Revocation:
    """The run on CPUs stops because its job gets GPUs."""
    assert job.run is not None, ("a job without a run is not stopped", job.id)
    assert job.run.pool is Pool.CPUS, ("not on CPUs", job.id)
    queue = _from_one(policy.queue(job, memory, at))
    return Revocation(Rule.GPUS_FREE, job.id, queue, queue)


def _from_one(queue: int | None) -> int | None:
    return None if queue is None else queue + 1
