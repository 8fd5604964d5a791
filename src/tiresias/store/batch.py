"""What one transaction stores: the facts of one or more steps, and what the manager adds to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiresias.core.controller import Step
from tiresias.core.facts import Fact
from tiresias.core.model import JobId, RunId
from tiresias.core.state import JobState


@dataclass(slots=True)
class Chosen:
    """The policy and the placer in use, with their options as the user gave them."""

    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    placer: str = "packed"
    placer_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SubmissionKey:
    """The jobs that were submitted under an idempotency key.

    `digest` is computed from the request. If it differs, the key was reused for another request.
    """

    jobs: Sequence[JobId]
    digest: str = ""


@dataclass(slots=True)
class Batch:
    """Fill it while facts are handled, commit it, then discard it. After an error it may be committed again.

    The manager decides on everything but the steps, and all of that must be possible in JSON:
    - `submissions`: the job specification by job; sets or replaces it.
    - `managed`: what else the manager must know of a job after a restart, by job; sets or replaces it.
    - `exits`: the exit record by run; only for runs that exit in this batch.
    - `endings`: by ended job, why and how it ended; kept for ever.
    - `keys`: idempotency keys of submissions.
    - `settings`: values by name; sets or replaces them, and None deletes one.
    - `chosen`: set when the policy or the placer changes. Such a batch has no steps, and is committed with
      the new Controller before that handles anything.
    """

    steps: list[tuple[list[Fact], list[Fact]]] = field(default_factory=list)
    ended: dict[JobId, JobState] = field(default_factory=dict)
    submissions: dict[JobId, Any] = field(default_factory=dict)
    managed: dict[JobId, Any] = field(default_factory=dict)
    exits: dict[RunId, Any] = field(default_factory=dict)
    endings: dict[JobId, Any] = field(default_factory=dict)
    keys: dict[str, SubmissionKey] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    chosen: Chosen | None = None

    def add(self, facts: Iterable[Fact], step: Step) -> None:
        """Add one call of `Controller.handle`: the facts that were handled, and the decisions of the step."""
        self.steps.append((list(facts), list(step.facts)))
        for job in step.ended:
            self.ended[job.id] = job
