"""The target for drifting ranks against the plain walk along the ranks of each instant."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.core.entries import JobEntry, Key
from tiresias.core.kinetic_target import KineticTarget
from tiresias.core.model import JobId
from tiresias.core.target import plain_target

SIZES = (1, 1, 2, 3, 4, 8)


@dataclass
class Training:
    """A job as the target sees it: whether it holds GPUs, and how fast its rank changes."""

    id: JobId
    gpus: int
    gpu_run: object | None = None
    rate: float = 0.0


class Cluster:
    """A KineticTarget and, beside it, the rank of every job at a known instant."""

    def __init__(self, capacity: int, rng: Random, rates: tuple[float, ...]):
        ledger = SimpleNamespace(capacity=capacity)
        self.state = SimpleNamespace(at=0.0, ledger=ledger)
        self.target = KineticTarget(cast(Any, self.state), lambda job: cast(Training, job).rate)
        self.rng = rng
        self.rates = rates
        self.entries: dict[JobId, JobEntry] = {}
        self.ranks: dict[JobId, tuple[float, float]] = {}  # rank, and the instant at which it was that
        self.next_id = 1

    def key(self, id: JobId) -> Key:
        rank, since = self.ranks[id]
        job = cast(Training, self.entries[id].job)
        return (1, rank + job.rate * (self.state.at - since), 0.0, id)

    def add(self) -> None:
        job = Training(JobId(self.next_id), self.rng.choice(SIZES))
        self.next_id += 1
        entry = JobEntry(cast(Any, job))
        self.entries[job.id] = entry
        self.ranks[job.id] = (self.rng.randrange(40) / self.rng.choice((1, 10)), self.state.at)
        self.target.add(entry, self.key(job.id))

    def change_speed(self, entry: JobEntry) -> None:
        """A run starts, stops, or goes at another speed; its rank is as it was at this instant."""
        key = self.key(entry.id)
        job = cast(Training, entry.job)
        job.gpu_run = self.rng.choice((None, "a run"))
        job.rate = self.rng.choice(self.rates) * job.gpus if job.gpu_run else 0.0
        self.ranks[entry.id] = (key[1], self.state.at)
        self.target.rerank(entry, key)

    def move(self, entry: JobEntry) -> None:
        self.ranks[entry.id] = (self.rng.randrange(40) / self.rng.choice((1, 10)), self.state.at)
        self.target.rerank(entry, self.key(entry.id))

    def remove(self, entry: JobEntry, how: str) -> None:
        del self.entries[entry.id], self.ranks[entry.id]
        getattr(self.target, how)(entry)

    def change_at_random(self) -> None:
        rng, entries = self.rng, list(self.entries.values())
        what = rng.random()
        if not entries or what < 0.25:
            self.add()
            return
        entry = rng.choice(entries)
        if what < 0.55:
            self.change_speed(entry)
        elif what < 0.65:
            self.move(entry)
        elif what < 0.75:
            self.remove(entry, "drop")
        elif what < 0.8 and entry.admitted:
            self.remove(entry, "pin")
        elif what < 0.85:
            self.target.resize(max(0, self.target.capacity + rng.randrange(-6, 8)))
        else:
            self.state.at += rng.choice((0.0, 1.0, 2.0, 7.0, 0.1))
            self.target.settle(self.state.at)

    def check(self, before: dict[JobId, bool]) -> None:
        """Order, choice and totals are those of a plain walk at this instant, and changes are in `flips`."""
        target = self.target
        ranked = list(target)
        assert [entry.id for entry in ranked] == sorted(self.entries, key=self.key)
        chosen = plain_target(ranked, target.capacity)
        assert {entry.id for entry in ranked if entry.admitted} == chosen
        assert target.used == sum(entry.gpus for entry in ranked if entry.admitted)
        assert target.refused == len(ranked) - len(chosen)
        for id, entry in self.entries.items():
            if before.get(id, False) != entry.admitted:
                assert id in target.flips, ("a change that is not in flips", id)
        target.flips.clear()


@settings(max_examples=300)
@given(
    seed=st.integers(0, 10**9),
    capacity=st.integers(0, 30),
    rates=st.sampled_from([(-1.0, -0.5), (-1.0, 0.0, 1.0), (-0.1, -0.3, -0.7)]),  # the last are rounded
)
def test_after_every_change_and_at_every_instant_it_is_the_plain_walk(
    seed: int, capacity: int, rates: tuple[float, ...]
) -> None:
    cluster = Cluster(capacity, Random(seed), rates)
    for _ in range(60):
        before = {id: entry.admitted for id, entry in cluster.entries.items()}
        cluster.change_at_random()
        cluster.state.at = max(cluster.state.at, cluster.target._at)
        cluster.target.settle(cluster.state.at)
        cluster.check(before)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9), later=st.sampled_from((0.0, 5.0)))
def test_a_trial_says_what_a_submission_would_do_and_changes_nothing(seed: int, later: float) -> None:
    rng = Random(seed)
    cluster = Cluster(12, rng, (-1.0, 0.0, 1.0))
    for _ in range(40):
        cluster.change_at_random()
    cluster.target.settle(cluster.state.at)
    cluster.target.flips.clear()
    admitted = {id for id, entry in cluster.entries.items() if entry.admitted}
    job = Training(JobId(1000), rng.choice(SIZES))
    entry = JobEntry(cast(Any, job))
    key: Key = (1, float(rng.randrange(40)), 0.0, job.id)
    fits, pushed_out = cluster.target.trial(entry, key, cluster.state.at + later)
    assert {id for id, each in cluster.entries.items() if each.admitted} == admitted
    assert not cluster.target.flips
    cluster.check({id: id in admitted for id in cluster.entries})

    cluster.state.at += later
    cluster.target.settle(cluster.state.at)
    before = {id for id, each in cluster.entries.items() if each.admitted}
    cluster.entries[job.id], cluster.ranks[job.id] = entry, (key[1], cluster.state.at)
    cluster.target.add(entry, key)
    after = {id for id, each in cluster.entries.items() if each.admitted}
    assert entry.admitted is fits
    assert {each.id for each in pushed_out} == before - after
