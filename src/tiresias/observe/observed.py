"""The result of an observation: as a value, as JSON, and as the profile of a model."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from typing import Any

from tiresias.observe.gang import Gang
from tiresias.observe.patterns import Pattern, Seen, look
from tiresias.profiles.model import ModelProfile, Parallelism, Tensor


@dataclass(frozen=True, slots=True)
class Observed:
    """One iteration of a training, seen from what its processes sent. Sizes in bytes, times in seconds."""

    command: tuple[str, ...]
    observed_s: float  # from the start of the command to the end of the observation
    processes: int  # that sent something
    iterations: int  # that were seen and are alike
    period_s: float  # of an iteration
    bytes_per_iteration: int  # sent by all processes together
    pattern: Pattern
    workers: int
    servers: int
    messages: tuple[tuple[int, int], ...]  # (size, number per iteration), largest first
    model_bytes: int | None  # None if it cannot be determined
    tensor_bytes: tuple[int, ...]  # largest first; empty if tensors are not visible
    why: str  # a sentence: why tensors are visible, or why not
    notes: tuple[str, ...] = ()

    @property
    def is_skew_visible(self) -> bool:
        return bool(self.tensor_bytes)

    @property
    def skew(self) -> float | None:
        """The largest tensor's share of the model; None if tensors are not visible."""
        return self.tensor_bytes[0] / sum(self.tensor_bytes) if self.tensor_bytes else None

    def as_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        fields = asdict(self) | {"pattern": str(self.pattern), "skew": self.skew}
        fields["messages"] = [{"bytes": size, "per_iteration": times} for size, times in self.messages]
        return fields

    def as_json(self) -> str:
        return json.dumps({"observed": self.as_dict()}, indent=2)

    def profile(self, name: str) -> ModelProfile | None:
        """The profile of the model, for placers and the network model; None if its size is not known.

        It has no compute time, because the period includes the time for sending.
        """
        if not self.model_bytes:
            return None
        tensors = [Tensor(f"tensor-{n}", size) for n, size in enumerate(self.tensor_bytes, start=1)]
        uses_servers = self.pattern is Pattern.SERVERS
        return ModelProfile(
            name=name,
            tensors=tuple(tensors),
            unseen_bytes=0 if tensors else self.model_bytes,
            parallelism=Parallelism.PS if uses_servers else Parallelism.ALLREDUCE,
            source=f"{self.iterations} iterations of `{shlex.join(self.command)}` observed",
        )


def observed(
    gang: Gang, command: tuple[str, ...], observed_s: float, processes: int, notes: tuple[str, ...]
) -> Observed:
    """The iteration of the gang, and what it shows of the model."""
    seen: Seen = look(gang)
    messages: dict[int, int] = {}
    for link in gang.links.values():
        for size, times in link.counts.items():
            messages[size] = messages.get(size, 0) + times
    return Observed(
        command=command,
        observed_s=observed_s,
        processes=processes,
        iterations=gang.iterations,
        period_s=gang.period_s,
        bytes_per_iteration=round(gang.bytes),
        pattern=seen.pattern,
        workers=seen.workers,
        servers=seen.servers,
        messages=tuple(sorted(messages.items(), reverse=True)),
        model_bytes=seen.model_bytes,
        tensor_bytes=seen.tensor_bytes,
        why=seen.why,
        notes=notes,
    )
