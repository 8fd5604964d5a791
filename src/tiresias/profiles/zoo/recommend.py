"""DLRM: embedding tables for categories, a perceptron for numbers, and a perceptron above both.

The tables have as many rows as the public Criteo data has categories; that is data, not architecture.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tiresias.profiles.zoo.sheet import Sheet

KAGGLE_ROWS = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
    *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
)
"""Categories in each of the 26 columns of the Criteo Kaggle data."""


def dlrm(
    rows: Sequence[int] = KAGGLE_ROWS,
    width: int = 16,
    numbers: Sequence[int] = (13, 512, 256, 64, 16),
    above: Sequence[int] = (512, 256, 1),
    batch: int = 2048,
) -> Sheet:
    """A batch uses at most one row per sample of each table, and only those rows have gradients to send."""
    sheet = Sheet()
    for number, count in enumerate(rows):
        sheet.tensor(f"table{number}", count, width, sent=min(count, batch) * width)
    sheet.layer("tables", "embedding", len(rows) * width)
    _perceptron(sheet, "numbers", numbers)
    sheet.layer("numbers", "dense", (len(rows) + 1) * width)
    vectors = len(rows) + 1
    pairs = vectors * (vectors - 1) // 2
    sheet.work(2.0 * pairs * width)
    _perceptron(sheet, "above", (pairs + width, *above))
    sheet.layer("above", "dense", above[-1])
    return sheet


def _perceptron(sheet: Sheet, name: str, widths: Sequence[int]) -> None:
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        sheet.dense(f"{name}{number}", inputs, outputs)
