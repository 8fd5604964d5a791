"""What the helpers for loops of the user's own have in common: resume, step, save."""

from __future__ import annotations

import os

from . import preempted, report, saved, should_stop
from ._agreement import Agreement, meet, part
from ._saves import Saves
from ._say import is_first, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

KEPT = 2  # checkpoints


class Loop:
    """Saves by `write(path)` and loads by `read(path)`; both are called by all processes."""

    def __init__(
        self, kind: str, write: Callable[[str], object], read: Callable[[str], object], device: Any = None
    ) -> None:
        self._kind, self._write, self._read = kind, write, read
        self._saves = Saves(os.environ)
        self._agreement = Agreement(should_stop, device)

    def resume(self) -> int:
        """Load the last complete checkpoint of this job; the number of steps that were done, 0 if none."""
        should_stop()  # takes SIGTERM over from here on
        last = self._saves.last(self._kind, 1)
        if last is None:
            return 0
        say(f"resuming from {last['path']}")
        self._read(last["path"])
        return int(last["step"])

    def step(self, step: int, total_steps: int | None = None) -> None:
        """Call it after each step: reports it; if the run must stop, saves and ends the process."""
        report(step=step, total_steps=total_steps)
        is_last = total_steps is not None and step >= total_steps
        if self._agreement.to_stop(step) and not is_last:
            self.save(step)
            say(f"saved at step {step}; the job resumes from there")
            meet()
            part()
            preempted()

    def save(self, step: int) -> None:
        """Save the state after `step` steps, and remove older checkpoints but one."""
        path = f"{self._saves.own(self._kind)}-step{step}"
        self._write(path)
        meet()
        if is_first():
            self._saves.add(self._kind, 1, step, path)
            saved(step)
            import shutil

            for each in self._saves.paths(self._kind, 1)[:-KEPT]:
                shutil.rmtree(each, ignore_errors=True)
