"""The implementation of tiresias.job, bound to the environment variables of one training process."""

from __future__ import annotations

import os
import sys
import time

from ._reporter import Reporter, complain
from ._stop import Stop

TYPE_CHECKING = False  # typing takes longer to import than this whole package
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import BinaryIO, NoReturn

PREEMPTED = 75  # EX_TEMPFAIL: the training has saved and wants to run again
FINISHED = "finished"
STOP = "stop"
DEFAULT_CHECKPOINTS = "checkpoints"


class Job:
    """What a training can ask and report during one run; without TIRESIAS_RUN_DIR it does nothing."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._run_dir = environ.get("TIRESIAS_RUN_DIR", "")
        self._is_ours = bool(self._run_dir)
        self._environ = environ
        self._checkpoint_dir = environ.get("TIRESIAS_CHECKPOINT_DIR", "")
        self.resuming = self._is_ours and environ.get("TIRESIAS_RESUME") == "1"
        self._stop = Stop(os.path.join(self._run_dir, STOP)) if self._is_ours else None
        self._reporter = Reporter(report_file(self._run_dir, environ)) if self._is_ours else None
        self.report = self._reporter.report if self._reporter is not None else report_nothing
        if self._is_ours:
            os.register_at_fork(after_in_child=self._after_fork)

    def should_stop(self) -> bool:
        """True when the run must stop: save, then call preempted(). Cheap enough for every step."""
        return self._stop is not None and self._stop.is_wanted()

    def request_stop(self) -> None:
        """Make should_stop() true; for a signal handler that replaces the one of this package."""
        if self._stop is not None:
            self._stop.wanted = True

    @property
    def checkpoint_dir(self) -> Path:
        """The directory for checkpoints, the same for all runs of a job; created on first access."""
        from pathlib import Path

        path = Path(self._checkpoint_dir or DEFAULT_CHECKPOINTS).absolute()
        path.mkdir(parents=True, exist_ok=True)
        return path

    def saved(self, step: object = None) -> None:
        """Report that the state after `step` steps (None: the last that was reported) is saved."""
        if self._reporter is not None:
            self._reporter.saved(step)

    def save(self, path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
        """Call `write` with a new binary file, then replace the file at `path` by it.

        When this returns, the new file is on disk. A process that is killed before leaves the old file as it
        was. If `path` is a symbolic link, the file to which it points is replaced. In the directory for
        checkpoints it is reported as saved. A process of a run that was given up, and whose job runs again
        elsewhere, replaces nothing and ends.
        """
        from ._files import save
        from ._newest import newest

        save(path, write, newest(self._environ))
        if self._checkpoint_dir and is_below(path, self._checkpoint_dir):
            self.saved()

    def finished(self, *, step: object = None, total_steps: object = None) -> None:
        """Declare that the work of the job is complete and saved: it succeeds, however this process ends.

        A training that was asked to stop, and whose last step is not the last of all, is not finished, even
        if its framework has returned from training as usual: then this is preempted(). The steps are those
        that are given here, or else those that were last reported.
        """
        if self._reporter is None or self._stop is None:
            return
        if step is not None or total_steps is not None:
            self.report(step=step, total_steps=total_steps)
        if self._stop.was_wanted() and self._reporter.is_incomplete():
            done, total = self._reporter.steps
            complain(f"the run was asked to stop at step {done} of {total}: it is preempted, not finished")
            self.preempted()
        self._reporter.flush()
        from ._files import save

        marker = os.path.join(self._run_dir, FINISHED)
        try:
            save(marker, lambda file: file.write(f"{time.time():.3f}\n".encode()))
        except OSError as error:
            complain(f"cannot write {marker}: {error.strerror}")

    def preempted(self) -> NoReturn:
        """End this process with exit code 75, so that the job runs again; call it after saving."""
        if self._reporter is not None:
            self._reporter.flush()
        sys.exit(PREEMPTED)

    def shield(self) -> None:
        """Put this process into a process group of its own, to which SIGTERM is not sent."""
        if self._is_ours and os.getpgrp() != os.getpid():
            os.setpgid(0, 0)

    def _after_fork(self) -> None:
        """A forked helper is not the training: restore its SIGTERM handler and drop unwritten reports."""
        if self._stop is not None:
            self._stop.after_fork()
        if self._reporter is not None:
            self._reporter.after_fork()


def is_below(path: str | os.PathLike[str], directory: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(directory) + os.sep)


def report_nothing(*, step: object = None, total_steps: object = None, **metrics: object) -> None:
    """Takes the place of report() outside Tiresias."""


def report_file(run_dir: str, environ: Mapping[str, str]) -> str:
    """Where this process writes its reports; empty under torchrun, except for the one with LOCAL_RANK 0."""
    if "TORCHELASTIC_RUN_ID" in environ and environ.get("LOCAL_RANK", "0") != "0":
        return ""
    return os.path.join(run_dir, f"report-{environ.get('TIRESIAS_WORKER') or '0'}.jsonl")
