"""What requests carry. The bodies about jobs are made from the specification of a job (`tiresias.spec`).

Rules: unknown keys are refused, because a misspelt option that does nothing is worse than an error. Pydantic
checks types only; which values are refused, the kinds of the specification say, and OpenAPI shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from tiresias.executors.terminal import MOST_INPUT_BYTES
from tiresias.live.submission import Submission
from tiresias.spec import kinds
from tiresias.spec.job import BY_NAME, CHANGEABLE, OPTIONAL, JobSpec
from tiresias.spec.kinds import LARGEST_ID, MOST_JOBS, Kind, Schema, Text, Whole, check_name, check_text
from tiresias.spec.notices import LONGEST_URL

PYTHON_TYPES: dict[type[Kind], Any] = {
    kinds.Bytes: int,
    kinds.Choice: str,
    kinds.Command: tuple[str, ...],
    kinds.Directory: str,
    kinds.Document: dict[str, Any],
    kinds.Gpus: int,
    kinds.Instant: float,
    kinds.Jobs: tuple[int, ...],
    kinds.Seconds: float,
    kinds.Share: float,
    kinds.Switch: bool,
    kinds.Text: str,
    kinds.Variables: dict[str, str],
    kinds.Whole: int,
    kinds.YesNo: bool,
}


@dataclass(slots=True, frozen=True)
class Checked:
    """Lets Pydantic check a value, and describe it in OpenAPI, as its kind says."""

    kind: Kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.kind.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return self.kind.schema


Line = Annotated[str, Checked(Text())]
Word = Annotated[str, Checked(Text(1))]
Name = Annotated[str, Checked(Text(1, check_name))]
OptionText = Annotated[str, Field(max_length=1_000_000), AfterValidator(check_text)]
Count = Annotated[int, Checked(Whole())]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ArrayBody(Body):
    """One job per index, with at most `limit` of them holding GPUs at once.

    `{i}` in the command, the name and the checkpoint directory is replaced by the index.
    """

    indices: Annotated[list[Count], Field(min_length=1, max_length=MOST_JOBS)]
    limit: Annotated[int, Checked(Whole(1))] | None = None


def _type_of(name: str) -> Any:
    kind = BY_NAME[name].kind
    return Annotated[PYTHON_TYPES[type(kind)], Checked(kind)]


def _job_fields() -> dict[str, Any]:
    """Every option of a job as a field of a request, with the specification's default."""
    found: dict[str, Any] = {}
    for each in fields(JobSpec):
        type_ = _type_of(each.name) | None if each.name in OPTIONAL else _type_of(each.name)
        text = _description(each.name)
        if each.default_factory is not MISSING:
            found[each.name] = (type_, Field(default_factory=each.default_factory, description=text))
        else:
            default = ... if each.default is MISSING else each.default
            found[each.name] = (type_, Field(default, description=text))
    return found


def _description(name: str) -> str:
    """The meaning of an option for OpenAPI: that of the reference, without its links."""
    option = BY_NAME[name]
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", option.api_help or option.help)


def _change_fields() -> dict[str, Any]:
    return {name: (_type_of(name) | None, None) for name in CHANGEABLE}


JobFields: Any = create_model("JobFields", __base__=Body, **_job_fields())
ChangeFields: Any = create_model("ChangeFields", __base__=Body, **_change_fields())


class JobBody(JobFields):  # type: ignore[misc]  # its fields are those of JobSpec
    """A job as it is asked for."""

    array: ArrayBody | None = None


class SeveralBody(Body):
    """Several jobs, submitted all or none."""

    jobs: Annotated[list[JobBody], Field(min_length=1, max_length=MOST_JOBS)]


def _kind(body: Any) -> str:
    is_several = isinstance(body, SeveralBody) or (isinstance(body, dict) and "jobs" in body)
    return "several" if is_several else "one"


