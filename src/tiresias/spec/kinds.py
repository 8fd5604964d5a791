"""Kinds of values that an option of a job may have: how text is read, what is refused, how JSON is described.

Rules: a value that is refused is a ValueError that says what is wrong and what to do; the caller adds the
option's name and the value. `parse` turns text of the command line or of a file into a value; `check`
refuses values that no job may have, wherever they come from; `schema` is the JSON schema of the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiresias.spec.sizes import read_size, written
from tiresias.spec.times import read_duration, read_instant

MOST_JOBS = 10_000  # in one request
LARGEST_COUNT = 1_000_000
LARGEST_ID = 2**63 - 1
LONGEST_LINE = 200
LONGEST_PATH = 4096
MOST_BYTES = 2**60
YEAR_S = 366 * 86400.0
LATEST_AT = 1e11

Schema = dict[str, Any]


def check_text(value: str) -> str:
    """Refuse text that no process can be given."""
    if "\0" in value:
        raise ValueError("a NUL character cannot be given to a process; leave it out")
    if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise ValueError("half a character (a surrogate) is not text; write it as UTF-8")
    return value


def check_line(value: str) -> str:
    if not check_text(value).isprintable():
        raise ValueError("characters that cannot be printed are not allowed; leave them out")
    return value


def check_name(value: str) -> str:
    if "/" in check_line(value) or value in (".", ".."):
        raise ValueError("a name has no slash and is neither `.` nor `..`; choose another")
    if value.isdigit():
        raise ValueError("a name of digits alone would be taken for an id; add a letter")
    return value


def check_variable(value: str) -> str:
    if not check_text(value) or "=" in value:
        raise ValueError("the name of a variable is not empty and has no `=`; correct it")
    return value


@dataclass(slots=True, frozen=True)
class Kind(ABC):
    """The base of all kinds."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The JSON schema of the values."""

    def parse(self, text: str, now: datetime) -> Any:
        return text

    def check(self, value: Any) -> Any:
        return value

    def text(self, value: Any) -> str:
        """The value as people read it."""
        return str(value)


@dataclass(slots=True, frozen=True)
class Whole(Kind):
    """A whole number. `too_many` is the message for a number above `most`."""

    least: int = 0
    most: int = LARGEST_COUNT
    too_many: str = ""

    @property
    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def parse(self, text: str, now: datetime) -> int:
        if not text.strip().removeprefix("-").isdecimal():
            raise ValueError(self._expected)
        return int(text)

    def check(self, value: Any) -> Any:
        if not isinstance(value, int) or isinstance(value, bool) or value < self.least:
            raise ValueError(self._expected)
        if value > self.most:
            raise ValueError(self.too_many or f"give a whole number from {self.least} to {self.most:,}")
        return value

    @property
    def _expected(self) -> str:
        return f"give a whole number from {self.least} up"


@dataclass(slots=True, frozen=True)
class Gpus(Whole):
    """A number of GPUs; as text also a range, 2..8, of which the value is the smaller number."""

    def parse(self, text: str, now: datetime) -> int:
        largest(text)
        return int(text.partition(RANGE)[0])


RANGE = ".."


def largest(text: str) -> int | None:
    """The larger number of a range of GPUs; None: the text is one number. A ValueError says what is wrong."""
    few, is_range, many = (part.strip() for part in text.partition(RANGE))
    if not few.removeprefix("-").isdecimal() or (is_range and not many.isdecimal()):
        raise ValueError("give a whole number from 0 up, or a range such as 2..8")
    if not is_range:
        return None
    if int(few) < 1:
        raise ValueError(f"a job that may have several sizes needs a GPU at least; write 1..{many}")
    if int(many) < int(few):
        raise ValueError(f"the smaller number comes first; write {many}..{few}")
    if int(many) > LARGEST_COUNT:
        raise ValueError(f"give whole numbers up to {LARGEST_COUNT:,}")
    return int(many)


@dataclass(slots=True, frozen=True)
class Bytes(Kind):
    """A number of bytes; as text with a unit. A number without a unit is refused, because it is too small."""

    least: int = 2**20

    @property
    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": MOST_BYTES}

    def parse(self, text: str, now: datetime) -> int:
        return read_size(text)

    def text(self, value: Any) -> str:
        return written(value)

    def check(self, value: Any) -> Any:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not self.least <= value <= MOST_BYTES:
            raise ValueError(f"give a size of {self.least // 2**20} MiB or more, with its unit: 500M, 16G")
        return value


