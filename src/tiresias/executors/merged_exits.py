"""From how the parts of a run ended to how the run ended, as an exit record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiresias.executors.base import RunGone, RunSpec, WorkerExit
from tiresias.executors.run_files import SIGNALLED


def failed(gone: RunGone) -> bool:
    """Whether a part has ended in a way that must end the others."""
    return not gone.exits or any(each.status for each in gone.exits)


def merged(spec: RunSpec, gones: Mapping[str, RunGone]) -> dict[str, Any]:
    """The exit record of a run, from the ends of its parts by node, in the order in which they are listed.

    A part whose workers never ran has the exit of each of them say why, if those of another part did run. A
    lost part makes the whole run lost: that its peers then failed is no fault of theirs.
    """
    exits: list[WorkerExit] = []
    first_failed = None
    has_run = any(gone.exits for gone in gones.values())
    for part in spec.parts:
        gone = gones[part.node]
        if first_failed is None and gone.first_failed is not None and not gone.stopped:
            first_failed = len(exits) + gone.first_failed
        missing = WorkerExit(was_signalled=True, error=gone.error or "it was not started")
        exits += gone.exits or ([missing] * part.workers if has_run else [])
    ends = list(gones.values())
    last = max(ends, key=lambda gone: gone.ended_at)
    saved = [gone.files_saved for gone in ends if gone.files_saved is not None]
    own = [gone.own_oom_kills for gone in ends if gone.own_oom_kills is not None]
    over = [gone.over_memory_bytes for gone in ends if gone.over_memory_bytes is not None]
    is_lost = any(gone.lost for gone in ends)
    errors = [gone.error for gone in sorted(ends, key=lambda gone: not gone.lost) if gone.error]
    return {
        "journal": spec.journal,
        "run_id": int(spec.run_id),
        "exits": [
            {"code": e.code, "signal": e.signal, SIGNALLED: e.was_signalled, "error": e.error} for e in exits
        ],
        "stopped": not is_lost and first_failed is None and any(gone.stopped for gone in ends),
        "lost": is_lost,
        "never_begun": all(gone.never_begun for gone in ends),
        "error": errors[0] if errors else "",
        "first_failed": first_failed,
        "killed": any(gone.killed for gone in ends),
        "idle": any(gone.idle for gone in ends),
        "escaped": sum(gone.escaped for gone in ends),
        "files_saved": max(saved) if saved else None,
        "last_saved_at": max(gone.last_saved_at for gone in ends),
        "oom_kills": sum(gone.oom_kills for gone in ends),
        "own_oom_kills": sum(own) if own else None,
        "over_memory_bytes": over[0] if over else None,
        "ended_at": last.ended_at,
        "boot_id": last.boot_id,
        "ended_elapsed_s": last.ended_elapsed_s,
        "unknown_on": [node for gone in ends for node in gone.unknown_on],
    }
