"""The order of the jobs of a trace: by submission, then by id in natural order (2 before 10)."""

from __future__ import annotations

import re

import polars as pl

_DIGITS = re.compile(r"[0-9]+")


def natural_key(text: str) -> str:
    """A sort key for the natural order of texts, in which sequences of digits are compared as numbers."""
    return _DIGITS.sub(lambda run: _counted(run.group().lstrip("0")), text)


def _counted(digits: str) -> str:
    return f"{len(digits):06d}{digits}"


def in_order(jobs: pl.DataFrame) -> pl.DataFrame:
    """Jobs sorted by (submitted_at, id in natural order); ids of equal value (7, 007) by their text."""
    number = pl.col("id").str.extract(r"^([0-9]{1,18})$").cast(pl.Int64)
    if not jobs.select(number.is_null().any()).item():
        return jobs.sort(pl.col("submitted_at"), number, pl.col("id"), maintain_order=True)
    # The key costs a microsecond per job, so only jobs that were submitted at the same instant get one.
    tied = jobs["submitted_at"].is_duplicated()
    keys = [natural_key(name) if tie else "" for name, tie in zip(jobs["id"], tied, strict=True)]
    return (
        jobs.with_columns(pl.Series("natural", keys, dtype=pl.String))
        .sort("submitted_at", "natural", "id", maintain_order=True)
        .drop("natural")
    )
