"""The incremental target against the plain walk, after every single change."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.core import target as target_module
from tiresias.core.entries import Entry, JobEntry, Key
from tiresias.core.model import JobId
from tiresias.core.state import JobState
from tiresias.core.target import CHUNK, Target, plain_target
from tiresias.testing import Harness, a_job


class Book:
    """A Target and, beside it, all that is known of the jobs it ranks."""

    def __init__(self, capacity: int):
        self.target: Target[Entry] = Target(capacity)
        self.entries: dict[JobId, Entry] = {}
        self.next_id = 1

    def add(self, gpus: int, rank: float) -> Entry:
        entry = Entry(JobId(self.next_id), gpus)
        self.next_id += 1
        self.entries[entry.id] = entry
        self.target.add(entry, key(entry, rank))
        return entry

    def drop(self, entry: Entry) -> None:
        del self.entries[entry.id]
        self.target.drop(entry)

    def pin(self, entry: Entry) -> None:
        del self.entries[entry.id]
        self.target.pin(entry)

    def check(self) -> None:
        """Order, choice and totals are those of a plain walk."""
        target = self.target
        ranked = list(target)
        assert ranked == sorted(self.entries.values(), key=lambda entry: entry.key)  # type: ignore[arg-type,return-value]
        chosen = plain_target(ranked, target.capacity)
        assert {entry.id for entry in ranked if entry.admitted} == chosen
        assert target.used == sum(entry.gpus for entry in ranked if entry.admitted)
        assert target.refused == len(ranked) - len(chosen)


def key(entry: Entry, rank: float) -> Key:
    return (1, (rank,), 0.0, entry.id)


def flips_are_complete(book: Book, before: dict[JobId, bool]) -> None:
    """Every entry whose admission changed is in `flips`; others may be there too."""
    for id, entry in book.entries.items():
        if before.get(id, False) != entry.admitted:
            assert id in book.target.flips, ("a change that is not in flips", id)
    book.target.flips.clear()


def change_at_random(book: Book, rng: Random, most: int, sizes: tuple[int, ...]) -> None:
    jobs = list(book.entries.values())
    if not jobs or (len(jobs) < most and rng.random() < 0.4):
        book.add(rng.choice(sizes), rng.randrange(most))
        return
    entry = rng.choice(jobs)
    what = rng.random()
    if what < 0.2:
        book.drop(entry)
    elif what < 0.25 and entry.admitted:
        book.pin(entry)
    elif what < 0.35:
        book.target.resize(max(0, book.target.capacity + rng.randrange(-12, 16)))
    else:
        assert entry.key is not None
        where = entry.key[1][0]
        near = where + rng.choice((-3, -1, 0.5, 1, 2, 5))
        book.target.rerank(entry, key(entry, near if rng.random() < 0.5 else rng.randrange(most)))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9), capacity=st.integers(0, 40), most=st.integers(1, 30))
def test_few_jobs(seed: int, capacity: int, most: int) -> None:
    rng, book = Random(seed), Book(capacity)
    for _ in range(80):
        before = {id: entry.admitted for id, entry in book.entries.items()}
        change_at_random(book, rng, most, (1, 1, 2, 3, 4, 8))
        book.check()
        flips_are_complete(book, before)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9), capacity=st.integers(0, 200), count=st.integers(0, 120))
def test_a_target_that_is_filled_at_once_is_that_of_a_plain_walk_and_stays_so(
    seed: int, capacity: int, count: int
) -> None:
    rng, book = Random(seed), Book(capacity)
    book.target.gather()
    for _ in range(count):
        book.add(rng.choice((1, 1, 2, 3, 4, 8)), rng.randrange(50))
    pinned = rng.randrange(capacity + 1)
    book.target.resize(capacity - pinned)
    book.target.fill()
    book.check()
    flips_are_complete(book, {})
    for _ in range(30):
        before = {id: entry.admitted for id, entry in book.entries.items()}
        change_at_random(book, rng, 60, (1, 2, 4, 8))
        book.check()
        flips_are_complete(book, before)


def test_many_jobs() -> None:
    """Enough of them that chunks split and vanish."""
    for seed in range(6):
        many_jobs(Random(seed))


def many_jobs(rng: Random) -> None:
    book = Book(rng.choice((20, 100, 600)))
    for phase in (500, 60, 400, 0):  # grow, shrink, grow, empty
        for _ in range(500):
            change_at_random(book, rng, max(phase, 1), (1, 1, 1, 2, 4, 8, 16))
            while len(book.entries) > phase and rng.random() < 0.8:
                book.drop(rng.choice(list(book.entries.values())))
            if rng.random() < 0.25:
                book.check()
        book.check()


@pytest.mark.parametrize("seed", range(6))
def test_chunks_that_grow_with_the_number_of_jobs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of two at first, so that a few hundred jobs are very many."""
    monkeypatch.setattr(target_module, "CHUNK", 2)
    monkeypatch.setattr(target_module, "SHARE", 4)
    rng, book = Random(seed), Book(60)
    for _ in range(300):
        book.add(rng.choice((1, 2, 4, 8)), rng.randrange(100))
    assert book.target._chunk > 2
    for _ in range(400):
        before = {id: entry.admitted for id, entry in book.entries.items()}
        change_at_random(book, rng, 320 if rng.random() < 0.3 else 20, (1, 1, 2, 3, 4, 8))
        book.check()
        flips_are_complete(book, before)


