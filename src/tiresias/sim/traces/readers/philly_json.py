"""Reads Philly's own job log (`cluster_job_log`): a JSON list of jobs, each with its attempts.

The duration of a job is the time for which it held GPUs: the sum over its attempts that have a start, a later
end and GPUs. Its GPUs are those of the last such attempt. Times have no zone and are read as UTC.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import polars as pl

from tiresias.sim.errors import TraceError
from tiresias.sim.traces.draft import PROBLEM, Draft, complete, jobs
from tiresias.sim.traces.readers.base import Format
from tiresias.sim.traces.source import Source

COLUMNS = {
    "number": pl.Int64(),
    "line": pl.Int64(),
    "id": pl.String(),
    "submitted_at": pl.Float64(),
    "gpus": pl.Int64(),
    "duration_s": pl.Float64(),
    "user": pl.String(),
    "tenant": pl.String(),
}
NOTES = {
    "unusable": "left out {} without any attempt that has a start, a later end and GPUs",
    "partial": "{} with some attempts that lack a start, a later end or GPUs: only the others count",
    "resized": "{} with attempts of different numbers of GPUs: the last number counts",
}


class _Bad(Exception):
    """A job that cannot be read: column, value, why."""


def read(source: Source) -> Draft:
    rows: list[tuple[object, ...]] = []
    problems: list[tuple[object, ...]] = []
    counts: Counter[str] = Counter()
    for number, (line, entry) in enumerate(_entries(source), start=1):
        try:
            job = _job(entry, counts)
        except _Bad as bad:
            column, value, why = bad.args
            problems.append((number, line, column, str(value), why))
            continue
        if job is not None:
            rows.append((number, line, *job))
    if not rows and not problems and not counts:
        raise TraceError(f"{source.name}: the list of jobs is empty.")
    return Draft(
        source.name,
        FORMAT.name,
        complete(pl.DataFrame(rows, schema=COLUMNS, orient="row")),
        pl.DataFrame(problems, schema=PROBLEM, orient="row"),
        [text.format(jobs(counts[key])) for key, text in NOTES.items() if counts[key]],
        "jobid",
    )


def _entries(source: Source) -> Iterator[tuple[int, Any]]:
    """Every element of the list with the line on which it begins."""
    text, decoder = source.text, json.JSONDecoder()
    if not source.header.startswith("["):
        raise TraceError(f"{source.name}, line 1: not a JSON list of jobs: it does not begin with [.")
    at, line, counted = _skip(text, text.index("[") + 1), 1, 0
    while text[at : at + 1] != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            entry, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise _cut(source, error.lineno, error.msg) from None
        except (RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
            raise _cut(source, line, str(error)) from None
        yield line, entry
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            raise _cut(source, line + text.count("\n", counted, at), "the list of jobs is cut short")


def _cut(source: Source, line: int, why: str) -> TraceError:
    return TraceError(f"{source.name}, line {line}: not JSON: {why}. Correct the file or copy it again.")


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\n", "\r", "\t"):
        at += 1
    return at


def _job(entry: Any, counts: Counter[str]) -> tuple[object, ...] | None:
    """id, submitted_at, gpus, duration_s, user, tenant; None if it never ran."""
    if not isinstance(entry, dict):
        raise _Bad("", entry, "is not a job ({…})")
    name, attempts = entry.get("jobid"), entry.get("attempts") or []
    if not isinstance(name, str) or not name.strip():
        raise _Bad("jobid", name, "is not an id")
    if not isinstance(attempts, list):
        raise _Bad("attempts", attempts, "is not a list")
    submitted_at = _instant(entry.get("submitted_time"))
    if submitted_at is None or submitted_at < 0:
        raise _Bad("submitted_time", entry.get("submitted_time"), "is not a date and time")
    usable = [found for found in map(_attempt, attempts) if found]
    if not usable:
        counts["unusable"] += 1
        return None
    counts["partial"] += len(usable) < len(attempts)
    counts["resized"] += len({gpus for gpus, _ in usable}) > 1
    duration_s = sum(seconds for _, seconds in usable)
    return name, submitted_at, usable[-1][0], duration_s, _text(entry.get("user")), _text(entry.get("vc"))


def _attempt(attempt: Any) -> tuple[int, float] | None:
    """GPUs and seconds of an attempt; None if it does not have both."""
    if not isinstance(attempt, dict):
        return None
    start, end = _instant(attempt.get("start_time")), _instant(attempt.get("end_time"))
    if start is None or end is None or end <= start:
        return None
    detail = attempt.get("detail")
    nodes = [node for node in detail if isinstance(node, dict)] if isinstance(detail, list) else []
    names_by_node = [node.get("gpus") for node in nodes]
    gpus = sum(len(names) for names in names_by_node if isinstance(names, list))
    return (gpus, end - start) if gpus else None


def _instant(value: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


FORMAT = Format("philly-json", "Philly cluster_job_log (JSON)", (), read, opening="[")
