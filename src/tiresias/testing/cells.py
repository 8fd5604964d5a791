"""Runs the cells of an experiment in this process, which for small ones is faster than worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tiresias.sim import Result
from tiresias.sim.experiment import Cell, simulate_cell


def run_cells_here(
    cells: Sequence[Cell], replayed: Mapping[int | None, Any], keep: Callable[[Result], Any], **_: Any
) -> Iterator[tuple[int, Any]]:
    """A replacement for tiresias.sim.experiment.run_cells without worker processes."""
    for number, cell in enumerate(cells):
        yield number, keep(simulate_cell(cell, replayed[cell.seed]))