def test_demotions_between_crowded_queues() -> None:
    """Mostly admitted jobs that fall back a little or far, as in a multi-level queue."""
    for seed in range(8):
        demotions(Random(seed))


def demotions(rng: Random) -> None:
    book = Book(rng.choice((64, 256)))
    for _ in range(400):
        book.add(rng.choice((1, 1, 2, 4, 8)), rng.randrange(100))
    for _ in range(600):
        entry = rng.choice([entry for entry in book.entries.values() if entry.admitted])
        assert entry.key is not None
        book.target.rerank(entry, key(entry, entry.key[1][0] + rng.choice((1, 2, 30, 200))))
        if rng.random() < 0.3:
            book.drop(entry)
            book.add(entry.gpus, rng.randrange(100))
        if rng.random() < 0.3:
            book.check()
    book.check()


def test_a_demotion_into_a_chunk_that_is_full() -> None:
    """However the chunks split, those behind the place it leaves see what it leaves."""
    for extra in (1, CHUNK // 2, CHUNK - 1, CHUNK):
        for to in (0.25, 0.75, 1.25, 1.75, 2.25):
            demotion_into_a_full_chunk(extra, to)


def demotion_into_a_full_chunk(extra: int, to: float) -> None:
    for leaves in range(0, CHUNK + extra - 1, 3):
        book = Book(4 * CHUNK)
        for rank in range(4 * CHUNK):  # in rising order: chunks of CHUNK
            book.add(1, rank)
        for nth in range(extra):  # the first grows,
            book.add(1, CHUNK - 1 - nth / (2 * extra))
        for nth in range(CHUNK):  # the second is full
            book.add(1, 2 * CHUNK - 1 - nth / (2 * CHUNK))
        ranked = list(book.target)
        hungry = book.entries[ranked[CHUNK + extra - 1].id]
        book.drop(hungry)
        book.target.resize(CHUNK + extra)
        waits = book.add(2, hungry_rank(ranked, CHUNK + extra - 2))  # one GPU too many, until an entry leaves
        assert not waits.admitted
        falls = ranked[leaves]
        book.target.rerank(falls, key(falls, to * CHUNK))
        book.check()
        assert waits.admitted is (to > 1)


def hungry_rank(ranked: list[Entry], behind: int) -> float:
    entry = ranked[behind]
    assert entry.key is not None
    return entry.key[1][0] + 1e-6


def test_what_no_change_can_flip_is_not_touched() -> None:
    book = Book(4)
    first, second, third = book.add(2, 0), book.add(2, 1), book.add(2, 2)
    assert [entry.admitted for entry in (first, second, third)] == [True, True, False]
    book.target.flips.clear()
    book.target.rerank(second, key(second, -1))
    book.target.rerank(third, key(third, 9))
    assert not book.target.flips


def test_a_pin_changes_no_other_admission() -> None:
    book = Book(4)
    first, second, third = book.add(2, 0), book.add(2, 1), book.add(2, 2)
    book.target.flips.clear()
    book.pin(second)
    assert (book.target.capacity, first.admitted, third.admitted) == (2, True, False)
    assert not book.target.flips
    book.check()


@pytest.mark.parametrize("policy", ["srtf", "fifo", "sjf"])
@pytest.mark.parametrize(("gpus", "duration_s"), [(4, 10.0), (4, 1000.0), (1, 1000.0), (2, 10.0)])
def test_a_trial_says_what_a_submission_would_do_and_changes_nothing(
    policy: str, gpus: int, duration_s: float
) -> None:
    lab = Harness(policy, gpus=5).running("a", gpus=2, duration_s=100.0).running("b", gpus=2, duration_s=50.0)
    lab.plan()
    controller = lab.controller
    tried = JobEntry(JobState(a_job(3, gpus, duration_s=duration_s)))
    rank = controller.policy.rank(tried.job, lab.state.memory, lab.at)
    found = controller.target.trial(tried, controller.key_of(tried.job, rank), lab.at)
    plan = lab.plan()
    assert plan.started == plan.preempted == []
    plan = lab.submit("c", gpus, duration_s=duration_s)
    entry = controller.entries[lab.job("c").id]
    assert found[0] == (entry.admitted or entry.pinned)
    if controller.policy.preempts:
        assert [lab.name(other.id) for other in found[1]] == sorted(plan.preempted)
