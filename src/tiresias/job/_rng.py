"""The state of all random generators of a training process."""

from __future__ import annotations

import random
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def state() -> dict[str, Any]:
    """Those of Python, NumPy and PyTorch, as far as they are in use."""
    import torch

    numpy: Any = sys.modules.get("numpy")
    return {
        "python": random.getstate(),
        "numpy": None if numpy is None else numpy.random.get_state(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore(state: dict[str, Any]) -> None:
    import torch

    random.setstate(state["python"])
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and state["numpy"] is not None:
        numpy.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


def of_loaders(loaders: list[Any]) -> list[Any]:
    """The states of the generators that data loaders and their samplers have of their own."""
    return [None if each is None else each.get_state() for each in generators(loaders)]


def restore_loaders(loaders: list[Any], states: list[Any]) -> None:
    found = generators(loaders)
    if len(found) == len(states):
        for index, generator in enumerate(found):
            if generator is not None and states[index] is not None:
                generator.set_state(states[index])


def generators(loaders: list[Any]) -> list[Any]:
    owners = [owner for loader in loaders for owner in (loader, getattr(loader, "sampler", None))]
    return [getattr(owner, "generator", None) for owner in owners]
