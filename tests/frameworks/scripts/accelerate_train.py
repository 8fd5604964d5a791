"""A loop of the user's own with Accelerate."""

import sys

import pace
import torch
from accelerate import Accelerator

from tiresias import job

steps = int(sys.argv[1])
torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=1e-2))
preemptible = job.accelerate.Preemptible(accelerator)
for step in range(preemptible.resume(), steps):
    pace.step()
    points = torch.randn(4, 4, generator=torch.Generator().manual_seed(step))
    loss = (model(points) - points.sum(1, keepdim=True)).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    preemptible.step(step + 1, steps)
job.finished()
torch.save(accelerator.unwrap_model(model).state_dict(), "final.pt")
