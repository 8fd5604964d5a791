"""Why runs had to stop: by a decision of the Controller, or because a user wanted it."""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.core import facts as f
from tiresias.live.answers import RunInfo
from tiresias.live.words import revoked

BY_USERS: dict[type, tuple[str, str]] = {
    f.JobCancelled: ("cancelled", "because the job was cancelled"),
    f.JobHeld: ("held", "because the job was put on hold"),
    f.JobRequeued: ("requeued", "because the job was requeued"),
}


def add_stop(run: RunInfo, stops: Sequence[f.Fact]) -> None:
    """Add to a run that had to stop why that was; `stops` are the facts that stopped runs of its job."""
    for fact in stops:
        if isinstance(fact, f.RunRevoked) and fact.run_id == run.id and fact.why is not None:
            why = fact.why
            run.revoked_by, run.revoked_for = why.rule.value, why.job_id
            run.from_queue, run.to_queue = why.from_queue, why.to_queue
            run.revoked_text = revoked(why)
            return
        if type(fact) in BY_USERS and fact.at == run.revoked_at:
            run.revoked_by, run.revoked_text = BY_USERS[type(fact)]
            return
