"""A training in PyTorch that can be preempted at any step and continues exactly where it stopped.

    tiresias submit -g 1 -- python examples/train_torch.py --steps 2000 --loader-workers 2

It is exact because the checkpoint contains the model, the optimiser, the schedule, the step and the state of
the random generators (which dropout uses). The order of the samples follows from the seed and the step alone,
so that a data loader can start in the middle of an epoch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tiresias import job

SAMPLES, BATCH, FEATURES = 512, 32, 20


class Batches:
    """The samples of each step from `begin` on; every epoch has its own order."""

    def __init__(self, seed: int, begin: int, end: int) -> None:
        self.seed, self.begin, self.end = seed, begin, end

    def __len__(self) -> int:
        return self.end - self.begin

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self.begin, self.end):
            epoch, batch = divmod(step, SAMPLES // BATCH)
            random = torch.Generator().manual_seed(self.seed * 10_007 + epoch)
            order = torch.randperm(SAMPLES, generator=random)
            yield order[batch * BATCH : (batch + 1) * BATCH].tolist()


class Training:
    """Everything that changes from step to step."""

    def __init__(self, seed: int, steps: int) -> None:
        torch.manual_seed(seed)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        layers = [nn.Linear(FEATURES, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1)]
        self.model = nn.Sequential(*layers).to(self.device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, T_max=steps)
        self.losses: list[float] = []

    @property
    def step(self) -> int:
        """Steps done."""
        return len(self.losses)

    def take_step(self, inputs: torch.Tensor, targets: torch.Tensor) -> float:
        self.optimiser.zero_grad()
        loss = nn.functional.mse_loss(self.model(inputs.to(self.device)), targets.to(self.device))
        loss.backward()
        self.optimiser.step()
        self.schedule.step()
        self.losses.append(loss.item())
        return self.losses[-1]

    def save(self, path: Path) -> None:
        """Replace the checkpoint atomically."""
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            "losses": self.losses,
            "random": torch.get_rng_state(),
            "cuda_random": torch.cuda.get_rng_state_all() if self.device.type == "cuda" else [],
        }
        job.save(path, lambda file: torch.save(state, file))

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        self.losses = state["losses"]
        torch.set_rng_state(state["random"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state_all(state["cuda_random"])


def dataset(seed: int) -> TensorDataset:
    """A noisy function of some features."""
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(SAMPLES, FEATURES, generator=random)
    targets = torch.sin(inputs[:, :1]) + 0.5 * inputs[:, 1:2] * inputs[:, 2:3]
    return TensorDataset(inputs, targets + 0.05 * torch.randn(SAMPLES, 1, generator=random))


def loader(seed: int, begin: int, end: int, workers: int) -> DataLoader[Any]:
    """A loader whose processes do not get SIGTERM (`job.shield`), which would end them before we save."""
    return DataLoader(
        dataset(seed),
        batch_sampler=Batches(seed, begin, end),
        num_workers=workers,
        worker_init_fn=job.shield,
        generator=torch.Generator().manual_seed(seed),  # otherwise it uses the generator of dropout
    )


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1000, help="total number of steps (default %(default)s)")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="sleep so long in every step")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS", help="default %(default)s")
    parser.add_argument("--loader-workers", type=int, default=0, help="number of processes that load data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write step,loss to this file at the end")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    checkpoint = job.checkpoint_dir / "torch.pt"
    training = Training(options.seed, options.steps)
    if checkpoint.exists():
        training.load(checkpoint)
    print(f"begins after step {training.step} of {options.steps}", flush=True)

    for inputs, targets in loader(options.seed, training.step, options.steps, options.loader_workers):
        if job.should_stop():
            training.save(checkpoint)
            print(f"saved after step {training.step}", flush=True)
            job.preempted()
        loss = training.take_step(inputs, targets)
        time.sleep(options.step_seconds)
        print(f"step {training.step} loss {loss!r}", flush=True)
        job.report(step=training.step, total_steps=options.steps, loss=loss)
        if training.step % options.save_every == 0:
            training.save(checkpoint)

    training.save(checkpoint)
    if options.out:
        curve = "".join(f"{step},{loss!r}\n" for step, loss in enumerate(training.losses, start=1))
        job.save(options.out, lambda file: file.write(f"step,loss\n{curve}".encode()))
    job.finished()


if __name__ == "__main__":
    main()
