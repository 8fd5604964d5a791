"""A training by DistributedDataParallel on CPUs, started by torchrun or as plain workers.

python training_ddp.py STEPS SECONDS_PER_STEP USES

Its state is what training.py saves, so that it is judged by the same digest, and the weights.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from uses import Uses

from tiresias import job

STEPS, STEP_S, USES = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]


def main() -> None:
    torch.set_num_threads(1)
    if "RANK" not in os.environ:  # a plain worker: there is one per node, and it is its rank
        os.environ |= {"RANK": os.environ["TIRESIAS_WORKER"], "WORLD_SIZE": os.environ["TIRESIAS_WORKERS"]}
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local, beside = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    uses = Uses(USES, rank, world, os.environ["TIRESIAS_SLOTS"].split(",")[local::beside])
    path, weights = job.checkpoint_dir / "state", job.checkpoint_dir / "weights"
    steps, value = 0, ""
    torch.manual_seed(1)
    layer = nn.Linear(8, 1)
    if path.exists():
        steps, value = pickle.loads(path.read_bytes())
        layer.load_state_dict(torch.load(weights, weights_only=True))
    first = steps
    distributed.init_process_group("gloo")
    model = DistributedDataParallel(layer)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)

    def save() -> None:
        if rank == 0:
            job.save(weights, lambda file: torch.save(layer.state_dict(), file))
            job.save(path, lambda file: file.write(pickle.dumps((steps, value))))
        distributed.barrier()

    while steps < STEPS:
        stop = torch.tensor([float(job.should_stop())])
        distributed.all_reduce(stop, op=distributed.ReduceOp.MAX)
        if stop.item():
            save()
            uses.ended()
            job.preempted()
        time.sleep(STEP_S)
        optimiser.zero_grad()
        model(torch.ones(4, 8) * (rank + 1)).pow(2).mean().backward()
        optimiser.step()
        steps += 1
        value = hashlib.sha256(f"{value}{steps}".encode()).hexdigest()
        job.report(step=steps, total_steps=STEPS)
        if steps == first + 1:
            uses.stepped()
        if steps % 20 == 0:
            save()
    save()
    uses.ended()
    if rank == 0:
        job.finished(step=steps, total_steps=STEPS)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of gloo may abort a process that ends slowly
