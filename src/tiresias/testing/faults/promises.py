"""What the user asked for and what was acknowledged: the yardstick, kept outside the manager.

A request counts as *asked* from the moment it is made: from then on its effect may show. It counts as
*sure* once it was acknowledged: from then on its effect must show, whatever dies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tiresias.core.model import JobId
from tiresias.live.submission import Submission
from tiresias.testing.faults.trainings import Training


@dataclass(slots=True)
class Asked:
    """One job as its user sees it."""

    training: Training
    submission: Submission
    after: tuple[Asked, ...] = ()
    id: JobId | None = None  # known, and never to be lost, once acknowledged
    is_cancel_asked: bool = False
    is_cancel_sure: bool = False
    is_hold_sure: bool = False
    releases: int = 0  # asked for: a hold from before the last one is not sure any more
    sure_priority: str | None = None  # None: somebody has asked for another one
    is_stop_asked: bool = False  # hold, requeue or cancel: its runs may be told to stop

    @property
    def name(self) -> str:
        return self.training.name


@dataclass(slots=True)
class Request:
    """Something that was applied and not acknowledged yet."""

    sure: Callable[[], None]
    again: Callable[[Any], None] | None = None  # what the user does if the answer never came


@dataclass(slots=True)
class Promises:
    jobs: dict[str, Asked] = field(default_factory=dict)  # by the training's name
    sure_drained: set[str] = field(default_factory=set)  # slots on which nothing may start
    sure_policy: str | None = None  # None: somebody has asked for another one
    sure_gpu_limit: int | None = None  # for one user; None: none, or not sure
    open: list[Request] = field(default_factory=list)

    def acknowledge(self) -> None:
        for request in self.open:
            request.sure()
        self.open.clear()
