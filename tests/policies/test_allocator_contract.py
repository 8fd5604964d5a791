"""The contract of allocators can be broken: each of these has one mistake, and one test of it notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from tiresias.core.plugins import Allocator, policies
from tiresias.core.state import JobState
from tiresias.core.view import AllotView
from tiresias.core.wish import Wish
from tiresias.testing.contracts import AllocatorContract

NUMBERS = count()


def filled(view: AllotView, key: Callable[[JobState], Any]) -> Wish:
    """Give GPUs to jobs in this order, as far as they fit."""
    wish, room = Wish(), view.room
    for job in sorted(view.jobs(), key=key):
        if job.gpus <= room:
            wish.give(job)
            room -= job.gpus
    return wish


class Forgetful(Allocator):
    """Keeps in the object what it goes by: how often it was asked."""

    name = "wrong-forgetful"

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._asked = 0

    def allot(self, view: AllotView, memory: Any, at: float) -> Wish:
        self._asked += 1
        sign = 1 if self._asked % 2 else -1
        return filled(view, lambda job: sign * job.id)


class Starving(Allocator):
    """The shortest jobs first, whoever waits."""

    name = "wrong-starving"

    def allot(self, view: AllotView, memory: Any, at: float) -> Wish:
        return filled(view, lambda job: (job.job.duration_s or 0.0, job.id))


class Overselling(Allocator):
    """Does not count GPUs."""

    name = "wrong-overselling"

    def allot(self, view: AllotView, memory: Any, at: float) -> Wish:
        wish = Wish()
        for job in view.jobs():
            wish.give(job)
        return wish


class Fickle(Allocator):
    """Goes by a number that is another one in each simulation."""

    name = "wrong-fickle"

    def allot(self, view: AllotView, memory: Any, at: float) -> Wish:
        salt = next(NUMBERS)
        return filled(view, lambda job: (job.gpu_run is None, job.id * 2654435761 * salt % 97))


WRONG: dict[type[Allocator], str] = {
    Forgetful: "test_it_decides_the_same_after_a_restart_in_the_middle",
    Starving: "test_a_job_within_its_share_ends_while_another_tenant_floods_the_cluster",
    Overselling: "test_no_wish_of_it_is_refused",
    Fickle: "test_the_same_trace_gives_the_same_result",
}


@pytest.fixture
def registered() -> Iterator[None]:
    for cls in WRONG:
        policies.register(cls)
    yield
    for cls in WRONG:
        del policies._classes[cls.name]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda cls: cls.name)
def test_a_wrong_allocator_is_noticed(wrong: type[Allocator], registered: None) -> None:
    contract = AllocatorContract()
    contract.policy = wrong.name
    with pytest.raises(AssertionError):
        getattr(contract, WRONG[wrong])()
