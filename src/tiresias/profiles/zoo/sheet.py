"""A Sheet collects the tensors and layers of an architecture, in the order of the forward pass.

Rules: tensors and arithmetic gather until `layer` closes them into one Layer. One multiply-add is two
floating-point operations; what costs little (norms, activations, pooling, biases) is not counted.
"""

from __future__ import annotations

from math import prod

from tiresias.profiles.model import Layer, Tensor


class Sheet:
    """The tensors and layers of a model, written down by the functions of the zoo."""

    def __init__(self, element_bytes: int = 4):
        self.element_bytes = element_bytes
        self.tensors: list[Tensor] = []
        self.layers: list[Layer] = []
        self._closed = 0
        self._flops = 0.0

    @property
    def parameters(self) -> int:
        """How many parameters are trained."""
        return sum(each.bytes for each in self.tensors if each.sent != 0) // self.element_bytes

    @property
    def flops(self) -> float:
        """Floating-point operations of the forward pass of one sample."""
        return sum(layer.flops for layer in self.layers)

    def tensor(self, name: str, *shape: int, trained: bool = True, sent: int | None = None) -> None:
        """Add a tensor; `sent` is the number of elements whose gradients an iteration sends, if not all."""
        sent_bytes = 0 if not trained else None if sent is None else sent * self.element_bytes
        self.tensors.append(Tensor(name, prod(shape) * self.element_bytes, sent_bytes))

    def work(self, flops: float) -> None:
        self._flops += flops

    def dense(self, name: str, inputs: int, outputs: int, *, bias: bool = True, times: int = 1) -> None:
        """Add a matrix that is used `times` times per sample."""
        self.tensor(f"{name}.weight", inputs, outputs)
        if bias:
            self.tensor(f"{name}.bias", outputs)
        self.work(2.0 * inputs * outputs * times)

    def norm(self, name: str, width: int, *, bias: bool = True) -> None:
        """Add a norm over the features of one sample."""
        self.tensor(f"{name}.weight", width)
        if bias:
            self.tensor(f"{name}.bias", width)

    def layer(self, name: str, kind: str, outputs: int) -> None:
        """Make a layer of what was added since the last one; `outputs` is its number of output elements."""
        fresh = len(self.tensors) - self._closed
        self.layers.append(Layer(name, kind, fresh, outputs * self.element_bytes, self._flops))
        self._closed = len(self.tensors)
        self._flops = 0.0
