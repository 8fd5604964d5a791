"""Preemptible trainings with Accelerate, whose loop is the user's own.

preemptible = job.accelerate.Preemptible(accelerator)   # after accelerator.prepare(…)
for step in range(preemptible.resume(), total_steps):
    …
    preemptible.step(step + 1, total_steps)
job.finished()
"""

from __future__ import annotations

from ._loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Preemptible(Loop):
    """Saves by `accelerator.save_state`, loads by `load_state`. The position in the data is the loop's."""

    def __init__(self, accelerator: Any) -> None:
        super().__init__("accelerate", accelerator.save_state, accelerator.load_state, accelerator.device)
