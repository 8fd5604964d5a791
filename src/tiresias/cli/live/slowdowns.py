"""`tir slowdowns`: how much allocations slowed models down, predicted and measured."""

from __future__ import annotations

from tiresias.cli.console import show
from tiresias.cli.live.connection import connected, print_json
from tiresias.cli.live.job_text import plain
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import NOTHING, significant


def slowdowns(output: AsOutput = Output.TABLE) -> None:
    """Show how fast models ran in which allocations.

    Counts runs on several GPUs whose jobs have a model and report their steps. A slowdown is the time per
    step relative to that in the best shape; it is measured from three runs per shape on. USED is the value
    that the placer uses.
    """
    with connected() as client:
        rows = client.slowdowns()
    if output is Output.JSON:
        print_json(rows)
        return
    if not rows:
        show("nothing has been measured yet: no run on several GPUs of a job with a model has reported steps")
        return
    from tiresias.cli.live.fitted_tables import grid

    figures = ("GPUS", "RUNS", "STEPS/S", "PREDICTED", "MEASURED", "USED")
    lines = [
        [
            plain(row["model"]),
            f"{row['gpus']:,}",
            _shape(row["shape"]),
            f"{row['runs']:,}",
            significant(row["steps_per_s"]),
            *(_times(row[name]) for name in ("predicted", "measured", "used")),
        ]
        for row in rows
    ]
    show(grid(("MODEL", "GPUS", "SHAPE", *figures[1:]), lines, right=figures, cut=("MODEL",)))


def _shape(shape: str) -> str:
    nodes, _, groups = shape.partition("x")
    if nodes != "1":
        return f"{nodes} nodes"
    return "1 group" if groups == "1" else f"{groups} groups"


def _times(slowdown: float | None) -> str:
    return NOTHING if slowdown is None else f"{slowdown:.2f}x"
