"""Convolutions over an image whose size changes from layer to layer.

The conventions are those of TensorFlow's benchmark models, with which the paper's table was measured:
padding is `same` or `valid`, and the mean and variance of a batch norm are separate tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.profiles.zoo.sheet import Sheet


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution: the number of filters and their size."""

    filters: int
    height: int
    width: int
    stride: int = 1
    valid: bool = False


def side(before: int, kernel: int, stride: int, valid: bool) -> int:
    """The length of an edge after a window has passed over it."""
    return -(-(before - kernel + 1 if valid else before) // stride)


class Image:
    """The activation at a point of the network: `channels` of `size` x `size`."""

    def __init__(self, sheet: Sheet, size: int, *, norm: str):
        self.sheet = sheet
        self.channels = 3
        self.size = size
        self.norm = norm  # none (a bias instead), shift (no scale), full

    @property
    def elements(self) -> int:
        return self.channels * self.size * self.size

    def copy(self) -> Image:
        """The same image, for another branch."""
        other = Image(self.sheet, self.size, norm=self.norm)
        other.channels = self.channels
        return other

    def conv(self, name: str, conv: Conv) -> None:
        height, width = conv.height, conv.width
        # A flat window (1x7) with `same` padding keeps both edges; only square ones change the size.
        after = side(self.size, max(height, width), conv.stride, conv.valid)
        sheet = self.sheet
        sheet.tensor(f"{name}.weight", height, width, self.channels, conv.filters)
        if self.norm == "none":
            sheet.tensor(f"{name}.bias", conv.filters)
        else:
            if self.norm == "full":
                sheet.tensor(f"{name}.gamma", conv.filters)
            sheet.tensor(f"{name}.beta", conv.filters)
            sheet.tensor(f"{name}.mean", conv.filters, trained=False)
            sheet.tensor(f"{name}.variance", conv.filters, trained=False)
        sheet.work(2.0 * height * width * self.channels * conv.filters * after * after)
        self.channels, self.size = conv.filters, after

    def pool(self, kernel: int, stride: int, *, valid: bool = False) -> None:
        self.size = side(self.size, kernel, stride, valid)
