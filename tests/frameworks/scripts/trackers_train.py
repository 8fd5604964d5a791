"""A loop of the user's own that continues its curves by hand, as the how-to says: without `--auto`."""

import json
import os
import sys

import pace
import wandb
from torch.utils.tensorboard import SummaryWriter

from tiresias import job

steps, checkpoint = int(sys.argv[1]), job.checkpoint_dir / "step.json"
start = json.loads(checkpoint.read_text()) if checkpoint.exists() else 0
run = wandb.init(
    project="mine", mode="offline", id=f"tiresias-{os.environ['TIRESIAS_JOB_KEY']}", resume="allow"
)
writer = SummaryWriter(log_dir=job.checkpoint_dir / "tensorboard")
print("wandb run", run.id, flush=True)
for step in range(start, steps):
    pace.step()
    run.log({"loss": 1.0 / (step + 1)}, step=step)
    writer.add_scalar("loss", 1.0 / (step + 1), step)
    job.report(step=step + 1, total_steps=steps)
    if job.should_stop() and step + 1 < steps:
        writer.close()
        wandb.finish()
        job.save(checkpoint, lambda file, done=step + 1: file.write(json.dumps(done).encode()))
        job.preempted()
writer.close()
wandb.finish()
job.finished()
