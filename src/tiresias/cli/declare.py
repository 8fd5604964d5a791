"""What a command takes, declared once, in the annotations of its parameters.

Rules: standard library only. `quick.py` reads these declarations to parse a command line without any other
library; `program.py` hands the same declarations to Typer, which prints the help and the errors. A command
without declarations of this kind is one of Typer's own.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Union, get_args, get_origin


class Declared:
    """The base of what can be declared about a parameter."""


@dataclass(slots=True, frozen=True, init=False)
class Option(Declared):
    """An option, by its names; a parameter of type bool is a switch, and a list may be repeated."""

    names: tuple[str, ...]
    help: str
    metavar: str | None
    min: float | None
    max: float | None

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
    ):
        given = {"names": names, "help": help, "metavar": metavar, "min": min, "max": max}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def allows(self, value: Any) -> bool:
        """Whether a number is within the limits."""
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


@dataclass(slots=True, frozen=True)
class Argument(Declared):
    """A word without a name; a parameter that is a list takes all that are left."""

    metavar: str
    help: str


@dataclass(slots=True, frozen=True)
class CommandLine:
    """What a command may know of its own command line: the words that lead to it, and those after `--`."""

    path: str
    after_dashes: list[str] | None  # None: there was no `--`


@dataclass(slots=True, frozen=True)
class Group:
    """A verb that only has verbs below it."""

    help: str
    commands: dict[str, Callable[..., None]] = field(default_factory=dict)

    def command(self, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        def added(command: Callable[..., None]) -> Callable[..., None]:
            self.commands[name] = command
            return command

        return added


def parameters(command: Callable[..., None]) -> list[inspect.Parameter]:
    """The parameters of a command, with annotations that are types."""
    return list(inspect.signature(command, eval_str=True).parameters.values())


def declared(parameter: inspect.Parameter) -> tuple[Any, Declared | None]:
    """The type of a parameter, and what is declared about it; None if that is not of this kind."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter.annotation, None
    type_, *more = get_args(parameter.annotation)
    return type_, next((each for each in more if isinstance(each, Declared)), None)


def without_none(type_: Any) -> Any:
    """`int` for `int | None`, and any other type unchanged."""
    if get_origin(type_) in (types.UnionType, Union):
        [type_] = [each for each in get_args(type_) if each is not type(None)]
    return type_
