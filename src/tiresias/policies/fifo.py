"""First come, first served: the two baselines that never preempt."""

from __future__ import annotations

from typing import Any

from tiresias.core.model import Rank
from tiresias.core.plugins import Policy, policies
from tiresias.core.state import JobState


@policies.register
class Fifo(Policy):
    """First in, first out; a job that does not fit blocks all behind it (YARN-CS)."""

    name = "fifo"
    preempts = False
    strict = True

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return ()  # ties go by submission, then id: that is the policy


@policies.register
class FifoSkip(Policy):
    """First in, first out, but a job that does not fit is skipped (best effort)."""

    name = "fifo-skip"
    preempts = False

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return ()
