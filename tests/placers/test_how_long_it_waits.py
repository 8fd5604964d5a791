"""`profile` answers those it refuses again and again with little work: no decision differs for it."""

from __future__ import annotations

from random import Random

import pytest

from tiresias.core.holes import Holes
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Node, RunId
from tiresias.core.state import JobState
from tiresias.placers.profile import Profile
from tiresias.placers.shapes import partitions
from tiresias.profiles import zoo
from tiresias.profiles.links import PRESETS
from tiresias.testing import Harness
from tiresias.testing.builders import a_job

AT = 10_000.0


class Exact(Profile):
    """Works out the best place of now every time."""

    def _mildest(self, job: JobState, holes: Holes) -> float:
        return 0.0


def crowded(rng: Random, size: int) -> Ledger:
    """Twelve nodes in three racks, of which most slots are taken."""
    ledger = Ledger(Cluster([Node(f"n{i}", size, rack="abc"[i // 4]) for i in range(12)]))
    for node in range(12):
        if taken := rng.randrange(1 << size) | rng.randrange(1 << size):
            ledger.take(RunId(node + 1), ((node, taken),))
    return ledger


@pytest.mark.parametrize("network", PRESETS)
def test_the_quick_refusal_of_profile_agrees_with_the_exact_search(network: str) -> None:
    rng = Random(network)
    quick, exact = (kind(kind.Options(network=network)) for kind in (Profile, Exact))
    refused = 0
    for _ in range(300):
        ledger = crowded(rng, rng.choice((4, 8)))
        job = JobState(a_job(1, gpus=rng.randrange(2, 13), model=rng.choice(zoo.names())))
        job.executed_s = rng.choice((0.0, 300.0, 5000.0))
        since = rng.choice((AT, AT, AT - 50.0, AT - 500.0, AT - 5000.0))
        place = quick.place(job, ledger, AT, since)
        assert place == exact.place(job, ledger, AT, since), (job.job.model, job.gpus, since)
        if place is None and job.gpus <= ledger.free:
            refused += 1
            assert AT < quick.retry_at(job, ledger, AT, since) <= exact.retry_at(job, ledger, AT, since)
            said = quick.refusal(job, ledger, AT, since)
            assert said == exact.refusal(job, ledger, AT, since), "it says `at most`"
    assert refused > 3, "nothing was tried"


def test_all_ways_to_split_a_gang() -> None:
    assert list(partitions(4, 4)) == [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    assert list(partitions(4, 2)) == [(2, 2), (2, 1, 1), (1, 1, 1, 1)]
    assert [len(list(partitions(gpus, gpus))) for gpus in (1, 5, 8, 12)] == [1, 7, 22, 77]


def test_migrations_are_considered_when_a_job_leaves_and_not_when_one_comes() -> None:
    """A migration of a pays only once it has run for long enough; it is considered again at an exit only."""
    lab = Harness("tiresias-l", nodes=4, gpus=4, placer="consolidated", placer_options={"migrations": 1})
    lab.running("a", on={"n0": 1}, service_s=3600.0, preemption_cost_s=14_500.0)
    lab.running("b", on={"n1": 1}, service_s=7200.0).running("c", gpus=4, on={"n2": 4}, service_s=100.0)
    lab.running("e", gpus=2, on={"n3": 2}, service_s=9e5, preemptible=False)
    lab.running("f", on={"n3": 1}, service_s=9e5, preemptible=False)
    lab.plan()
    assert lab.submit("d", gpus=4).preempted == [], "more than 4 x 3600"
    lab.wait(100)
    assert lab.submit("small").preempted == []
    assert lab.finish("f").preempted == ["a"]
