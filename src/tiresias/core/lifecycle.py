"""Which fact takes a job from which phase to which: the one table of legal transitions.

A pair that is not in the table is a bug of the driver or of the core: `IllegalTransition` stops everything.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.core.facts import ExitCause
from tiresias.core.model import Phase

PENDING, HELD, STARTING, RUNNING = Phase.PENDING, Phase.HELD, Phase.STARTING, Phase.RUNNING
PAUSED, STOPPING, SUSPENDED = Phase.PAUSED, Phase.STOPPING, Phase.SUSPENDED
SUCCEEDED, FAILED, CANCELLED = Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED

HOLDING = frozenset({STARTING, RUNNING, PAUSED, STOPPING})
"""Phases in which a run holds slots."""

ENDED = frozenset({SUCCEEDED, FAILED, CANCELLED})


class IllegalTransition(AssertionError):
    """A fact that cannot follow what is known."""


class Transitions(dict[Phase, Phase]):
    """The phase that follows each phase when `cause` (a fact's kind or an exit's cause) happens."""

    def __init__(self, cause: str, following: Mapping[Phase, Phase]):
        super().__init__(following)
        self.cause = cause

    def __missing__(self, phase: Phase) -> Phase:
        raise IllegalTransition(f"{self.cause} cannot happen to a job that is {phase}")


_FOLLOWING: dict[str, dict[Phase, Phase]] = {
    "RunGranted": {PENDING: STARTING, SUSPENDED: STARTING},
    "RunStarted": {STARTING: RUNNING, STOPPING: STOPPING},
    "RunStarted, is paused": {STARTING: PAUSED, STOPPING: STOPPING},
    "RunPaced": {STARTING: STARTING, RUNNING: RUNNING, PAUSED: RUNNING},
    "RunPaced, no turns": {STARTING: STARTING, RUNNING: PAUSED, PAUSED: PAUSED},
    "RunRevoked": dict.fromkeys((STARTING, RUNNING, PAUSED), STOPPING),
    "JobHeld": {
        PENDING: HELD,
        SUSPENDED: HELD,
        HELD: HELD,
        STARTING: STOPPING,
        RUNNING: STOPPING,
        PAUSED: STOPPING,
        STOPPING: STOPPING,
    },
    "JobReleased": {HELD: PENDING, STOPPING: STOPPING},
    "JobReleased, has run": {HELD: SUSPENDED, STOPPING: STOPPING},
    "JobRequeued": dict.fromkeys(HOLDING, STOPPING),
    "JobDeferred": {PENDING: PENDING, SUSPENDED: SUSPENDED, HELD: HELD},
    "JobCleared": {PENDING: PENDING, SUSPENDED: SUSPENDED, HELD: HELD},
    "JobFailed": dict.fromkeys((PENDING, HELD, SUSPENDED), FAILED),
    "JobCancelled": {
        PENDING: CANCELLED,
        HELD: CANCELLED,
        SUSPENDED: CANCELLED,
        STARTING: STOPPING,
        RUNNING: STOPPING,
        PAUSED: STOPPING,
        STOPPING: STOPPING,
    },
    ExitCause.FINISHED: dict.fromkeys(HOLDING, SUCCEEDED),
    ExitCause.PREEMPTED: dict.fromkeys(HOLDING, SUSPENDED),
    ExitCause.RETRIED: dict.fromkeys(HOLDING, SUSPENDED),
    ExitCause.FAILED: dict.fromkeys(HOLDING, FAILED),
}

TRANSITIONS = {cause: Transitions(cause, following) for cause, following in _FOLLOWING.items()}
"""By cause: its transitions. To look up a phase from which there is none raises IllegalTransition."""
