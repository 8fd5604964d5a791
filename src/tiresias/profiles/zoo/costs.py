"""The cost of an iteration and of a preemption of the zoo's models, and the source of each figure.

CNNs: images per second on a P100 as TensorFlow published them (May 2017, one GPU of a DGX-1, synthetic data);
models without a published figure get the arithmetic rate of a related model. Checkpoint times are the paper's
(Fig. 4); resume times are read by eye from its Fig. 5, for several workers.
Others: the arithmetic at a stated share of an A100's peak, or the time to launch the kernels of each tensor
if that is more; and a checkpoint of weights and two moments at the bandwidth of the paper's file system.
These are estimates, and their `source` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

BACKWARD = 2.0
"""The arithmetic of the backward pass relative to the forward pass."""
A100_FLOPS = 312e12
UTILISATION = 0.4
LAUNCH_S = 30e-6
"""Time to launch the few kernels, forward and backward, that work on a tensor."""
STORE_BPS = 1.2e9
STATE_BYTES = 12
"""Bytes of a parameter in a checkpoint: itself and two moments, 4 bytes each."""


@dataclass(frozen=True, slots=True)
class Published:
    """Images per second of one GPU at a batch size."""

    images_per_s: float
    batch: int


P100 = {
    "alexnet": Published(2987, 512),
    "vgg16": Published(144, 32),
    "resnet50": Published(195, 32),
    "resnet152": Published(82.7, 32),
    "inception3": Published(128, 32),
}
RELATIVES = {
    "vgg11": ("vgg16",),
    "vgg19": ("vgg16",),
    "resnet101": ("resnet50", "resnet152"),
    "inception4": ("inception3",),
    "googlenet": ("inception3",),
}
CHECKPOINT_S = {
    "vgg19": 2.7,
    "vgg16": 2.3,
    "vgg11": 1.9,
    "alexnet": 1.3,
    "resnet152": 26.3,
    "resnet101": 17.8,
    "resnet50": 9.4,
    "inception4": 22.2,
    "inception3": 14.1,
    "googlenet": 5.7,
}
RESUME_S = {
    "vgg19": 49.0,
    "vgg16": 45.0,
    "vgg11": 42.0,
    "alexnet": 38.0,
    "resnet152": 66.0,
    "resnet101": 45.0,
    "resnet50": 25.0,
    "inception4": 60.0,
    "inception3": 38.0,
    "googlenet": 16.0,
}


def estimated_s(flops: float, tensors: int, batch: int) -> float:
    """Seconds for the forward and backward pass of a batch on an A100."""
    return max(flops * (1 + BACKWARD) * batch / (A100_FLOPS * UTILISATION), tensors * LAUNCH_S)


def estimated_checkpoint_s(parameters: int) -> float:
    return parameters * STATE_BYTES / STORE_BPS
