"""What a user asks for, and who asks. Values only: they are stored as JSON and come back the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from tiresias.core.model import Demand, Job, JobId, Priority
from tiresias.executors.base import Identity

DEFAULT_GRACE_S = 60.0
DEFAULT_RETRIES = 3
DEFAULT_PREFLIGHT_S = 60.0


@dataclass(slots=True, frozen=True)
class Caller:
    """Who asks. An admin may touch everything; a user only what is its own."""

    user: str
    is_admin: bool = False
    identity: Identity | None = None  # known from the socket; None: runs belong to the manager's own user

    def may_touch(self, owner: str) -> bool:
        return self.is_admin or self.user == owner


@dataclass(slots=True, frozen=True)
class Submission:
    """One job as it was asked for. `env` is complete; nobody but its own runs ever sees its values."""

    command: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""  # filled in from the caller
    gpus: int = 1
    nodes: int | None = None  # over exactly so many nodes; None: the placer's business
    workers: int = 1
    launcher: str = "plain"
    name: str = ""
    tenant: str = ""
    model: str = ""
    profile: Mapping[str, Any] | None = None  # as stored; once accepted only its name is left, in `model`
    priority: Priority = Priority.NORMAL
    preemptible: bool = True
    checkpoint_dir: str = ""  # empty: one of its own in the manager's home
    grace_s: float = DEFAULT_GRACE_S
    retries: int = DEFAULT_RETRIES
    time_limit_s: float | None = None  # of holding GPUs, all runs together
    after: tuple[JobId, ...] = ()  # starts only when these have succeeded
    begin_at: float | None = None
    array: str = ""  # the jobs of one array share this name
    array_index: int | None = None
    array_limit: int | None = None  # at most so many of the array's jobs hold GPUs at once
    preflight: bool = False
    preflight_limit_s: float = DEFAULT_PREFLIGHT_S
    snapshot: str = ""  # the directory of the copy that `cwd` lies in; removed with the job
    force: bool = False  # even if the same command failed in the same way before
    identity: Identity | None = None  # as whom its workers run

    def to_job(self, id: JobId, at: float) -> Job:
        """The part of it that the core schedules."""
        return Job(
            id,
            Demand(self.gpus),
            at,
            user=self.user,
            tenant=self.tenant,
            name=self.name,
            group=self.array,
            priority=self.priority,
            preemptible=self.preemptible,
            model=self.model,
        )

    def to_json(self) -> dict[str, Any]:
        """Not by `dataclasses.asdict`, which would copy the environment word by word."""
        body = {name: getattr(self, name) for name in NAMES}
        if self.identity is not None:
            body["identity"] = asdict(self.identity)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        values = {key: value for key, value in body.items() if key in NAMES}
        values["command"] = tuple(values["command"])
        values["after"] = tuple(JobId(id) for id in values.get("after", ()))
        values["priority"] = Priority(values.get("priority", Priority.NORMAL))
        if (who := values.get("identity")) is not None:
            values["identity"] = Identity(**{**who, "groups": tuple(who["groups"])})
        return cls(**values)

    def of(self, caller: Caller) -> Self:
        """The same, belonging to the caller."""
        return replace(self, user=caller.user, identity=caller.identity)


NAMES = {each.name: None for each in fields(Submission)}  # in order
