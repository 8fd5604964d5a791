"""Sizes that are given to a command."""

from __future__ import annotations

from tiresias.cli.errors import Stop
from tiresias.spec.sizes import read_size, written

__all__ = ["parse_size", "written"]


def parse_size(text: str, what: str) -> int:
    """The bytes of `500M` or `2G`."""
    try:
        return read_size(text)
    except ValueError as error:
        raise Stop(f"{what} {text!r}: {error}") from None
