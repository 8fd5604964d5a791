"""Arrays, sweeps and parameters: one submission that is many jobs. Pure.

Rules: `{name}` is replaced if there is a parameter of that name, and only then, so that JSON in a command
stays as it is. A parameter of a sweep that the command does not mention is appended to it as `--name=value`.
`{i}` belongs to arrays and is replaced by the manager.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiresias.cli.errors import Stop
from tiresias.spec.kinds import MOST_JOBS

INDEX = "i"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


@dataclass(slots=True, frozen=True)
class Array:
    indices: list[int]
    limit: int | None


def parse_array(text: str) -> Array:
    """The indices and the limit of `0-15`, `1,3,5-9:2` or `0-15%4`."""
    listed, percent, most = text.strip().partition("%")
    if percent and (not most.isdecimal() or int(most) < 1):
        raise Stop(
            f"--array {text!r}: give the number of jobs that may run at once after %, for example 0-15%4"
        )
    indices: list[int] = []
    for part in listed.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise Stop(
                f"--array {text!r}: {part.strip()!r} is not an index or a range; write 0-15 or 1,3,5-9%4"
            )
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or step < 1:
            raise Stop(f"--array {text!r}: {part.strip()!r} is an empty range; write the smaller index first")
        if (last - first) // step >= MOST_JOBS:
            raise Stop(f"--array {text!r} has more than {MOST_JOBS:,} jobs; submit it in parts")
        indices += range(first, last + 1, step)
    if len(set(indices)) < len(indices):
        raise Stop(f"--array {text!r} names an index twice; name each once")
    return Array(indices, int(most) if percent else None)


def parse_sweep(texts: Sequence[str]) -> dict[str, list[str]]:
    """The values of each parameter in `lr=1e-3,1e-4` and so on."""
    sweep: dict[str, list[str]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        values = [value.strip() for value in listed.split(",")]
        if not equals or not _NAME.fullmatch(name) or not all(values):
            raise Stop(f"--sweep {text!r} is not understood; write a name and its values, as in lr=1e-3,1e-4")
        if name == INDEX:
            raise Stop("--sweep i=…: {i} is the index of an --array; choose another name")
        if name in sweep:
            raise Stop(f"--sweep names {name!r} twice; list all its values once: {name}=A,B,C")
        sweep[name] = values
    return sweep


def points(sweep: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """All combinations, with the last parameter changing fastest; one empty point if there is no sweep."""
    total = 1
    for values in sweep.values():
        total *= len(values)
    if total > MOST_JOBS:
        raise Stop(f"--sweep makes {total:,} jobs, more than {MOST_JOBS:,}; submit it in parts")
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]


def fill(text: str, parameters: Mapping[str, str]) -> str:
    """The text with the `{name}` of each parameter replaced."""
    for name, value in parameters.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def filled_command(command: Sequence[str], fixed: Mapping[str, str], point: Mapping[str, str]) -> list[str]:
    """The command at one point of a sweep."""
    parameters = {**fixed, **point}
    missing = [name for name in point if not any(f"{{{name}}}" in word for word in command)]
    return [fill(word, parameters) for word in command] + [f"--{name}={point[name]}" for name in missing]


def named(name: str, point: Mapping[str, str]) -> str:
    """The name of the job at one point: the given name and the values, which lose their slashes."""
    values = {key: value.replace("/", "_") for key, value in point.items()}
    if any(f"{{{key}}}" in name for key in point):
        return fill(name, values)
    parts = [f"{key}={value}" for key, value in values.items()]
    return "-".join([name, *parts] if name else parts)


def environment(point: Mapping[str, str]) -> dict[str, str]:
    """The point as environment variables: TIRESIAS_SWEEP_LR and so on."""
    return {f"TIRESIAS_SWEEP_{re.sub('[^A-Z0-9]', '_', key.upper())}": value for key, value in point.items()}
