"""What one transaction makes durable: the facts of one or more steps, and what the manager adds to them."""

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
    """The plug-ins in use, as the user named them."""

    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    placer: str = "packed"
    placer_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SubmissionKey:
    """What an idempotency key stands for; `digest` tells a repetition from another use of the key."""

    jobs: Sequence[JobId]
    digest: str = ""


@dataclass(slots=True)
class Batch:
    """Fill it while handling, commit it, throw it away; after an error the same one may be given again.

    Everything but the steps is the manager's own, in values that JSON can hold: `submissions` and `notes`
    by job (set or replace), `exits` by run (exit code, signal …), `records` by ended job (what of it is
    kept for ever), `settings` by name. `chosen` is given when policy or placer changed, in a batch without
    steps, committed with the new Controller before it handles anything.
    """

    steps: list[tuple[list[Fact], list[Fact]]] = field(default_factory=list)
    ended: dict[JobId, JobState] = field(default_factory=dict)
    submissions: dict[JobId, Any] = field(default_factory=dict)
    notes: dict[JobId, Any] = field(default_factory=dict)
    exits: dict[RunId, Any] = field(default_factory=dict)
    records: dict[JobId, Any] = field(default_factory=dict)
    keys: dict[str, SubmissionKey] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    chosen: Chosen | None = None

    def add(self, facts: Iterable[Fact], step: Step) -> None:
        """One call of `Controller.handle`: what came in, and what it brought about (copied from the step)."""
        self.steps.append((list(facts), list(step.facts)))
        for job in step.ended:
            self.ended[job.id] = job
