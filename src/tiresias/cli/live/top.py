"""`tir top`: a live view of nodes, GPUs and jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from tiresias.cli.console import show
from tiresias.cli.declare import Option
from tiresias.cli.lines import Line, Lines, Styled, is_terminal, size
from tiresias.cli.live import job_text
from tiresias.cli.live.connection import connected, print_json
from tiresias.cli.live.screen import repeat
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import count

if TYPE_CHECKING:
    from tiresias.api.client import Client

STATES = {"free": "·", "foreign": "other", "out": "out", "drained": "drained"}
STYLES = {"free": "dim", "foreign": "red", "out": "red", "drained": "magenta", "saving": "cyan"}
PALETTE = ("green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green", "bright_yellow")
CELL = 7
LONGEST_NAME = 12
GIB = 2**30


def top(
    interval: Annotated[
        float, Option("--interval", metavar="SECONDS", min=0.1, help="Time between two updates.")
    ] = 1.0,
    once: Annotated[
        bool, Option("--once", help="Print it once and exit. This is the default without a terminal.")
    ] = False,
    output: AsOutput = Output.TABLE,
) -> None:
    """Watch which job holds which GPUs, and which jobs wait; q ends it."""
    with connected() as client:
        if output is Output.JSON:
            print_json({"status": client.status(), "nodes": client.nodes(), "jobs": list(client.jobs())})
        elif once or not is_terminal():
            show(view(client, None))
        else:
            repeat(lambda: view(client, size()[1]), interval)


def view(client: Client, height: int | None) -> Lines:
    from tiresias.cli.live.job_tables import listing

    status, nodes, jobs = client.status(), client.nodes(), list(client.jobs())
    busy = status["slots"] - status["free_slots"]
    head = (
        f"{time.strftime('%H:%M:%S')}  {busy} of {count(status['slots'], 'GPU')} in use, "
        f"{_counted(jobs)}, policy {status['policy']}"
    )
    parts = [Line.of(head)]
    if status["problem"]:
        parts.append(Line.of(job_text.plain(status["problem"]), "red"))
    names = min(LONGEST_NAME, max((len(node["name"]) for node in nodes), default=0))
    lines = [line for node in nodes for line in _node(node, names, size()[0])]
    parts += [Line(), *lines, Line()]
    rows = len(jobs) if height is None else max(1, height - len(lines) - 7)
    parts += listing(jobs[:rows], time.time(), wide=False)
    if len(jobs) > rows:
        parts.append(Line.of(f"… and {len(jobs) - rows:,} more"))
    return parts


def _counted(jobs: Sequence[Mapping[str, Any]]) -> str:
    from tiresias.cli.live.job_tables import summary_line

    return summary_line(jobs)


def _node(node: Mapping[str, Any], name_width: int, width: int) -> Lines:
    """The GPUs of a node in one or more rows, each with the job that holds it."""
    name = job_text.plain(node["name"])
    label = f"{name if len(name) <= name_width else name[: name_width - 1] + '…':<{name_width}} "
    per_row = max(1, (width - len(label)) // (CELL + 1))
    lines = []
    for start in range(0, len(node["slots"]), per_row):
        parts: list[str | Styled] = [label if not start else " " * len(label)]
        for slot in node["slots"][start : start + per_row]:
            text, style = _cell(slot)
            parts += [Styled(f"{text:^{CELL}}", style), " "]
        lines.append(Line(tuple(parts)))
        lines += _readings(node["slots"][start : start + per_row], " " * len(label))
    return lines


def _readings(slots: Sequence[Mapping[str, Any]], indent: str) -> Lines:
    """Rows with what the GPUs do, below those with the jobs, where the driver knows it."""
    lines = []
    for figure in (_utilisation, _memory, _temperature):
        cells = [figure(slot) for slot in slots]
        if any(cells):
            lines.append(Line((indent, Styled(" ".join(f"{cell:^{CELL}}" for cell in cells), "dim"))))
    return lines


def _utilisation(slot: Mapping[str, Any]) -> str:
    return "" if slot["utilisation"] is None else f"{slot['utilisation']:.0%}"


def _memory(slot: Mapping[str, Any]) -> str:
    used, of = slot["memory_used_bytes"], slot["memory_bytes"]
    return "" if used is None else f"{used / GIB:.0f}/{of / GIB:.0f}G"


def _temperature(slot: Mapping[str, Any]) -> str:
    return "" if slot["temperature_c"] is None else f"{slot['temperature_c']}°C"


def _cell(slot: Mapping[str, Any]) -> tuple[str, str]:
    """The cell of one GPU, with its style: the job that holds it and how many more do, or its state."""
    job, state = slot["job_id"], slot["state"]
    if job is None or state in STATES:
        return STATES.get(state, state)[:CELL], STYLES.get(state, "")
    mark = "~" if state == "saving" else ""
    others = f"+{len(slot['job_ids']) - 1}" if len(slot["job_ids"]) > 1 else ""
    return f"{mark}{job}{others}", STYLES.get(state) or f"reverse {PALETTE[job % len(PALETTE)]}"
