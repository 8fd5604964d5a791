"""The shapes of answers, and how they are written as JSON: by Pydantic, from the manager's own values.

A list of ten thousand jobs is written in one step, without a copy in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastapi import Response
from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from tiresias.live.answers import (
    EventInfo,
    JobSummary,
    Limits,
    NodeInfo,
    RunInfo,
    SlowdownRow,
    UsageRow,
)


@dataclass(slots=True)
class ErrorText:
    code: str
    message: str


@dataclass(slots=True)
class ErrorReport:
    error: ErrorText


@dataclass(slots=True)
class Ids:
    ids: list[int]
    arrays: list[str] = field(default_factory=list)  # of the jobs that are active, in order
    warnings: list[str] = field(default_factory=list)  # what the submitter should know about these jobs


@dataclass(slots=True)
class Jobs:
    jobs: list[JobSummary]
    next: int | None  # the cursor of the next page; null on the last one
    total: int = 0  # active jobs on all pages
    seq: int = 0  # the number of the last event that this page includes


@dataclass(slots=True)
class Runs:
    runs: list[RunInfo]


@dataclass(slots=True)
class Events:
    events: list[EventInfo]
    next: int | None  # `since` of the next page; null if there is no more yet


@dataclass(slots=True)
class Nodes:
    nodes: list[NodeInfo]


@dataclass(slots=True)
class AllLimits:
    limits: dict[str, Limits]


@dataclass(slots=True)
class AllShares:
    shares: dict[str, float]


@dataclass(slots=True)
class Usage:
    rows: list[UsageRow]


@dataclass(slots=True)
class Slowdowns:
    rows: list[SlowdownRow]


@dataclass(slots=True)
class History:
    rows: list[dict[str, Any]]
    next: int | None


@dataclass(slots=True)
class TokenReport:
    name: str
    user: str
    role: str
    created_at: float


@dataclass(slots=True)
class Tokens:
    tokens: list[TokenReport]


@dataclass(slots=True)
class NewToken:
    name: str
    token: str  # shown only in this answer


@dataclass(slots=True)
class Who:
    user: str
    role: str


@dataclass(slots=True)
class Version:
    version: str
    api: str


@dataclass(slots=True)
class Health:
    status: str


_writers: dict[type, TypeAdapter[Any]] = {}  # creating one takes longer than using it


def as_json(value: Any) -> bytes:
    """The value as JSON; numbers that are not finite become null."""
    kind = type(value)
    if kind not in _writers:
        _writers[kind] = TypeAdapter(kind)
    try:
        return _writers[kind].dump_json(value)
    except PydanticSerializationError:  # text that is no UTF-8 can have come from a job
        return to_json(_as_text(_writers[kind].dump_python(value)), inf_nan_mode="null")


def _as_text(value: Any) -> Any:
    """The same value, with half characters (surrogates) written as `\\udc80`."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_as_text(key): _as_text(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(each) for each in value]
    return value


def answer(value: Any, status: int = 200) -> Response:
    return Response(as_json(value), status, media_type="application/json")