@dataclass(slots=True, frozen=True)
class Seconds(Kind):
    """A duration in seconds; as text with a unit. With `above_zero`, zero is refused."""

    above_zero: bool = False

    @property
    def schema(self) -> Schema:
        return {"type": "number", "exclusiveMinimum" if self.above_zero else "minimum": 0, "maximum": YEAR_S}

    def parse(self, text: str, now: datetime) -> float:
        return read_duration(text)

    def check(self, value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= YEAR_S or (self.above_zero and not value):
            least = "above 0" if self.above_zero else "from 0 up"
            raise ValueError(f"give a number of seconds {least}, a year at most")
        return value


@dataclass(slots=True, frozen=True)
class Share(Kind):
    """A number above 0, and 1 at most."""

    @property
    def schema(self) -> Schema:
        return {"type": "number", "exclusiveMinimum": 0, "maximum": 1}

    def parse(self, text: str, now: datetime) -> float:
        try:
            return float(text)
        except ValueError:
            raise ValueError("give a number above 0 and up to 1") from None

    def check(self, value: Any) -> Any:
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
            raise ValueError("give a number above 0 and up to 1")
        return value


@dataclass(slots=True, frozen=True)
class Instant(Kind):
    """An instant in epoch seconds; as text a time of day, a date or a duration from now."""

    @property
    def schema(self) -> Schema:
        return {"type": "number", "minimum": 0, "maximum": LATEST_AT}

    def parse(self, text: str, now: datetime) -> float:
        return read_instant(text, now)

    def check(self, value: Any) -> Any:
        if not isinstance(value, int | float) or not 0 <= value <= LATEST_AT:
            raise ValueError("give an instant in epoch seconds")
        return value


@dataclass(slots=True, frozen=True)
class Switch(Kind):
    """True or false."""

    @property
    def schema(self) -> Schema:
        return {"type": "boolean"}

    def check(self, value: Any) -> Any:
        if not isinstance(value, bool):
            raise ValueError("give true or false")
        return value


@dataclass(slots=True, frozen=True)
class YesNo(Kind):
    """True or false; as text yes or no. Unlike a switch it may also be left open."""

    @property
    def schema(self) -> Schema:
        return {"type": "boolean"}

    def parse(self, text: str, now: datetime) -> bool:
        word = text.strip().lower()
        if word not in ("yes", "no", "true", "false"):
            raise ValueError("give yes or no")
        return word in ("yes", "true")

    def check(self, value: Any) -> Any:
        if not isinstance(value, bool):
            raise ValueError("give true or false")
        return value


@dataclass(slots=True, frozen=True)
class Choice(Kind):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        return {"type": "string", "enum": list(self.words)}

    def check(self, value: Any) -> Any:
        if value not in self.words:
            raise ValueError(f"choose {', '.join(self.words[:-1])} or {self.words[-1]}")
        return value


@dataclass(slots=True, frozen=True)
class Text(Kind):
    """One line of text; `rule` refuses what the characters alone do not rule out."""

    least: int = 0
    rule: Callable[[str], str] = check_line
    most: int = LONGEST_LINE

    @property
    def schema(self) -> Schema:
        return {"type": "string", "minLength": self.least, "maxLength": self.most}

    def check(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError("give text")
        if not self.least <= len(value) <= self.most:
            raise ValueError(f"give {self.least} to {self.most} characters, not {len(value)}")
        return self.rule(value)


@dataclass(slots=True, frozen=True)
class Directory(Kind):
    """An absolute path on the manager's machine. With `may_be_empty`, the manager chooses one."""

    may_be_empty: bool = False

    @property
    def schema(self) -> Schema:
        pattern = "^(/|$)" if self.may_be_empty else "^/"
        return {"type": "string", "maxLength": LONGEST_PATH, "pattern": pattern}

    def check(self, value: Any) -> Any:
        if value == "" and self.may_be_empty:
            return value
        if not isinstance(value, str) or not value.startswith("/"):
            raise ValueError("give an absolute path, one that begins with /")
        if len(value) > LONGEST_PATH:
            raise ValueError(f"give at most {LONGEST_PATH} characters, not {len(value)}")
        return check_text(value)


@dataclass(slots=True, frozen=True)
class Command(Kind):
    """A program and its arguments."""

    @property
    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "string"}, "minItems": 1}

    def check(self, value: Any) -> Any:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ValueError("give a list of words")
        if not value or not value[0]:
            raise ValueError("the command is empty; give the program as its first word")
        for word in value:
            check_text(word)
        return value


@dataclass(slots=True, frozen=True)
class Variables(Kind):
    """The environment of a process. Messages never contain names or values."""

    @property
    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": {"type": "string"}}

    def check(self, value: Any) -> Any:
        if self._is_plain(value):  # as nearly every environment is
            return value
        for name, text in value.items():
            check_variable(name)
            check_text(text)
        return value

    def _is_plain(self, value: Mapping[str, str]) -> bool:
        """Whether nothing can be wrong with it, seen without looking at each variable."""
        names, texts = "".join(value), "".join(value.values())
        is_ascii = names.isascii() and texts.isascii()
        return is_ascii and "" not in value and "=" not in names and "\0" not in names and "\0" not in texts


@dataclass(slots=True, frozen=True)
class Jobs(Kind):
    """Ids of other jobs."""

    @property
    def schema(self) -> Schema:
        item = {"type": "integer", "minimum": 1, "maximum": LARGEST_ID}
        return {"type": "array", "items": item, "maxItems": MOST_JOBS}

    def check(self, value: Any) -> Any:
        if len(value) > MOST_JOBS or not all(1 <= id <= LARGEST_ID for id in value):
            raise ValueError(f"give ids of jobs, at most {MOST_JOBS:,}")
        return value


@dataclass(slots=True, frozen=True)
class Document(Kind):
    """A JSON object that is checked where it is used."""

    @property
    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": True}

    def check(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("give an object")
        return value
