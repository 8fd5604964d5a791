"""What a user has submitted, and which user that is. Values only; stored as JSON, they come back the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from operator import attrgetter
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
    narrows: bool = False  # of many nodes, only those with enough cores and memory per GPU may be used

    @property
    def awaited(self) -> tuple[JobId, ...]:
        """All jobs that must end before this one may start."""
        return (*self.after, *self.after_any, *self.after_not_ok)

    def is_doomed_by(self, other: JobId, *, succeeded: bool) -> bool:
        """Whether it can never start, because another job has ended as it has."""
        return other in (self.after_not_ok if succeeded else self.after)

    @property
    def demand(self) -> Demand:
        return Demand(
            self.gpus,
            max_gpus=self.max_gpus if self.most_gpus > self.gpus else None,
            gpu_type=self.gpu_type or None,
            cpus=self.cpus if self.narrows and self.gpus else None,
            memory_bytes=self.memory_bytes if self.narrows and self.gpus else None,
            cpu_speed=self.cpu_speed,
            gpu_memory_bytes=self.gpu_memory_bytes if self.gpus else None,
            nodes=self.node_count if self.gpus else None,
        )

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
        """The values by name. `dataclasses.asdict` would copy the environment and the limits word by word."""
        body = dict(zip(NAMES, _values(self), strict=True))
        if self.identity is not None:
            body["identity"] = dict(zip(IDENTITY_NAMES, _identity_values(self.identity), strict=True))
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        values = dict(body) if list(body) == IN_ORDER else _with_defaults(body)
        values["command"] = tuple(values["command"])
        for name in ("after", "after_any", "after_not_ok"):
            values[name] = tuple(values[name])
        values["priority"] = PRIORITIES[values["priority"]]
        if (who := values.get("identity")) is not None:
            limits = tuple((int(which), int(soft), int(hard)) for which, soft, hard in who.get("limits", ()))
            values["identity"] = Identity(**{**who, "groups": tuple(who["groups"]), "limits": limits})
        new = object.__new__(cls)
        for assign, value in zip(ASSIGN.values(), values.values(), strict=True):
            assign(new, value)
        return new

    def to_short_json(self) -> dict[str, Any]:
        """The same without options that are empty by default and here; `from_json` reads it as well."""
        return {
            name: value
            for name, value in self.to_json().items()
            if value or name not in EMPTY or value != EMPTY[name]
        }

    def of(self, caller: Caller) -> Self:
        """The same submission, owned by the caller; only root can start workers under another account."""
        return self.but(user=caller.user, identity=caller.identity if os.geteuid() == 0 else None)

    def but(self, **changes: Any) -> Self:
        """`dataclasses.replace`, in a quarter of the time: each job that is submitted needs it twice."""
        new = object.__new__(type(self))
        for assign, value in zip(ASSIGN.values(), _values(self), strict=True):
            assign(new, value)
        for name, value in changes.items():
            ASSIGN[name](new, value)
        return new


NAMES = {each.name: None for each in fields(Submission)}  # in order
IN_ORDER = list(NAMES)
PRIORITIES = {each.value: each for each in Priority}
ASSIGN = {name: getattr(Submission, name).__set__ for name in NAMES}  # to the slots of a value that is new
_values = attrgetter(*NAMES)
IDENTITY_NAMES = [each.name for each in fields(Identity)]
_identity_values = attrgetter(*IDENTITY_NAMES)
_IN_ORDER_DEFAULTS = {each.name: each.default for each in fields(Submission)}
# Defaults that are empty, by name. What is stored of an active job leaves them out, because a restart reads
# it for every job. So such a default may be replaced by another one only with a migration.
EMPTY = {name: value for name, value in _IN_ORDER_DEFAULTS.items() if value is not MISSING and not value}
_MADE = {
    each.name: each.default_factory for each in fields(Submission) if each.default_factory is not MISSING
}


def _with_defaults(body: Mapping[str, Any]) -> dict[str, Any]:
    """The values, in order, of a submission that names only some options, or in another order."""
    values = {**_IN_ORDER_DEFAULTS, **body}
    for name, make in _MADE.items():
        if name not in body:
            values[name] = make()
    return values if len(values) == len(IN_ORDER) else {name: values[name] for name in IN_ORDER}
