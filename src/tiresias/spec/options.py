"""What is said about one option of a job, besides its value: names, help, and what may be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from tiresias.spec.kinds import Kind, Switch


class Form(Enum):
    """What follows a flag on the command line."""

    VALUE = "one value"
    SWITCH = "nothing"
    VALUES = "one value, and the flag may be repeated"


@dataclass(slots=True, frozen=True)
class Option:
    """One option. Its texts are written for the command line, job.yaml and the reference pages alike."""

    kind: Kind
    help: str  # one sentence
    flag: str = ""  # empty: not an option of the command line
    short: str = ""
    metavar: str = ""
    form: Form = Form.VALUE
    in_group: str = ""  # another key in job.yaml: `resources.gpus`
    sbatch: str = ""  # the option of sbatch whose text means the same
    default: str = ""  # as the reference of the command line gives it
    more: str = ""  # what the reference adds to the help
    api_help: str = ""  # the meaning in the HTTP API, where it differs from the help
    flag_value: bool = True  # what a switch sets its field to
    is_resolved: bool = False  # the command line works its value out: a path, a file, ids of other jobs
    can_change: bool = False  # `tir set`, PATCH
    in_detail: bool = False  # part of what the manager answers about a job
    label: str = ""  # its row in `tir show`; empty: it has none of its own
    name: str = ""  # the key in HTTP and in storage; filled in from the field

    @property
    def key(self) -> str:
        """The flag without its dashes, as in `tir set`."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def file_key(self) -> str:
        """The key in job.yaml; a flag that says "no" is there the field that it sets to false."""
        return self.key if self.flag_value else self.name

    @property
    def is_switch(self) -> bool:
        return self.form is Form.SWITCH or isinstance(self.kind, Switch)


OPTION = "option"


def about(kind: Kind, help: str, **more: Any) -> dict[str, Option]:
    """The metadata of a dataclass field that is an option."""
    return {OPTION: Option(kind, help, **more)}
