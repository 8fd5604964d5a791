"""Simulations that would be given to workers, carried out in this process: to start workers takes longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tiresias.sim import Result
from tiresias.sim.experiment import Cell, simulate_cell


def run_cells_here(
    cells: Sequence[Cell], replayed: Mapping[int | None, Any], keep: Callable[[Result], Any], **_: Any
) -> Iterator[tuple[int, Any]]:
    """As tiresias.sim.experiment.run_cells, without workers and one after the other."""
    for number, cell in enumerate(cells):
        yield number, keep(simulate_cell(cell, replayed[cell.seed]))
