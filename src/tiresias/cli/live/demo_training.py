"""The training of `tiresias demo`, in NumPy. It can be stopped at any step and resumes exactly.

    python -m tiresias.cli.live.demo_training STEPS SEED STEP_SECONDS

A linear classifier learns noisy points by stochastic gradient descent. Its checkpoint has everything that the
next step depends on, so its losses are those of an uninterrupted training to the last bit. A step sleeps for
most of its time, as a real one waits for its GPU.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tiresias import job

FEATURES, CLASSES, BATCH = 16, 4, 32
RATE, MOMENTUM = 0.05, 0.9
CHECKPOINT = "training.npz"
SAVE_EVERY = 20  # steps; a kill without warning loses at most these

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass
class Training:
    """Everything that changes from step to step."""

    rng: np.random.Generator
    weights: Array
    velocity: Array
    losses: list[float] = field(default_factory=list)

    @classmethod
    def begin(cls, seed: int) -> Training:
        rng = np.random.default_rng(seed)
        return cls(rng, rng.normal(0, 0.1, (FEATURES, CLASSES)), np.zeros((FEATURES, CLASSES)))

    @classmethod
    def load(cls, path: Path) -> Training:
        with np.load(path) as saved:
            rng = np.random.default_rng()
            rng.bit_generator.state = json.loads(str(saved["rng"]))
            return cls(rng, saved["weights"], saved["velocity"], saved["losses"].tolist())

    def save(self, path: Path) -> None:
        """Write the checkpoint, completely or not at all."""
        rng = np.array(json.dumps(self.rng.bit_generator.state))
        kept = {"weights": self.weights, "velocity": self.velocity, "losses": np.array(self.losses)}
        job.save(path, lambda file: np.savez(file, allow_pickle=False, rng=rng, **kept))

    def step(self) -> None:
        labels = self.rng.integers(CLASSES, size=BATCH)
        points = self.rng.normal(0, 1, (BATCH, FEATURES))
        points[np.arange(BATCH), labels] += 2
        scores = points @ self.weights
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        self.losses.append(float(-np.log(chances[np.arange(BATCH), labels]).mean()))
        chances[np.arange(BATCH), labels] -= 1
        self.velocity = MOMENTUM * self.velocity - RATE * (points.T @ chances) / BATCH
        self.weights = self.weights + self.velocity


def alone(steps: int, seed: int) -> list[float]:
    """The losses of an uninterrupted training."""
    training = Training.begin(seed)
    for _ in range(steps):
        training.step()
    return training.losses


def main(steps: int, seed: int, step_s: float) -> None:
    path = job.checkpoint_dir / CHECKPOINT
    training = Training.load(path) if path.exists() else Training.begin(seed)
    print(f"begins after step {len(training.losses)} of {steps}", flush=True)
    while len(training.losses) < steps:
        if job.should_stop():
            training.save(path)
            print(f"saved after step {len(training.losses)}", flush=True)
            job.preempted()
        training.step()
        time.sleep(step_s)
        job.report(step=len(training.losses), total_steps=steps, loss=training.losses[-1])
        if len(training.losses) % SAVE_EVERY == 0:
            training.save(path)
    training.save(path)
    job.finished()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
