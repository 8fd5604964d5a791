"""A command line that is right, parsed without a library: most are, and they should begin at once.

Rules: only what is declared (`declare.py`) and certain is accepted. Everything else, and above all whatever
is wrong, is left to Typer, which reads the same declarations and knows how to say it: help, unknown options,
values of the wrong kind, several switches in one word. So this parser has no messages of its own, and a
command line means the same whoever parses it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

from tiresias.cli.declare import (
    Argument,
    CommandLine,
    Declared,
    Group,
    Option,
    declared,
    parameters,
    without_none,
)


class Unclear(Exception):
    """A command line that Typer must read."""


@dataclass(slots=True, frozen=True)
class Slot:
    """A parameter of the command, and how one word becomes a value of it."""

    name: str
    read: Callable[[str], Any]
    is_switch: bool
    is_list: bool
    is_required: bool


def call(
    command: Callable[..., None], words: Sequence[str], path: str = "", *, carries: bool = False
) -> Callable[[], None] | None:
    """The call that the words after the verb mean, or None if Typer must read them."""
    try:
        given = parsed(command, words, path, carries=carries)
    except Unclear:
        return None
    return lambda: command(**given)


def in_group(group: Group, words: Sequence[str], path: str) -> Callable[[], None] | None:
    """The same for a verb that has verbs below it."""
    command = group.commands.get(words[0]) if words else None
    return None if command is None else call(command, words[1:], f"{path} {words[0]}")


def parsed(
    command: Callable[..., None], words: Sequence[str], path: str = "", *, carries: bool = False
) -> dict[str, Any]:
    """The arguments of the command by name, or Unclear."""
    options, arguments, given = _slots(command)
    before, after = _split(words, carries)
    for name, value in given.items():
        if value is CommandLine:
            given[name] = CommandLine(path, after)
    loose = _take_options(before, options, given)
    _take_arguments(loose, arguments, given)
    return given


def _slots(command: Callable[..., None]) -> tuple[dict[str, Slot], list[Slot], dict[str, Any]]:
    """Options by flag, arguments in order, and the defaults."""
    options: dict[str, Slot] = {}
    arguments: list[Slot] = []
    defaults: dict[str, Any] = {}
    for each in parameters(command):
        if each.annotation is CommandLine:
            defaults[each.name] = CommandLine
            continue
        type_, found = declared(each)
        slot = _slot(each, type_, found)
        if isinstance(found, Option):
            options |= dict.fromkeys(found.names, slot)
        elif isinstance(found, Argument):
            arguments.append(slot)
        else:
            raise Unclear
        if not slot.is_required:
            defaults[each.name] = each.default
    return options, arguments, defaults


def _slot(parameter: inspect.Parameter, type_: Any, found: Declared | None) -> Slot:
    plain = without_none(type_)
    is_list = get_origin(plain) is list
    kind = get_args(plain)[0] if is_list else plain
    is_required = parameter.default is inspect.Parameter.empty
    return Slot(parameter.name, _reader(kind, found), kind is bool, is_list, is_required)


def _reader(kind: Any, found: Declared | None) -> Callable[[str], Any]:
    if kind not in (str, int, float, bool, Path) and not issubclass(kind, Enum):
        raise Unclear

    def read(text: str) -> Any:
        if kind in (int, float) and not text.replace(".", "", 1).isdecimal():
            raise Unclear  # an exponent, an underscore, spaces
        try:
            value = kind(text)
        except ValueError:
            raise Unclear from None
        if isinstance(found, Option) and not found.allows(value):
            raise Unclear
        return value

    return read


def _split(words: Sequence[str], carries: bool) -> tuple[Sequence[str], list[str] | None]:
    """The words before `--`, and those after it, which belong to another command."""
    if "--" not in words:
        return words, None
    if not carries:
        raise Unclear
    where = words.index("--")
    return words[:where], list(words[where + 1 :])


def _take_options(words: Sequence[str], options: dict[str, Slot], given: dict[str, Any]) -> list[str]:
    """Put the values of options into `given`; the words that are left."""
    loose: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            loose.append(word)
            continue
        flag, value = _parts(word)
        slot = options.get(flag)
        if slot is None or (slot.is_switch and value is not None):
            raise Unclear
        if slot.is_switch:
            given[slot.name] = True
            continue
        if value is None:
            value = next(rest, None)
            if value is None or value.startswith("-"):
                raise Unclear
        if slot.is_list:
            given[slot.name] = [*(given[slot.name] or []), slot.read(value)]
        else:
            given[slot.name] = slot.read(value)
    return loose


def _parts(word: str) -> tuple[str, str | None]:
    """`--name=value`, `-n` with its value in the same word, or a flag alone."""
    if word.startswith("--"):
        flag, equals, value = word.partition("=")
        return flag, value if equals else None
    return word[:2], word[2:] or None


def _take_arguments(words: list[str], arguments: list[Slot], given: dict[str, Any]) -> None:
    for number, slot in enumerate(arguments):
        if slot.is_list:
            if number != len(arguments) - 1:
                raise Unclear
            if words:
                given[slot.name] = [slot.read(word) for word in words]
            elif slot.is_required:
                raise Unclear
            return
        if words:
            given[slot.name] = slot.read(words.pop(0))
        elif slot.is_required:
            raise Unclear
    if words:
        raise Unclear
