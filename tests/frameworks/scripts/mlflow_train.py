"""A loop of the user's own that logs to MLflow and to TensorBoard and saves with the SDK."""

import sys

import mlflow
import pace
import torch
from torch.utils.tensorboard import SummaryWriter

from tiresias import job

steps, checkpoint = int(sys.argv[1]), job.checkpoint_dir / "step.pt"
start = torch.load(checkpoint) if checkpoint.exists() else 0
writer = SummaryWriter()
with mlflow.start_run(run_name="mine"):
    for step in range(start, steps):
        pace.step()
        mlflow.log_metric("loss", 1.0 / (step + 1), step=step)
        writer.add_scalar("loss", 1.0 / (step + 1), step)
        job.report(step=step + 1, total_steps=steps)
        if job.should_stop() and step + 1 < steps:
            writer.close()
            job.save(checkpoint, lambda file, done=step + 1: torch.save(done, file))
            job.preempted()
writer.close()
job.finished()
