"""The tensors that a reader finds, and how they become a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import ModelProfile, Tensor

MOST_BYTES = 1 << 60
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
"""Tensors of a batch norm that are not sent, by the names that frameworks give them."""


class Found(NamedTuple):
    """One tensor. Tensors of integers (counters, indices) and buffers have no gradient."""

    name: str
    bytes: int
    is_trained: bool


def profile_of(name: str, found: Sequence[Found], place: str, source: str) -> ModelProfile:
    """The profile of the tensors that were found, without a compute time, which is in no file."""
    if not found:
        raise ProfileError(f"{place}: no tensors in it")
    for each in found:
        if each.bytes > MOST_BYTES:
            raise ProfileError(f"{place}: tensor {each.name!r}: a size of {each.bytes:,} bytes is impossible")
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
