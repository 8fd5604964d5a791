"""A loop of the user's own that logs to Weights & Biases without its server, and saves with the SDK."""

import json
import sys

import pace
import wandb

from tiresias import job

steps, checkpoint = int(sys.argv[1]), job.checkpoint_dir / "step.json"
start = json.loads(checkpoint.read_text()) if checkpoint.exists() else 0
run = wandb.init(project="mine", mode="offline")
print("wandb run", run.id, flush=True)
for step in range(start, steps):
    pace.step()
    run.log({"loss": 1.0 / (step + 1)}, step=step)
    job.report(step=step + 1, total_steps=steps)
    if job.should_stop() and step + 1 < steps:
        wandb.finish()
        job.save(checkpoint, lambda file, done=step + 1: file.write(json.dumps(done).encode()))
        job.preempted()
wandb.finish()
job.finished()
