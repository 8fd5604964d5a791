"""What the user has requested and what was acknowledged, kept outside the manager, for the checks.

A request is *asked* from the moment it is made: from then on its effect may be visible. It is *sure* once it
was acknowledged: from then on its effect must be visible, whatever is killed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tiresias.core.model import JobId
from tiresias.live.submission import Submission
from tiresias.testing.faults.trainings import Training


@dataclass(slots=True)
class RequestedJob:
    """One job as its user sees it."""

    training: Training
    submission: Submission
    after: tuple[RequestedJob, ...] = ()  # all that it awaits, in whatever way
    id: JobId | None = None  # None until it is acknowledged; then it must never be lost
    is_cancel_asked: bool = False
    is_cancel_sure: bool = False
    is_hold_sure: bool = False
    releases: int = 0  # how many were asked: a hold from before the last release is not sure
    sure_priority: str | None = None  # None: another priority was asked
    is_stop_asked: bool = False  # by a hold, requeue or cancel: its runs may be stopped

    @property
    def name(self) -> str:
        return self.training.name

    def awaited(self, how: str) -> list[RequestedJob]:
        """The jobs that it awaits in this way: after, after_any or after_not_ok."""
        return [other for other in self.after if other.id in getattr(self.submission, how)]


@dataclass(slots=True, eq=False)
class Request:
    """A request that was applied and is not acknowledged yet."""

    sure: Callable[[], None]  # called when it is acknowledged
    again: Callable[[Any], None] | None = None  # what the user does if it is never acknowledged


@dataclass(slots=True)
class Promises:
    """All requests of the user."""

    jobs: dict[str, RequestedJob] = field(default_factory=dict)  # by the name of the training
    sure_drained: set[str] = field(default_factory=set)  # slots on which nothing may start
    sure_policy: str | None = None  # None: another policy was asked
    sure_gpu_limit: int | None = None  # of one user; None: no limit, or not sure
    open: list[Request] = field(default_factory=list)

    def acknowledge(self, request: Request) -> None:
        """The answer to this request says that it is durable."""
        self.open.remove(request)
        request.sure()
