"""A training on several GPUs (or CPUs) with DistributedDataParallel that can be preempted at any step.

    tiresias submit -g 4 --workers 4 -- python examples/train_torch_ddp.py --steps 2000
    tiresias submit -g 4 -- torchrun --nproc-per-node=4 examples/train_torch_ddp.py --steps 2000

The workers must agree on the step at which they stop, because a worker that continues alone would wait for
ever for the gradients of the others. So in every step they sum up their job.should_stop(). Worker 0 saves for
all; the checkpoint contains the random state of every worker.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tiresias import job

SAMPLES, BATCH, FEATURES = 512, 16, 20


def rank_and_size() -> tuple[int, int]:
    """From torchrun if it started this process, else from Tiresias; (0, 1) outside both."""
    ours = os.environ.get("TIRESIAS_WORKER", "0"), os.environ.get("TIRESIAS_WORKERS", "1")
    return int(os.environ.get("RANK", ours[0])), int(os.environ.get("WORLD_SIZE", ours[1]))


class Training:
    """Everything that changes from step to step, in one of `size` workers."""

    def __init__(self, seed: int, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        torch.manual_seed(seed)  # the same weights in every worker
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        layers = [nn.Linear(FEATURES, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1)]
        self.model = DistributedDataParallel(nn.Sequential(*layers).to(self.device))
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.losses: list[float] = []
        self.inputs, self.targets = dataset(seed)
        self.seed = seed
        torch.manual_seed(seed + 1 + rank)  # different dropout in every worker

    @property
    def step(self) -> int:
        """Steps done."""
        return len(self.losses)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The samples of this worker in the next step."""
        together = BATCH * self.size
        epoch, batch = divmod(self.step, SAMPLES // together)
        random = torch.Generator().manual_seed(self.seed * 10_007 + epoch)
        order = torch.randperm(SAMPLES, generator=random)
        begin = batch * together + self.rank * BATCH
        chosen = order[begin : begin + BATCH]
        return self.inputs[chosen].to(self.device), self.targets[chosen].to(self.device)

    def take_step(self) -> bool:
        """Take one step; True if any worker must stop."""
        inputs, targets = self.batch()
        self.optimiser.zero_grad()
        loss = nn.functional.mse_loss(self.model(inputs), targets)
        loss.backward()
        self.optimiser.step()
        sums = torch.stack([loss.detach().double() / self.size, loss.new_tensor(job.should_stop()).double()])
        dist.all_reduce(sums)
        self.losses.append(sums[0].item())
        return bool(sums[1].item() > 0)

    def save(self, path: Path) -> None:
        """Worker 0 replaces the checkpoint; all workers return when it is saved."""
        mine = torch.cuda.get_rng_state() if self.device.type == "cuda" else torch.get_rng_state()
        randoms: list[Any] = [None] * self.size
        dist.all_gather_object(randoms, mine)
        if self.rank == 0:
            state = {
                "model": self.model.module.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "losses": self.losses,
                "randoms": randoms,
            }
            job.save(path, lambda file: torch.save(state, file))
        dist.barrier()

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.model.module.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.losses = state["losses"]
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["randoms"][self.rank])
        else:
            torch.set_rng_state(state["randoms"][self.rank])


def dataset(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A noisy function of some features."""
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(SAMPLES, FEATURES, generator=random)
    targets = torch.sin(inputs[:, :1]) + 0.5 * inputs[:, 1:2] * inputs[:, 2:3]
    return inputs, targets + 0.05 * torch.randn(SAMPLES, 1, generator=random)


def train(training: Training, checkpoint: Path, options: Any) -> bool:
    """Train until all steps are done (True) or the run must stop (False). Both save the checkpoint."""
    is_first = training.rank == 0
    while training.step < options.steps:
        must_stop = training.take_step()
        time.sleep(options.step_seconds)
        if is_first:
            print(f"step {training.step} loss {training.losses[-1]!r}", flush=True)
            job.report(step=training.step, total_steps=options.steps, loss=training.losses[-1])
        if must_stop and training.step < options.steps:
            training.save(checkpoint)
            return False
        if training.step % options.save_every == 0:
            training.save(checkpoint)
    training.save(checkpoint)
    return True


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1000, help="total number of steps (default %(default)s)")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="sleep so long in every step")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write step,loss to this file at the end")
    return parser.parse_args()


def leave(code: int) -> NoReturn:
    """End at once: threads of gloo outlive their group and can abort an interpreter that shuts down."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def main() -> None:
    options = arguments()
    rank, size = rank_and_size()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    if torch.cuda.is_available():
        torch.cuda.set_device(
            int(os.environ.get("LOCAL_RANK", 0))
        )  # without torchrun each worker sees only its own
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", rank=rank, world_size=size)
    checkpoint = job.checkpoint_dir / "ddp.pt"
    training = Training(options.seed, rank, size)
    if checkpoint.exists():
        training.load(checkpoint)
    if rank == 0:
        print(f"begins after step {training.step} of {options.steps}", flush=True)
    is_done = train(training, checkpoint, options)
    if is_done and rank == 0:
        if options.out:
            curve = "".join(f"{step},{loss!r}\n" for step, loss in enumerate(training.losses, start=1))
            job.save(options.out, lambda file: file.write(f"step,loss\n{curve}".encode()))
        job.finished()
    dist.destroy_process_group()
    if is_done:
        leave(0)
    try:
        job.preempted()
    finally:
        leave(job.PREEMPTED)


if __name__ == "__main__":
    main()
