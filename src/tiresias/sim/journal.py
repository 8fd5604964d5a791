"""The facts of a simulation as JSON lines: one object per fact, with its kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiresias.core import facts as f
from tiresias.sim.engine import Journal
from tiresias.store.codec import FACTS


def to_line(fact: f.Fact) -> str:
    """One fact as JSON; slots are lists of [index of the node, bit mask]."""
    kind = type(fact).__name__
    values: dict[str, Any] = {"kind": kind, "version": f.VERSION, **FACTS[kind].encode(fact)}
    return json.dumps(values, separators=(",", ":"))


@contextmanager
def journal_to(path: Path) -> Iterator[Journal]:
    """A function that appends facts to a new file."""
    with open(path, "w", encoding="utf-8") as file:
        yield lambda fact: print(to_line(fact), file=file)
