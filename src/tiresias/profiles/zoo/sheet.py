"""A sheet on which an architecture is written down layer by layer, in the order of the forward pass.

Rules: tensors and arithmetic gather until `layer` closes them into one Layer. One multiply-add is two
floating-point operations; what costs little (norms, activations, pooling, biases) is not counted.
"""

from __future__ import annotations

from math import prod

from tiresias.profiles.model import Layer, Tensor


class Sheet:
    """What a model turns out to consist of."""

    def __init__(self, element_bytes: int = 4):
        self.element_bytes = element_bytes
        self.tensors: list[Tensor] = []
        self.layers: list[Layer] = []
        self._closed = 0
        self._flops = 0.0

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return sum(each.bytes for each in self.tensors if each.sent != 0) // self.element_bytes

    @property
    def flops(self) -> float:
        """Of one sample, forward."""
        return sum(layer.flops for layer in self.layers)

    def tensor(self, name: str, *shape: int, trained: bool = True, sent: int | None = None) -> None:
        """A tensor; `sent` counts the elements of which an iteration sends gradients, if not all."""
        sent_bytes = 0 if not trained else None if sent is None else sent * self.element_bytes
        self.tensors.append(Tensor(name, prod(shape) * self.element_bytes, sent_bytes))

    def work(self, flops: float) -> None:
        self._flops += flops

    def dense(self, name: str, inputs: int, outputs: int, *, bias: bool = True, times: int = 1) -> None:
        """A matrix, used `times` times for a sample."""
        self.tensor(f"{name}.weight", inputs, outputs)
        if bias:
            self.tensor(f"{name}.bias", outputs)
        self.work(2.0 * inputs * outputs * times)

    def norm(self, name: str, width: int, *, bias: bool = True) -> None:
        """A norm over the features of one sample."""
        self.tensor(f"{name}.weight", width)
        if bias:
            self.tensor(f"{name}.bias", width)

    def layer(self, name: str, kind: str, outputs: int) -> None:
        """Close what was written since the last layer; `outputs` are the elements that leave it."""
        fresh = len(self.tensors) - self._closed
        self.layers.append(Layer(name, kind, fresh, outputs * self.element_bytes, self._flops))
        self._closed = len(self.tensors)
        self._flops = 0.0
