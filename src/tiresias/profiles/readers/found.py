"""What a reader finds: tensors by name, and how they become a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import ModelProfile, Tensor

MOST_BYTES = 1 << 60
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
"""What a batch norm keeps and nobody sends, by the names that frameworks give it."""


class Found(NamedTuple):
    """One tensor. What is not of real numbers (counters, indices) gets no gradient, nor do buffers."""

    name: str
    bytes: int
    is_trained: bool


def profile_of(name: str, found: Sequence[Found], place: str, source: str) -> ModelProfile:
    """The profile of what was found; how long an iteration takes no file tells."""
    if not found:
        raise ProfileError(f"{place}: no tensors in it")
    for each in found:
        if each.bytes > MOST_BYTES:
            raise ProfileError(f"{place}: tensor {each.name!r}: a shape of {each.bytes:,} bytes cannot be")
    seen: set[str] = set()
    for each in found:
        if each.name in seen:
            raise ProfileError(f"{place}: tensor {each.name!r} is there twice; name a single file")
        seen.add(each.name)
    if not any(each.is_trained and each.bytes for each in found):
        raise ProfileError(f"{place}: none of its {len(found)} tensors can be trained")
    tensors = tuple(
        Tensor(each.name, each.bytes, None if each.is_trained and not each.name.endswith(BUFFERS) else 0)
        for each in found
    )
    return ModelProfile(name=name, tensors=tensors, source=source)
