"""What the SDK says in the log of a run: not once per process of a gang."""

from __future__ import annotations

import os
import sys


def is_first() -> bool:
    """Whether this is the first process of its gang."""
    ranks = ("RANK", "LOCAL_RANK", "TIRESIAS_WORKER")
    return all(os.environ.get(name, "0") == "0" for name in ranks)


def say(text: str) -> None:
    if is_first():
        print(f"tiresias: {text}", file=sys.stderr, flush=True)
