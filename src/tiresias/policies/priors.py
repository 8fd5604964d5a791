"""What was learned elsewhere, as a text: the prior that a cluster without a history of its own begins with.

It is made from a trace (`tiresias trace prior`), such as the history that `tir history export` wrote, and
given to the policy `tiresias` by its option `prior`. It contains counts by class, as the policy has them
itself. Each class is worth at most WORTH ends, so that what happens here soon counts for more.

A text that cannot be used is named, and the policy starts without it: a prior helps at the beginning, and is
never needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any

from tiresias.policies.classes import ALL, LEVELS, Classes, Key, chain, size_of
from tiresias.policies.hazards import STEPS, Counts

FORMAT, VERSION = "tiresias prior", 1
WORTH = 100.0  # ends that a class of the prior counts for at most

Ended = tuple[str, str, str, int, float]
"""A job that has ended: tenant, user, name, GPUs, and the seconds that it worked."""


def made(jobs: Iterable[Ended]) -> str:
    """A prior from jobs in the order of their ends."""
    classes = Classes()
    for tenant, user, name, gpus, worked_s in jobs:
        classes.add(chain(tenant, user, name, size_of(gpus)), 0.0, worked_s, has_ended=True)
    rows = [[list(key), counts.ended, counts.sparse()] for key, counts in classes.counts.items()]
    return json.dumps({"format": FORMAT, "version": VERSION, "classes": rows}, separators=(",", ":")) + "\n"


def read(text: str) -> tuple[Classes | None, str]:
    """The classes of a prior, and what is wrong with it: one of the two is empty."""
    if not text.strip():
        return None, ""
    try:
        return _classes(json.loads(text)), ""
    except json.JSONDecodeError as error:
        hint = "" if text.lstrip().startswith("{") else "; give a file as prior=@FILE"
        problem = f"it is not JSON (line {error.lineno}: {error.msg}){hint}"
    except (ValueError, RecursionError) as error:
        problem = str(error)
    return None, f"the prior is not used: {problem}. `tiresias trace prior TRACE` makes one"


def _classes(body: Any) -> Classes:
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ValueError(f'it has no "format": "{FORMAT}"')
    if body.get("version") != VERSION:
        raise ValueError(f"it is of version {body.get('version')!r}, and this program reads {VERSION}")
    rows = body.get("classes")
    if not isinstance(rows, list):
        raise ValueError('it has no list "classes"')
    classes = Classes()
    for number, row in enumerate(rows, start=1):
        try:
            key, counts = _row(row)
        except (ValueError, TypeError) as error:
            raise ValueError(f"class {number} of {len(rows)}: {error}") from None
        classes.counts[key] = counts
    for key in classes.counts:
        if (parent := _parent(key, classes)) is not None:
            classes.parents[key] = parent
    return classes


def _row(row: Any) -> tuple[Key, Counts]:
    if not isinstance(row, list) or len(row) != 3:
        raise ValueError("it is not [class, ended, steps]")
    key, ended, steps = row
    level = LEVELS.get(key[0]) if isinstance(key, list) and key and isinstance(key[0], str) else None
    if level is None or len(key) != level or not all(isinstance(part, str) for part in key[:-1]):
        raise ValueError(f"{key!r} is no class")
    if key != list(ALL) and not (isinstance(key[-1], int) and 0 <= key[-1] < 64):
        raise ValueError(f"{key!r} has no size of a gang, a power of two")
    if not isinstance(ended, int) or isinstance(ended, bool) or ended < 0:
        raise ValueError(f"{ended!r} is no number of ended jobs")
    if not isinstance(steps, list):
        raise ValueError("its steps are no list")
    for step in steps:
        _check_step(step)
    counts = Counts.of(steps)
    total = sum(counts.ends)
    if total > WORTH:
        counts.fade(WORTH / total)
    return tuple(key), counts


def _check_step(step: Any) -> None:
    if not isinstance(step, list) or len(step) != 3:
        raise ValueError(f"{step!r} is not [step, ends, seconds]")
    if not all(isinstance(value, int | float) and isfinite(value) for value in step):
        raise ValueError(f"{step!r} has something that is no number")
    number, ends, seconds = step
    if number != int(number) or not 0 <= number < STEPS:
        raise ValueError(f"{number!r} is no step: they go from 0 to {STEPS - 1}")
    if ends < 0 or seconds < 0:
        raise ValueError(f"step {number} has negative {'ends' if ends < 0 else 'work'}: {step!r}")


def _parent(key: Key, classes: Classes) -> Key | None:
    """The next larger class of which there are counts."""
    if key == ALL:
        return None
    level, tenant, *rest = key
    size = rest[-1]
    larger: list[Key] = [("recent", tenant, size), ("class", tenant, size)]
    if level == "name":
        larger.insert(0, ("user", tenant, rest[0], size))
    elif level == "recent":
        larger = larger[1:]
    elif level == "class":
        larger = []
    return next((other for other in larger if other in classes.counts), ALL)
