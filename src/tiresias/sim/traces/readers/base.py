"""A format of trace files: its name, how it is recognised and how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiresias.sim.traces.draft import Draft
from tiresias.sim.traces.source import Source


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of trace file. Delimited text is recognised by a header that has all of `columns`."""

    name: str
    title: str
    columns: tuple[str, ...]
    read: Callable[[Source], Draft]
    separator: str = ","
    opening: str = ""  # the first character of the text, if it is not delimited text

    def missing(self, header: str) -> list[str]:
        """The columns that this format needs and the header lacks."""
        found = {name.strip().strip('"') for name in header.split(self.separator)}
        return [name for name in self.columns if name not in found]

    def matches(self, header: str) -> bool:
        if self.opening:
            return header.startswith(self.opening)
        return not self.missing(header)
