"""A loop of the user's own under torchrun, whose state is saved with torch.distributed.checkpoint."""

import sys

import pace
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from tiresias import job

steps = int(sys.argv[1])
torch.manual_seed(0)
distributed.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
model(torch.zeros(1, 4)).sum().backward()
optimizer.step()  # so that the optimizer has its state, into which a checkpoint is loaded


def state():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def loaded(state):
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


preemptible = job.dcp.Preemptible(state, loaded)
for step in range(preemptible.resume(), steps):
    pace.step()
    points = torch.randn(4, 4, generator=torch.Generator().manual_seed(2 * step + distributed.get_rank()))
    loss = (model(points) - points.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    preemptible.step(step + 1, steps)
if distributed.get_rank() == 0:
    torch.save(model.state_dict(), "final.pt")
    job.finished()
distributed.destroy_process_group()
pace.leave()
