"""The facts of a simulation as JSON lines: one object per fact, with its kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tiresias.core import facts as f
from tiresias.sim.engine import Journal


def to_line(fact: f.Fact) -> str:
    """One fact as JSON; slots are lists of [index of the node, bit mask]."""
    values: dict[str, Any] = {"kind": type(fact).__name__, "version": f.VERSION, **asdict(fact)}
    return json.dumps(values, separators=(",", ":"))


@contextmanager
def journal_to(path: Path) -> Iterator[Journal]:
    """A function that appends facts to a new file."""
    with open(path, "w", encoding="utf-8") as file:
        yield lambda fact: print(to_line(fact), file=file)
