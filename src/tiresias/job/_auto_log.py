"""What `--auto` says in the log of a run: once, and not from each of the processes of a gang."""

from __future__ import annotations

import os
import sys


def say(text: str) -> None:
    is_first = os.environ.get("LOCAL_RANK", "0") == "0" and os.environ.get("TIRESIAS_WORKER", "0") == "0"
    if is_first:
        print(f"tiresias: {text}", file=sys.stderr, flush=True)
