"""What training code imports: it says when to stop and where to save, and takes progress reports.

    from tiresias import job

    for step in range(start, total):
        if job.should_stop():
            save(job.checkpoint_dir / "model.npz")
            job.preempted()
        train(step)
        job.report(step=step + 1, total_steps=total, loss=loss)
    job.finished()

Rules:
 1. Outside Tiresias (no TIRESIAS_RUN_DIR) it installs no handler and writes no file; should_stop() is False.
 2. The import loads no module that a bare interpreter has not loaded already; others are imported when used.
 3. A training never fails because a progress report could not be written.
"""

from __future__ import annotations

import os

from ._job import PREEMPTED, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from . import accelerate, dcp, hf, lightning

    checkpoint_dir: Path

FRAMEWORKS = ("accelerate", "dcp", "hf", "lightning")  # modules that are imported when they are first used

__all__ = [
    "PREEMPTED",
    "accelerate",
    "checkpoint_dir",
    "dcp",
    "finished",
    "hf",
    "lightning",
    "preempted",
    "report",
    "request_stop",
    "resuming",
    "save",
    "saved",
    "shield",
    "should_stop",
]

_job = Job(os.environ)
resuming = _job.resuming
should_stop = _job.should_stop
request_stop = _job.request_stop
report = _job.report
save = _job.save
saved = _job.saved
finished = _job.finished
preempted = _job.preempted


def shield(_worker_id: int = 0) -> None:
    """Protect a helper process, such as a data loader, from SIGTERM. The helper calls it when it starts.

    SIGTERM is sent to the whole process group of the training. A data loader that it ends makes the training
    fail before it has saved. In a process group of its own the helper runs until the training ends it. This
    is a plain function, so that it can be pickled for a process that is not forked.
    """
    _job.shield()


def __getattr__(name: str) -> object:
    if name == "checkpoint_dir":
        return _job.checkpoint_dir
    if name in FRAMEWORKS:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
