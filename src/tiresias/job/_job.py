"""One training process as Tiresias started it: all that tiresias.job offers, bound to one environment."""

from __future__ import annotations

import os
import sys
import time

from ._reporter import Reporter, complain
from ._stop import Stop

TYPE_CHECKING = False  # typing takes longer to import than all this package
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import NoReturn

PREEMPTED = 75  # EX_TEMPFAIL: "I have saved, run me again"
FINISHED = "finished"
STOP = "stop"
DEFAULT_CHECKPOINTS = "checkpoints"


class Job:
    """The training's side of one run; without TIRESIAS_RUN_DIR it does nothing."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._run_dir = environ.get("TIRESIAS_RUN_DIR", "")
        self._is_ours = bool(self._run_dir)
        self._checkpoint_dir = environ.get("TIRESIAS_CHECKPOINT_DIR", "")
        self.resuming = self._is_ours and environ.get("TIRESIAS_RESUME") == "1"
        self._stop = Stop(os.path.join(self._run_dir, STOP)) if self._is_ours else None
        self._reporter = Reporter(report_file(self._run_dir, environ)) if is_reporting(environ) else None
        self.report = self._reporter.report if self._reporter is not None else report_nothing
        if self._is_ours:
            os.register_at_fork(after_in_child=self._after_fork)

    def should_stop(self) -> bool:
        """True once Tiresias wants the GPUs back: save, then call preempted(). Cheap: ask at every step."""
        return self._stop is not None and self._stop.is_wanted()

    def request_stop(self) -> None:
        """Make should_stop() true; made for signal handlers of your own that replaced ours."""
        if self._stop is not None:
            self._stop.wanted = True

    @property
    def checkpoint_dir(self) -> Path:
        """The directory for checkpoints, the same for all runs of a job; made when first asked for."""
        from pathlib import Path

        path = Path(self._checkpoint_dir or DEFAULT_CHECKPOINTS).absolute()
        path.mkdir(parents=True, exist_ok=True)
        return path

    def finished(self) -> None:
        """Tell that the job's work is complete and saved, whatever signal or exit code comes after this."""
        if self._reporter is not None:
            self._reporter.flush()
        if self._is_ours:
            from ._files import save

            marker = os.path.join(self._run_dir, FINISHED)
            try:
                save(marker, lambda file: file.write(f"{time.time():.3f}\n".encode()))
            except OSError as error:
                complain(f"cannot write {marker}: {error.strerror}")

    def preempted(self) -> NoReturn:
        """End this process with exit code 75, "run me again"; call it when the checkpoint is saved."""
        if self._reporter is not None:
            self._reporter.flush()
        sys.exit(PREEMPTED)

    def shield(self) -> None:
        """Put this process into a group of its own, to which the signal to stop is not sent."""
        if self._is_ours and os.getpgrp() != os.getpid():
            os.setpgid(0, 0)

    def _after_fork(self) -> None:
        """A forked helper is no training: it dies of SIGTERM as it would have and reports nothing of ours."""
        if self._stop is not None:
            self._stop.after_fork()
        if self._reporter is not None:
            self._reporter.after_fork()


def report_nothing(*, step: object = None, total_steps: object = None, **metrics: object) -> None:
    """What report() is outside Tiresias."""


def report_file(run_dir: str, environ: Mapping[str, str]) -> str:
    return os.path.join(run_dir, f"report-{environ.get('TIRESIAS_WORKER') or '0'}.jsonl")


def is_reporting(environ: Mapping[str, str]) -> bool:
    """Under torchrun one process of a worker speaks for all of them."""
    is_second = "TORCHELASTIC_RUN_ID" in environ and environ.get("LOCAL_RANK", "0") != "0"
    return bool(environ.get("TIRESIAS_RUN_DIR")) and not is_second
