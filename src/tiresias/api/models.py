"""What requests carry. What they must look like is told here once; OpenAPI and the messages come from it.

Rules: unknown keys are refused, because a misspelt option that does nothing is worse than an error. Text that
a process could not be given (NUL, half a character) is refused here. Numbers are finite and fit the journal.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from tiresias.core.model import JobId, Priority
from tiresias.live.submission import (
    DEFAULT_GRACE_S,
    DEFAULT_PREFLIGHT_S,
    DEFAULT_RETRIES,
    Submission,
)

MOST_JOBS = 10_000  # in one request
LARGEST_ID = 2**63 - 1
YEAR_S = 366 * 86400.0


def _text(value: str) -> str:
    if "\0" in value:
        raise ValueError("has a NUL character, which no process can be given; leave it out")
    if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise ValueError("has half a character (a surrogate); write it as UTF-8")
    return value


def _line(value: str) -> str:
    if not _text(value).isprintable():
        raise ValueError("has a character that cannot be printed; leave it out")
    return value


def _name(value: str) -> str:
    if "/" in _line(value) or value in (".", ".."):
        raise ValueError("a name has no slash and is neither `.` nor `..`; choose another")
    if value.isdigit():
        raise ValueError("a name of digits alone would be taken for an id; add a letter")
    return value


def _variable(value: str) -> str:
    if not _text(value) or "=" in value:
        raise ValueError("a variable's name is not empty and has no `=`; correct it")
    return value


Text = Annotated[str, AfterValidator(_text)]
Line = Annotated[str, Field(max_length=200), AfterValidator(_line)]
Word = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_line)]
OptionText = Annotated[str, Field(max_length=1_000_000), AfterValidator(_text)]
Name = Annotated[str, Field(max_length=200), AfterValidator(_name)]
Variable = Annotated[str, AfterValidator(_variable)]
Directory = Annotated[str, Field(max_length=4096, pattern="^/"), AfterValidator(_text)]
Seconds = Annotated[float, Field(ge=0, le=YEAR_S, allow_inf_nan=False)]
Instant = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
Gpus = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ArrayBody(Body):
    """A job for each index, at most `limit` of them holding GPUs at once.

    `{i}` stands for the index in the command, the name and the checkpoint directory.
    """

    indices: Annotated[list[Count], Field(min_length=1, max_length=MOST_JOBS)]
    limit: Gpus | None = None


class JobBody(Body):
    """A job as it is asked for."""

    command: Annotated[list[Text], Field(min_length=1)]
    cwd: Directory
    env: dict[Variable, Text] = Field(default_factory=dict)
    gpus: Gpus = 1
    nodes: Gpus | None = None
    workers: Gpus = 1
    launcher: Word = "plain"
    name: Name = ""
    tenant: Line = ""
    model: Line = ""
    profile: dict[str, Any] | None = None
    priority: Priority = Priority.NORMAL
    preemptible: bool = True
    checkpoint_dir: Directory | Literal[""] = ""
    grace_s: Seconds = DEFAULT_GRACE_S
    retries: Count = DEFAULT_RETRIES
    time_limit_s: Annotated[Seconds, Field(gt=0)] | None = None
    after: Annotated[list[Id], Field(max_length=MOST_JOBS)] = Field(default_factory=list)
    begin_at: Instant | None = None
    array: ArrayBody | None = None
    preflight: bool = False
    preflight_limit_s: Seconds = DEFAULT_PREFLIGHT_S
    snapshot: Directory | Literal[""] = ""
    force: bool = False

    @model_validator(mode="after")
    def _has_a_program(self) -> JobBody:
        if not self.command[0]:
            raise ValueError("command: its first word, the program, is empty")
        return self


class SeveralBody(Body):
    """Several jobs, submitted all or none."""

    jobs: Annotated[list[JobBody], Field(min_length=1, max_length=MOST_JOBS)]


def _kind(body: Any) -> str:
    is_several = isinstance(body, SeveralBody) or (isinstance(body, dict) and "jobs" in body)
    return "several" if is_several else "one"


SubmitBody = Annotated[
    Annotated[JobBody, Tag("one")] | Annotated[SeveralBody, Tag("several")], Discriminator(_kind)
]


class ChangeBody(Body):
    """What may be changed about a job; whatever is not named stays."""

    priority: Priority | None = None
    name: Name | None = None
    tenant: Line | None = None
    time_limit_s: Annotated[Seconds, Field(gt=0)] | None = None
    retries: Count | None = None
    grace_s: Seconds | None = None

    def changes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}

    @model_validator(mode="after")
    def _is_a_change(self) -> ChangeBody:
        if not self.model_fields_set:
            raise ValueError(f"nothing to change; name one of {', '.join(type(self).model_fields)}")
        for name in self.model_fields_set - {"time_limit_s"}:
            if getattr(self, name) is None:
                raise ValueError(f"{name}: null is no value; leave it out to keep it as it is")
        return self


class DrainBody(Body):
    reason: Line = ""


class PolicyBody(Body):
    """An option may be the text of a whole file, as the samples of a distribution are."""

    policy: Word
    options: dict[Word, OptionText] = Field(default_factory=dict)
    placer: Word | None = None
    placer_options: dict[Word, OptionText] | None = None


class LimitsBody(Body):
    """Null is no limit."""

    max_running_gpus: Count | None = None
    max_active_jobs: Count | None = None


class TokenBody(Body):
    name: Annotated[Name, Field(min_length=1)]
    user: Word
    role: Literal["user", "admin"] = "user"


class ShutdownBody(Body):
    stop_jobs: bool = False


def submissions(body: JobBody, array: str) -> list[Submission]:
    """One submission, or one for each index of an array; `array` is the name that these will share."""
    if body.array is None:
        return [_submission(body)]
    return [
        _submission(_at_index(body, index), array=array, array_index=index, array_limit=body.array.limit)
        for index in body.array.indices
    ]


def _at_index(body: JobBody, index: int) -> JobBody:
    def filled(text: str) -> str:
        return text.replace("{i}", str(index))

    command = [filled(word) for word in body.command]
    changes = {"command": command, "name": filled(body.name), "checkpoint_dir": filled(body.checkpoint_dir)}
    return body.model_copy(update=changes)


def _submission(body: JobBody, **array: Any) -> Submission:
    same = body.model_dump(exclude={"command", "after", "array", "env", "profile"})
    after = tuple(JobId(id) for id in body.after)
    own: dict[str, Any] = {"env": body.env, "profile": body.profile}  # the jobs of an array share them
    return Submission(command=tuple(body.command), after=after, **own, **same, **array)
