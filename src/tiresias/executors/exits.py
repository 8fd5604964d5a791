"""From the exit record of a run (`exit.json`) to the `RunGone` that the manager gets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiresias.executors.base import RunGone, RunSpec, WorkerExit
from tiresias.executors.kernel import KERNEL, SHORTAGES
from tiresias.executors.run_files import SIGNALLED

if TYPE_CHECKING:
    from tiresias.executors.kernel import Kernel

TAIL_BYTES = 65536  # torchrun adds 40 lines to the tracebacks of all its workers
TAIL_LINES = 500


def run_gone(spec: RunSpec, record: Mapping[str, Any], kernel: Kernel = KERNEL) -> RunGone:
    """The end of a run as its exit record states it. A damaged record counts as a lost run."""
    if "run_id" not in record:
        return RunGone(spec.run_id, lost=True, error=f"the exit record in {spec.part_dir} is damaged")
    exits = tuple(_worker_exit(each) for each in record.get("exits", ()))
    failed = record.get("first_failed")
    error = record.get("error", "")
    if not error and failed is not None:
        error = exits[failed].error
    part = spec.part
    first_worker = 0 if part is None else part.first_worker
    return RunGone(
        spec.run_id,
        exits=exits,
        stopped=record.get("stopped", False),
        lost=record.get("lost", False),
        never_begun=record.get("never_begun", False),
        error=error,
        first_failed=failed,
        tail=tail(spec.log(first_worker + (failed or 0)), kernel=kernel),
        oom_kills=record.get("oom_kills", 0),
        own_oom_kills=record.get("own_oom_kills"),
        over_memory_bytes=record.get("over_memory_bytes"),
        killed=record.get("killed", False),
        idle=record.get("idle", False),
        escaped=record.get("escaped", 0),
        ended_at=record.get("ended_at", 0.0),
        boot_id=record.get("boot_id", ""),
        ended_elapsed_s=record.get("ended_elapsed_s", 0.0),
        files_saved=record.get("files_saved"),
        last_saved_at=record.get("last_saved_at", 0.0),
        unknown_on=tuple(record.get("unknown_on", ())),
    )


def _worker_exit(record: Mapping[str, Any]) -> WorkerExit:
    return WorkerExit(
        code=record.get("code"),
        signal=record.get("signal"),
        was_signalled=record.get(SIGNALLED, False),
        error=record.get("error", ""),
    )


def tail(path: Path, lines: int = TAIL_LINES, kernel: Kernel = KERNEL) -> str:
    """The last lines of a file; empty if it cannot be read. OSError if the machine cannot open it now."""
    try:
        fd = kernel.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            kernel.lseek(fd, max(0, kernel.lseek(fd, 0, os.SEEK_END) - TAIL_BYTES), os.SEEK_SET)
            text = kernel.read(fd, TAIL_BYTES).decode(errors="replace")
        finally:
            kernel.close(fd)
    except OSError as error:
        if error.errno in SHORTAGES:  # without its output the cause of a failure would be another one
            raise
        return ""
    return "\n".join(text.splitlines()[-lines:])
