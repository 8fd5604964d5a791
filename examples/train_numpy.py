"""A training in NumPy that can be preempted at any step and continues exactly where it stopped.

    tiresias submit -- python examples/train_numpy.py --steps 2000 --step-seconds 0.01 --out losses.csv

A two-layer network learns to distinguish the arms of a spiral. Its checkpoint contains everything on which
the next step depends: the weights, the moments of Adam, the step, the state of the random generator, and the
order of the samples in this epoch. So the losses are exactly those of a training that was never interrupted.

Each worker of a gang trains a replica of its own and saves it in a file of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tiresias import job

SAMPLES, BATCH, HIDDEN, CLASSES = 512, 32, 32, 3
RATE, BETA1, BETA2, TINY = 0.01, 0.9, 0.999, 1e-8


@dataclass
class Training:
    """Everything that changes from step to step."""

    rng: np.random.Generator
    weights: list[np.ndarray]
    means: list[np.ndarray]
    squares: list[np.ndarray]
    order: np.ndarray
    seed: int
    losses: list[float] = field(default_factory=list)

    @property
    def step(self) -> int:
        """Steps done."""
        return len(self.losses)


def begin(seed: int) -> Training:
    rng = np.random.default_rng(seed)
    shapes = [(2, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
    weights = [rng.normal(0, 0.5, shape) for shape in shapes]
    means, squares = ([np.zeros(shape) for shape in shapes] for _ in range(2))
    return Training(rng, weights, means, squares, rng.permutation(SAMPLES), seed)


def save(training: Training, path: Path) -> None:
    """Replace the checkpoint atomically."""
    arrays = {"seed": np.array(training.seed), "order": training.order, "losses": np.array(training.losses)}
    for name in ("weights", "means", "squares"):
        arrays |= {f"{name}{number}": array for number, array in enumerate(getattr(training, name))}
    arrays["rng"] = np.array(json.dumps(training.rng.bit_generator.state))
    job.save(path, lambda file: np.savez(file, **arrays))


def load(path: Path) -> Training:
    with np.load(path) as arrays:
        rng = np.random.default_rng()
        rng.bit_generator.state = json.loads(str(arrays["rng"]))
        names = ("weights", "means", "squares")
        parts = [[arrays[f"{name}{number}"] for number in range(4)] for name in names]
        return Training(rng, *parts, arrays["order"], int(arrays["seed"]), arrays["losses"].tolist())


def spirals(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on three arms of a spiral, and the arm of each point."""
    rng = np.random.default_rng(seed)
    arms = np.arange(SAMPLES) % CLASSES
    radius = np.linspace(0.1, 1, SAMPLES)
    angle = 4 * radius + arms * 2 * np.pi / CLASSES + rng.normal(0, 0.15, SAMPLES)
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1), arms


def take_step(training: Training, points: np.ndarray, arms: np.ndarray) -> float:
    """Take one step of Adam on the next batch and return its loss."""
    batches = SAMPLES // BATCH
    batch = training.step % batches
    if batch == 0 and training.step:
        training.order = training.rng.permutation(SAMPLES)
    chosen = training.order[batch * BATCH : (batch + 1) * BATCH]
    inputs = points[chosen] + training.rng.normal(0, 0.01, (BATCH, 2))
    loss, gradients = loss_and_gradients(training.weights, inputs, arms[chosen])
    training.losses.append(loss)
    for weight, mean, square, gradient in zip(
        training.weights, training.means, training.squares, gradients, strict=True
    ):
        mean += (1 - BETA1) * (gradient - mean)
        square += (1 - BETA2) * (gradient**2 - square)
        unbiased = mean / (1 - BETA1**training.step)
        weight -= RATE * unbiased / (np.sqrt(square / (1 - BETA2**training.step)) + TINY)
    return loss


def loss_and_gradients(
    weights: list[np.ndarray], inputs: np.ndarray, arms: np.ndarray
) -> tuple[float, list[np.ndarray]]:
    w1, b1, w2, b2 = weights
    hidden = np.tanh(inputs @ w1 + b1)
    scores = hidden @ w2 + b2
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    rows = np.arange(len(arms))
    loss = float(-np.log(chances[rows, arms]).mean())
    chances[rows, arms] -= 1
    chances /= len(arms)
    back = (chances @ w2.T) * (1 - hidden**2)
    return loss, [inputs.T @ back, back.sum(axis=0), hidden.T @ chances, chances.sum(axis=0)]


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1000, help="total number of steps (default %(default)s)")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="sleep so long in every step")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write step,loss to this file at the end")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    worker, workers = int(os.environ.get("TIRESIAS_WORKER", 0)), int(os.environ.get("TIRESIAS_WORKERS", 1))
    checkpoint = job.checkpoint_dir / f"numpy-{worker}.npz"
    training = load(checkpoint) if checkpoint.exists() else begin(options.seed)
    if training.seed != options.seed:
        raise SystemExit(
            f"{checkpoint} was saved with seed {training.seed}, not {options.seed}; remove it to start again"
        )
    points, arms = spirals(options.seed)
    print(f"begins after step {training.step} of {options.steps}", flush=True)

    while training.step < options.steps:
        if job.should_stop():
            save(training, checkpoint)
            print(f"saved after step {training.step}", flush=True)
            job.preempted()
        loss = take_step(training, points, arms)
        time.sleep(options.step_seconds)
        print(f"step {training.step} loss {loss!r}", flush=True)
        job.report(step=training.step, total_steps=options.steps, loss=loss)
        if training.step % options.save_every == 0:
            save(training, checkpoint)

    save(training, checkpoint)
    if options.out and worker == 0:
        curve = "".join(f"{step},{loss!r}\n" for step, loss in enumerate(training.losses, start=1))
        job.save(options.out, lambda file: file.write(f"step,loss\n{curve}".encode()))
    if workers == 1:  # in a gang no worker knows whether the others are done; there the exits count
        job.finished()


if __name__ == "__main__":
    main()
