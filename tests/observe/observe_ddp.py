"""A training with DistributedDataParallel of a model large enough to be seen; prints when each step ended."""

from __future__ import annotations

import itertools
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTHS = (1568, 512, 512, 10)
PARAMETER_BYTES = 4 * sum(i * o + o for i, o in itertools.pairwise(WIDTHS))
STEPS = 100


def main() -> None:
    torch.set_num_threads(1)
    rank, size = int(os.environ["TIRESIAS_WORKER"]), int(os.environ["TIRESIAS_WORKERS"])
    dist.init_process_group("gloo", rank=rank, world_size=size)
    layers = [nn.Linear(i, o) for i, o in itertools.pairwise(WIDTHS)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=1)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(STEPS):
        optimiser.zero_grad()
        model(torch.randn(16, WIDTHS[0])).square().mean().backward()
        optimiser.step()
        if rank == 0:
            print(time.perf_counter(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
