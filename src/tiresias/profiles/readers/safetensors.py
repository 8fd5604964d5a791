"""Reads safetensors: eight bytes of length, a header in JSON, then the weights, which are not read.

Accepts a file, or a folder with an index or with the files of one model. Everything is checked against the
size of the file, so that an incomplete download is detected.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.readers.found import Found, profile_of

LARGEST_HEADER = 100_000_000
INDEX = "model.safetensors.index.json"
BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "U16": 16,
    "I16": 16,
    "U32": 32,
    "I32": 32,
    "U64": 64,
    "I64": 64,
    "F16": 16,
    "BF16": 16,
    "F32": 32,
    "F64": 64,
    "C64": 64,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
}
REAL = ("F", "B", "C")
KEYS = ("dtype", "shape", "data_offsets")


def read(path: Path) -> ModelProfile:
    """The profile of a file or a folder."""
    files = _files(path) if path.is_dir() else [path]
    found = [each for file in files for each in header(file)]
    many = f" ({len(files)} files)" if len(files) > 1 else ""
    return profile_of(path.name.removesuffix(".safetensors"), found, str(path), f"safetensors{many}")


def _files(folder: Path) -> list[Path]:
    index = folder / INDEX
    if not index.exists():
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ProfileError(f"{folder}: no .safetensors file in this folder")
        return files
    try:
        weights = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted(set(weights.values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProfileError(f"{index}: needs the key 'weight_map', from tensor to file") from None
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise ProfileError(f"{index}: weight_map: {name!r} is not the name of a file beside it")
        if not (folder / name).exists():
            raise ProfileError(f"{index}: weight_map names {name}, which does not exist")
    return [folder / name for name in names]


def header(path: Path) -> list[Found]:
    """The tensors of a file, in the order of their data."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(8)
        if len(begin) < 8:
            raise ProfileError(f"{path}: truncated: {size} bytes, and the length of the header takes 8")
        length = int.from_bytes(begin, "little")
        if length > min(LARGEST_HEADER, size - 8):
            raise ProfileError(
                f"{path}: truncated, or no safetensors file: its header should have {length:,} bytes, "
                f"and {size - 8:,} are left"
            )
        text = file.read(length)
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{path}: no safetensors file: its header is not JSON ({error})") from None
    if not isinstance(tree, dict):
        raise ProfileError(f"{path}: no safetensors file: its header is not an object")
    data = size - 8 - length
    entries = [(name, item) for name, item in tree.items() if name != "__metadata__"]
    placed = [_entry(path, name, item, data) for name, item in entries]
    return [found for _, found in sorted(placed, key=lambda each: each[0])]


def _entry(path: Path, name: str, item: Any, data: int) -> tuple[int, Found]:
    """Where its data begins, and the tensor."""
    place = f"{path}: tensor {name!r}"
    if not isinstance(item, dict):
        raise ProfileError(f"{place}: must be an object with the keys {', '.join(KEYS)}")
    for key in item:
        if key not in KEYS:
            raise ProfileError(f"{place}: unknown key {key!r}; known keys: {', '.join(KEYS)}")
    for key in KEYS:
        if key not in item:
            raise ProfileError(f"{place}: missing key {key!r}")
    dtype, shape, offsets = item["dtype"], item["shape"], item["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ProfileError(f"{place}: dtype {dtype!r} is not known; known: {', '.join(BITS)}")
    if not _are_counts(shape):
        raise ProfileError(f"{place}: shape {shape!r} is not a list of whole numbers")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ProfileError(f"{place}: data_offsets {offsets!r} are not a begin and an end")
    begin, end = offsets
    if end > data:
        raise ProfileError(f"{place}: truncated: data_offsets end at {end:,}, and {data:,} bytes are there")
    wanted = (prod(shape) * BITS[dtype] + 7) // 8
    if wanted != end - begin:
        raise ProfileError(f"{place}: {dtype} of shape {shape} takes {wanted:,} bytes, not {end - begin:,}")
    return begin, Found(name, end - begin, dtype.startswith(REAL) and dtype != "BOOL")


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)
