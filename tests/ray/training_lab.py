"""A lab on Ray with trainings that are judged by their steps and by what they write about their slots."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from tiresias.testing.ray_bed import Bed, Box
from tiresias.testing.ray_lab import RayLab

TRAINING = Path(__file__).with_name("training.py")


class TrainingLab(RayLab):
    """The trainings write in `uses` which slots they have."""

    def __init__(self, bed: Bed, top: Path, *, box: Box | None = None):
        super().__init__(bed, top, box=box)
        self.uses = top / "uses"
        self.uses.mkdir()

    def train(self, steps: int, step_s: float, *options: str) -> int:
        training = [sys.executable, str(TRAINING), str(steps), str(step_s), str(self.uses)]
        return self.submit(*options, "--", *training)

    def steps(self, id: int) -> tuple[int, str]:
        """What the training has saved: the number of steps, and the digest over them."""
        state: tuple[int, str] = pickle.loads(
            (self.shared / "jobs" / str(id) / "checkpoint" / "state").read_bytes()
        )
        return state
