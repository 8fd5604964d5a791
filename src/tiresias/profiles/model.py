"""The profile of a model: its tensors, the compute time of an iteration, the cost of a preemption.

Rules: all values are immutable. Sizes are in bytes, times in seconds. Tensors and layers are in the order of
the forward pass. What is not known is None, never a guess; `source` says where the figures are from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from tiresias.profiles.errors import ProfileError

MIB = 1024 * 1024


class Parallelism(StrEnum):
    """How the workers of a gang keep their copies of the model the same."""

    PS = "ps"  # parameter servers, one beside each worker
    ALLREDUCE = "allreduce"
    SHARDED = "sharded"  # FSDP, ZeRO-3


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor. `sent` is how many bytes of it a worker sends in an iteration, if that is not all of them:
    0 for a tensor without a gradient, the rows of one batch for an embedding with sparse gradients."""

    name: str
    bytes: int
    sent: int | None = None

    @property
    def sent_bytes(self) -> int:
        return self.bytes if self.sent is None else self.sent


@dataclass(frozen=True, slots=True)
class Layer:
    """A step of the forward pass after which exactly one activation crosses to the next one."""

    name: str
    kind: str  # conv, dense, norm, embedding, or block for several that cannot be separated
    tensors: int  # how many tensors of the profile belong to it; they follow those of the layer before
    output_bytes: int  # of one sample
    flops: float  # of one sample, forward


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a hybrid job is cut: all layers from `layer` on are computed by one worker for the whole gang."""

    layer: int
    tensors: int  # how many tensors are ahead of the cut
    activation_bytes: int  # of the batch of one worker, each way
    tail_share: float  # the share of the compute time that is behind the cut


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """A model as the network and the placers see it."""

    name: str
    tensors: tuple[Tensor, ...] = ()
    compute_s: float | None = None  # one iteration on one `gpu`, forward and backward
    gpu: str = ""
    batch: int | None = None  # samples per worker and iteration
    parallelism: Parallelism = Parallelism.ALLREDUCE
    checkpoint_s: float | None = None  # time to save when preempted
    resume_s: float | None = None  # time to load and warm up when run again
    layers: tuple[Layer, ...] = ()
    cut: Cut | None = None
    unseen_bytes: int = 0  # of tensors whose sizes are not known one by one
    source: str = ""
    total_bytes: int = field(init=False, repr=False, compare=False)
    sent_bytes: int = field(init=False, repr=False, compare=False)
    largest: Tensor | None = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check()
        put = object.__setattr__  # derived once because the simulator's inner loop uses them
        put(self, "total_bytes", self.unseen_bytes + sum(each.bytes for each in self.tensors))
        put(self, "sent_bytes", self.unseen_bytes + sum(each.sent_bytes for each in self.tensors))
        put(self, "largest", max(self.tensors, key=lambda each: each.sent_bytes, default=None))
        put(self, "_hash", hash((self.name, self.total_bytes, self.compute_s, self.parallelism, self.cut)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def largest_share(self) -> float | None:
        """The largest tensor's share of all bytes sent; None if the sizes of some tensors are not known."""
        if self.unseen_bytes or self.largest is None or not self.sent_bytes:
            return None
        return self.largest.sent_bytes / self.sent_bytes

    @property
    def skew(self) -> float | None:
        """The figure that the paper compares with PACKLIMIT: the largest tensor's share (its Table 6)."""
        return self.largest_share

    @property
    def preemption_cost_s(self) -> float | None:
        """The time for saving plus that for loading; None unless both are known."""
        if self.checkpoint_s is None or self.resume_s is None:
            return None
        return self.checkpoint_s + self.resume_s

    def layer_bytes(self) -> list[int]:
        """The bytes sent of each layer's parameters."""
        sizes, begin = [], 0
        for layer in self.layers:
            sizes.append(sum(each.sent_bytes for each in self.tensors[begin : begin + layer.tensors]))
            begin += layer.tensors
        return sizes

    def timed(self, compute_s: float, gpu: str = "", batch: int | None = None) -> ModelProfile:
        """The same model with a measured compute time."""
        source = f"{compute_s:g} s per iteration as given"
        return replace(
            self, compute_s=compute_s, gpu=gpu or self.gpu, batch=batch or self.batch, source=source
        )

    def _check(self) -> None:
        """Raise ProfileError for values that would make derived figures meaningless."""
        if not self.tensors and not self.unseen_bytes:
            raise ProfileError(f"{self.name}: a model without tensors")
        for each in self.tensors:
            if each.bytes < 0 or each.sent_bytes < 0:
                raise ProfileError(f"{self.name}: tensor {each.name}: {each.bytes} bytes is below 0")
        if self.unseen_bytes < 0:
            raise ProfileError(f"{self.name}: unseen_bytes {self.unseen_bytes} is below 0")
        for name in ("compute_s", "checkpoint_s", "resume_s"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ProfileError(f"{self.name}: {name} {value} must be a number of seconds, 0 or more")
        if self.compute_s == 0:
            raise ProfileError(f"{self.name}: compute_s is 0; leave it out where it is not known")
        if self.batch is not None and self.batch < 1:
            raise ProfileError(f"{self.name}: batch {self.batch} must be 1 or more")
        if sum(each.tensors for each in self.layers) > len(self.tensors):
            raise ProfileError(f"{self.name}: its layers have more tensors than the model")
