"""Results as HTML tables, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiresias.sim.result import Result

COLUMNS = (
    ("average JCT", "avg_jct_s"),
    ("median JCT", "p50_jct_s"),
    ("p95 JCT", "p95_jct_s"),
    ("average wait", "avg_wait_s"),
)


def table(results: Sequence[Result], failed: Mapping[str, str] | None = None) -> str:
    """One row per result, and a line for each simulation that failed."""
    heads = ["policy", "placer", "jobs", *(f"{title}, s" for title, _ in COLUMNS), "preemptions"]
    lines = ["<table><thead><tr>", *(f"<th>{escape(head)}</th>" for head in heads), "</tr></thead><tbody>"]
    for result in results:
        of = result.summary()
        times = ["" if of[name] is None else f"{of[name]:,.0f}" for _, name in COLUMNS]
        cells = [result.policy, result.placer, f"{of['jobs']:,}", *times, f"{of['preemptions']:,}"]
        lines += ["<tr>", *(f"<td>{escape(cell)}</td>" for cell in cells), "</tr>"]
    lines.append("</tbody></table>")
    lines += [f"<p>{escape(name)}: {escape(message)}</p>" for name, message in (failed or {}).items()]
    return "".join(lines)
