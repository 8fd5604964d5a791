"""What training code imports: when to stop, where to save, how far it is.

    from tiresias import job

    for step in range(start, total):
        if job.should_stop():
            save(job.checkpoint_dir / "model.npz")
            job.preempted()
        train(step)
        job.report(step=step + 1, total_steps=total, loss=loss)
    job.finished()

Rules:
 1. Outside Tiresias (no TIRESIAS_RUN_DIR) nothing happens: no handler, no file, should_stop() is False.
 2. Nothing is imported here that a bare interpreter has not loaded already; the rest is imported when used.
 3. A training never fails because its progress could not be written.
"""

from __future__ import annotations

import os

from ._files import save
from ._job import PREEMPTED, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    checkpoint_dir: Path

__all__ = [
    "PREEMPTED",
    "checkpoint_dir",
    "finished",
    "preempted",
    "report",
    "request_stop",
    "resuming",
    "save",
    "shield",
    "should_stop",
]

_job = Job(os.environ)
resuming = _job.resuming
should_stop = _job.should_stop
request_stop = _job.request_stop
report = _job.report
finished = _job.finished
preempted = _job.preempted


def shield(_worker_id: int = 0) -> None:
    """Keep the signal to stop from a helper process (a data loader), which calls this when it starts.

    SIGTERM goes to the training's whole process group. A data loader that dies of it makes the training fail
    before it has saved. In a group of its own it lives until the training ends it. A plain function, so that
    it can be sent to a process that is not forked.
    """
    _job.shield()


def __getattr__(name: str) -> object:
    if name == "checkpoint_dir":
        return _job.checkpoint_dir
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
