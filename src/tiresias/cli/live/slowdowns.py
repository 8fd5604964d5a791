"""`tir slowdowns`: what trainings have shown of the places they ran in, beside what was predicted."""

from __future__ import annotations

from tiresias.cli.console import show
from tiresias.cli.live.jobs import UNCUT
from tiresias.cli.live.talking import print_json, talking
from tiresias.cli.live.words import plain
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import NOTHING, significant


def slowdowns(output: AsOutput = Output.TABLE) -> None:
    """Show how fast models ran in which places, predicted and measured.

    Of runs on several GPUs whose jobs named a model and told their steps. A slowdown is how many times as
    long as in the best place; three runs in each are needed to measure one. USED is what the placer goes by.
    """
    with talking() as client:
        rows = client.slowdowns()
    if output is Output.JSON:
        print_json(rows)
        return
    if not rows:
        show("nothing was measured yet: no run on several GPUs of a job with a model has told its steps")
        return
    from tiresias.cli.live.grids import grid

    figures = ("GPUS", "RUNS", "STEPS/S", "PREDICTED", "MEASURED", "USED")
    lines = [
        [
            plain(row["model"]),
            f"{row['gpus']:,}",
            _place(row["shape"]),
            f"{row['runs']:,}",
            significant(row["steps_per_s"]),
            *(_times(row[name]) for name in ("predicted", "measured", "used")),
        ]
        for row in rows
    ]
    show(grid(("MODEL", "GPUS", "PLACE", *figures[1:]), lines, right=figures, cut=("MODEL",)), UNCUT)


def _place(shape: str) -> str:
    nodes, _, groups = shape.partition("x")
    if nodes != "1":
        return f"{nodes} nodes"
    return "1 group" if groups == "1" else f"{groups} groups"


def _times(slowdown: float | None) -> str:
    return NOTHING if slowdown is None else f"{slowdown:.2f}x"
