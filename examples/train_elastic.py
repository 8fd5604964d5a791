"""A training that goes on with another number of workers, and uses each sample exactly as often as it must.

    tiresias submit -g 1..4 --launcher per-gpu -- python examples/train_elastic.py --samples 20000

Three things make that possible. The batch is that of all workers together and does not depend on their
number: each step shares it out anew. The checkpoint counts samples, not steps of a worker. And the order of
the samples follows from the seed and the epoch alone, so any number of workers continues where the last run
was. The workers meet at MASTER_ADDR and MASTER_PORT, and the first one decides for all when to stop.

The model is a straight line through noisy points, so that nothing but NumPy is needed.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import numpy as np

from tiresias import job

POINTS, BATCH, RATE = 480, 48, 0.1
PATIENCE_S = 600.0


@dataclass
class Training:
    """Everything that changes from step to step."""

    line: np.ndarray  # its slope and where it begins
    samples: int  # done by all workers of all runs
    used: np.ndarray  # how often each point has been used


def begin() -> Training:
    return Training(np.zeros(2), 0, np.zeros(POINTS, dtype=int))


def save(training: Training, path: Path) -> None:
    parts = {"line": training.line, "samples": np.array(training.samples), "used": training.used}
    job.save(path, lambda file: np.savez(file, **parts))


def load(path: Path) -> Training:
    with np.load(path) as parts:
        return Training(parts["line"], int(parts["samples"]), parts["used"])


def batch_at(samples: int, total: int, seed: int) -> np.ndarray:
    """The points of the next step: those of the epoch's order from this sample on."""
    epoch, place = divmod(samples, POINTS)
    order = np.random.default_rng([seed, epoch]).permutation(POINTS)
    return order[place : place + min(BATCH, total - samples)]


def share_of(batch: np.ndarray, worker: int, workers: int) -> np.ndarray:
    return batch[worker::workers]


def gradient(line: np.ndarray, points: np.ndarray, seed: int) -> np.ndarray:
    """The sum over these points."""
    rng = np.random.default_rng(seed)
    x, noise = rng.uniform(-1, 1, POINTS), rng.normal(0, 0.1, POINTS)
    y = 3 * x + 1 + noise
    error = line[0] * x[points] + line[1] - y[points]
    return np.array([(error * x[points]).sum(), error.sum()])


def pause(seconds: float) -> None:
    time.sleep(seconds)


def lead(others: list[Connection], workers: int, options: Any, path: Path) -> bool:
    """What the first worker does: it has the state, and adds up what all compute. Whether all is done."""
    training = load(path) if path.exists() else begin()
    print(f"goes on after {training.samples} of {options.samples} samples, {workers} workers", flush=True)
    while training.samples < options.samples and not job.should_stop():
        batch = batch_at(training.samples, options.samples, options.seed)
        for worker, other in enumerate(others, start=1):
            other.send((training.line, share_of(batch, worker, workers)))
        mine = share_of(batch, 0, workers)
        pause(options.sample_seconds * len(mine))
        total = gradient(training.line, mine, options.seed) + sum(other.recv() for other in others)
        training.line = training.line - RATE * total / len(batch)
        training.used[batch] += 1
        training.samples += len(batch)
        job.report(step=training.samples, total_steps=options.samples, workers=workers)
        if training.samples // POINTS > (training.samples - len(batch)) // POINTS:
            save(training, path)
    save(training, path)
    for other in others:
        other.send(None)
    print(f"{training.samples} samples, line {training.line.tolist()}", flush=True)
    return training.samples >= options.samples


def follow(leader: Connection, options: Any) -> None:
    """What the other workers do, until the first one tells them to stop."""
    while (task := leader.recv()) is not None:
        line, mine = task
        pause(options.sample_seconds * len(mine))
        leader.send(gradient(line, mine, options.seed))


def meet(address: tuple[str, int]) -> Connection:
    """Connect to the first worker, which may not listen yet."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Client(address)
        except ConnectionRefusedError:
            if job.should_stop():
                job.preempted()
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=20 * POINTS, help="in all (default %(default)s)")
    parser.add_argument("--sample-seconds", type=float, default=0.0, help="sleep so long for each sample")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    worker, workers = int(os.environ.get("TIRESIAS_WORKER", 0)), int(os.environ.get("TIRESIAS_WORKERS", 1))
    address = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", 29500))
    path = job.checkpoint_dir / "elastic.npz"
    if worker:
        with meet(address) as leader:
            follow(leader, options)
        is_done = path.exists() and load(path).samples >= options.samples
    else:
        with Listener(address, backlog=workers) as listener:
            others = [listener.accept() for _ in range(workers - 1)]
            is_done = lead(others, workers, options, path)
    if not is_done:
        job.preempted()


if __name__ == "__main__":
    main()
