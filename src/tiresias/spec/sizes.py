"""Sizes in bytes as people write them."""

from __future__ import annotations

import re

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def read_size(text: str) -> int:
    """The bytes of `500M` or `2G`; ValueError if it is not a size."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?", text.strip().upper())
    if found is None:
        raise ValueError("not a size; write for example 500M or 2G")
    return int(float(found[1]) * UNITS[found[2]])


def written(size: int) -> str:
    """A number of bytes as text."""
    unit = next((unit for unit in "TGMK" if size >= UNITS[unit]), "")
    return f"{size / UNITS[unit]:.1f} {unit}iB" if unit else f"{size} bytes"