SubmitBody = Annotated[
    Annotated[JobBody, Tag("one")] | Annotated[SeveralBody, Tag("several")], Discriminator(_kind)
]


class AgainBody(ChangeFields):  # type: ignore[misc]  # its fields are those that may be changed
    """The options in which the new job differs; it may be left out."""

    def changes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}


class ChangeBody(ChangeFields):  # type: ignore[misc]  # its fields are those that may be changed
    """The options of a job to change; those that are not named keep their values."""

    def changes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}

    @model_validator(mode="after")
    def _is_a_change(self) -> ChangeBody:
        if not self.model_fields_set:
            raise ValueError(f"nothing to change; name one of {', '.join(CHANGEABLE)}")
        for name in self.model_fields_set - OPTIONAL:
            if getattr(self, name) is None:
                raise ValueError(f"{name}: null is no value; leave it out to keep it as it is")
        return self


class DrainBody(Body):
    reason: Line = ""
    deadline_s: Annotated[float, Field(ge=0, lt=1e9)] | None = None


class PolicyBody(Body):
    """An option may be the text of a whole file, as the samples of a distribution are."""

    policy: Word
    options: dict[Word, OptionText] = Field(default_factory=dict)
    placer: Word | None = None
    placer_options: dict[Word, OptionText] | None = None


class LimitsBody(Body):
    """Null is the limit of `*`, if that has one; `none` is no limit."""

    max_running_gpus: Count | Literal["none"] | None = None
    max_active_jobs: Count | Literal["none"] | None = None


class SharesBody(Body):
    """Weights by tenant; empty: all tenants have equal shares."""

    shares: dict[Name, float] = Field(max_length=1000)


class TokenBody(Body):
    name: Name
    user: Word
    role: Literal["user", "admin"] = "user"


class NotifyBody(Body):
    url: Annotated[str, Field(max_length=LONGEST_URL)] = ""
    on: Annotated[list[Word], Field(max_length=8)] = Field(default_factory=list)


class WindowBody(Body):
    rows: Annotated[int, Field(ge=1, le=65535)] = 24
    columns: Annotated[int, Field(ge=1, le=65535)] = 80


class TerminalBody(Body):
    session: Word
    number: Annotated[int, Field(ge=0, le=LARGEST_ID)]
    input: Annotated[str, Field(max_length=MOST_INPUT_BYTES // 3 * 4)] = ""


class PruneBody(Body):
    older_than_s: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)] = 30 * 86_400.0
    checkpoints: bool = False
    all_users: bool = False
    dry_run: bool = False


class ShutdownBody(Body):
    stop_jobs: bool = False


def expanded_bytes(body: JobBody) -> int:
    """About how many bytes the jobs of this body take together; at least as many as are stored."""
    text: str = body.model_dump_json(exclude_defaults=True)
    if body.array is None:
        return len(text)
    longest = len(str(max(body.array.indices)))
    one = len(text) + text.count("{i}") * longest - sum(len(f"{index},") for index in body.array.indices)
    return one * len(body.array.indices)


def submissions(body: JobBody, array: str) -> Iterator[Submission]:
    """One submission, or one for each index of an array; `array` is the name that these will share."""
    if body.array is None:
        yield _submission(body)
        return
    for index in body.array.indices:
        values = {"array": array, "array_index": index, "array_limit": body.array.limit}
        yield _submission(_at_index(body, index), **values)


def _at_index(body: JobBody, index: int) -> JobBody:
    def filled(text: str) -> str:
        return text.replace("{i}", str(index))

    command = tuple(filled(word) for word in body.command)
    changes = {"command": command, "name": filled(body.name), "checkpoint_dir": filled(body.checkpoint_dir)}
    copy: JobBody = body.model_copy(update=changes)
    return copy


def _submission(body: JobBody, **array: Any) -> Submission:
    values = {name: getattr(body, name) for name in BY_NAME}  # the jobs of an array share env and profile
    return Submission.from_json({**values, **array})
