"""What a user has submitted, and which user that is. Values only; stored as JSON, they come back the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from tiresias.core.model import Demand, Job, JobId, Priority
from tiresias.executors.base import Identity
from tiresias.spec.job import JobSpec


@dataclass(slots=True, frozen=True)
class Caller:
    """The user who sends a request. An admin may touch every job, a user only its own."""

    user: str
    is_admin: bool = False
    identity: Identity | None = None  # known from the socket; None: runs belong to the manager's own user

    def may_touch(self, owner: str) -> bool:
        return self.is_admin or self.user == owner


@dataclass(slots=True, frozen=True)
class Submission(JobSpec):
    """The specification of one job, with its owner and its index in an array.

    `env` is complete, and only the job's own runs ever see its values.
    """

    priority: Priority = Priority.NORMAL
    after: tuple[JobId, ...] = ()
    after_any: tuple[JobId, ...] = ()
    after_not_ok: tuple[JobId, ...] = ()
    user: str = ""  # filled in from the caller
    array: str = ""  # the jobs of one array share this name
    array_index: int | None = None
    array_limit: int | None = None  # at most so many of the array's jobs hold GPUs at once
    identity: Identity | None = None  # the account under which its workers run

    @property
    def awaited(self) -> tuple[JobId, ...]:
        """All jobs that must end before this one may start."""
        return (*self.after, *self.after_any, *self.after_not_ok)

    def is_doomed_by(self, other: JobId, *, succeeded: bool) -> bool:
        """Whether it can never start, because another job has ended as it has."""
        return other in (self.after_not_ok if succeeded else self.after)

    @property
    def demand(self) -> Demand:
        return Demand(self.gpus)

    def to_job(self, id: JobId, at: float) -> Job:
        """The part of it that the core schedules."""
        return Job(
            id,
            self.demand,
            at,
            user=self.user,
            tenant=self.tenant,
            name=self.name,
            group=self.array,
            priority=self.priority,
            preemptible=self.preemptible,
            resumable=self.resumable,
            model=self.model,
        )

    def to_json(self) -> dict[str, Any]:
        """The values by name. `dataclasses.asdict` would copy the environment word by word."""
        body = {name: getattr(self, name) for name in NAMES}
        if self.identity is not None:
            body["identity"] = asdict(self.identity)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        values = {key: value for key, value in body.items() if key in NAMES}
        values["command"] = tuple(values["command"])
        for name in ("after", "after_any", "after_not_ok"):
            values[name] = tuple(JobId(id) for id in values.get(name, ()))
        values["priority"] = Priority(values.get("priority", Priority.NORMAL))
        if (who := values.get("identity")) is not None:
            limits = tuple((int(which), int(soft), int(hard)) for which, soft, hard in who.get("limits", ()))
            values["identity"] = Identity(**{**who, "groups": tuple(who["groups"]), "limits": limits})
        return cls(**values)

    def of(self, caller: Caller) -> Self:
        """The same submission, owned by the caller; only root can start workers under another account."""
        return replace(self, user=caller.user, identity=caller.identity if os.geteuid() == 0 else None)


NAMES = {each.name: None for each in fields(Submission)}  # in order
