"""The trainings wait after some steps, as if they took hours. What they have done is in `trained-RANK`."""

import os
import sys
import time
from pathlib import Path


def step():
    rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK", "0")
    with open(f"trained-{rank}", "a") as file:
        file.write(".")
    while os.path.getsize(f"trained-{rank}") >= int(Path("allowed").read_text() or 0):
        time.sleep(0.01)


def leave():
    """End at once: threads of gloo outlive their group and can abort an interpreter that shuts down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
