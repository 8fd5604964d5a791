"""Preemptible trainings whose state is saved with torch.distributed.checkpoint, by any number of processes.

state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), …}
preemptible = job.dcp.Preemptible(lambda: state)
for step in range(preemptible.resume(), total_steps):
    …
    preemptible.step(step + 1, total_steps)
job.finished()
"""

from __future__ import annotations

from ._loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Preemptible(Loop):
    """`state()` returns what to save. It is loaded in place, as torch.distributed.checkpoint does, and then
    `loaded(state)` is called, for what must be put back by hand.
    """

    def __init__(
        self,
        state: Callable[[], dict[str, Any]],
        loaded: Callable[[dict[str, Any]], object] | None = None,
        device: Any = None,
    ) -> None:
        self._state, self._loaded = state, loaded
        super().__init__("dcp", self._save, self._load, device)

    def _save(self, path: str) -> None:
        from torch.distributed import checkpoint

        checkpoint.save(self._state(), checkpoint_id=path)

    def _load(self, path: str) -> None:
        from torch.distributed import checkpoint

        state = self._state()
        checkpoint.load(state, checkpoint_id=path)
        if self._loaded is not None:
            self._loaded(state)
