"""All processes of a training stop after the same step: a process that went on alone would wait for ever."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

EVERY_S = 0.2  # the processes ask each other about so often, because it makes a GPU wait
MOST_STEPS = 10


class Agreement:
    """Whether to stop after a step. Every process asks after the same steps."""

    def __init__(self, wanted: Callable[[], bool], device: Any = None) -> None:
        self._wanted, self._device = wanted, device
        self._asked = self._next = -1
        self._at = 0.0

    def to_stop(self, step: int) -> bool:
        if not is_distributed():
            return self._wanted()
        if step < self._next:
            return False
        return self._ask(step)

    def _ask(self, step: int) -> bool:
        import torch
        from torch import distributed

        now = time.monotonic()
        per_s = (step - self._asked) / max(now - self._at, 1e-6) if self._asked >= 0 else 0.0
        steps = min(MOST_STEPS, max(1, int(per_s * EVERY_S)))
        # The greatest wish to stop, and the smallest number of steps: the same in all processes.
        both = torch.tensor([float(self._wanted()), -float(steps)], device=self._device)
        distributed.all_reduce(both, op=distributed.ReduceOp.MAX)
        stop, fewest = both.tolist()
        self._asked, self._at, self._next = step, now, step - int(fewest)
        return bool(stop > 0)


def is_distributed() -> bool:
    import sys

    distributed: Any = sys.modules.get("torch.distributed")
    return bool(
        distributed
        and distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def meet() -> None:
    """Wait until all processes are here."""
    if is_distributed():
        from torch import distributed

        distributed.barrier()


def part() -> None:
    """Leave the group of processes, before this one ends."""
    if is_distributed():
        from torch import distributed

        distributed.destroy_process_group()
