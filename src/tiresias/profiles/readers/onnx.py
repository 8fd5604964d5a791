"""Reads the initialisers of an ONNX graph from the protobuf wire format; the weights are skipped.

A message is a sequence of fields: a number (field << 3 | kind) and a value, which is a varint (0), 8 bytes
(1), bytes preceded by their length (2) or 4 bytes (5). Only the fields that are needed are parsed:
ModelProto.graph 7, GraphProto.initializer 5, TensorProto dims 1, data_type 2, name 8.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from math import prod
from pathlib import Path

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.readers.found import Found, profile_of

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
GRAPH, INITIALIZER, DIMS, DATA_TYPE, NAME = 7, 5, 1, 2, 8
LONGEST_VARINT = 10

BITS = {
    1: 32,
    2: 8,
    3: 8,
    4: 16,
    5: 16,
    6: 32,
    7: 64,
    9: 8,
    10: 16,
    11: 64,
    12: 32,
    13: 64,
    14: 64,
    15: 128,
    16: 16,
    17: 8,
    18: 8,
    19: 8,
    20: 8,
    21: 4,
    22: 4,
    23: 4,
}
"""Bits per element by TensorProto.DataType; 8, strings, have no fixed size and are not parameters."""
REAL = {1, 10, 11, 14, 15, 16, 17, 18, 19, 20, 23}
STRINGS = 8


class Wire:
    """A part of the file, field by field."""

    def __init__(self, data: mmap.mmap, begin: int, end: int, place: str):
        self.data, self.at, self.end, self.place = data, begin, end, place

    def fields(self) -> Iterator[tuple[int, int, int, int]]:
        """(field, kind, begin, end) of each value; of a varint, begin is the value itself."""
        while self.at < self.end:
            tag = self._varint()
            field, kind = tag >> 3, tag & 7
            if kind == VARINT:
                value = self._varint()
                yield field, kind, value, self.at
                continue
            if kind == BYTES:
                length = self._varint()
            elif kind in (FIXED64, FIXED32):
                length = 8 if kind == FIXED64 else 4
            else:
                raise ProfileError(f"{self.place}: no ONNX file: field of kind {kind} at byte {self.at:,}")
            begin = self.at
            self.at += length
            if self.at > self.end:
                raise ProfileError(
                    f"{self.place}: truncated, or no ONNX file: field {field} at byte {begin:,} should have "
                    f"{length:,} bytes, and {self.end - begin:,} are left"
                )
            yield field, kind, begin, self.at

    def within(self, begin: int, end: int) -> Wire:
        return Wire(self.data, begin, end, self.place)

    def varints(self) -> Iterator[int]:
        """The numbers that are packed in a field."""
        while self.at < self.end:
            yield self._varint()

    def _varint(self) -> int:
        value = 0
        for index in range(LONGEST_VARINT):
            if self.at >= self.end:
                raise ProfileError(f"{self.place}: truncated: a number is cut off at byte {self.at:,}")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise ProfileError(f"{self.place}: no ONNX file: a number without end at byte {self.at:,}")


def read(path: Path) -> ModelProfile:
    size = path.stat().st_size
    if size == 0:
        raise ProfileError(f"{path}: truncated: an empty file")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = _initialisers(Wire(data, 0, size, str(path)))
    return profile_of(path.stem, found, str(path), "ONNX initialisers")


def _initialisers(model: Wire) -> list[Found]:
    found: list[Found] = []
    has_graph = False
    for field, kind, begin, end in model.fields():
        if field != GRAPH or kind != BYTES:
            continue
        has_graph = True
        for inner, inner_kind, inner_begin, inner_end in model.within(begin, end).fields():
            if inner == INITIALIZER and inner_kind == BYTES:
                tensor = _tensor(model.within(inner_begin, inner_end), len(found))
                if tensor is not None:
                    found.append(tensor)
    if not has_graph:
        raise ProfileError(f"{model.place}: no ONNX file: there is no graph in it")
    return found


def _tensor(wire: Wire, number: int) -> Found | None:
    dims: list[int] = []
    dtype, name = 0, f"initializer{number}"
    for field, kind, begin, end in wire.fields():
        if field == DIMS and kind == VARINT:
            dims.append(begin)
        elif field == DIMS and kind == BYTES:
            dims += wire.within(begin, end).varints()
        elif field == DATA_TYPE and kind == VARINT:
            dtype = begin
        elif field == NAME and kind == BYTES:
            name = wire.data[begin:end].decode("utf-8", "replace")
    place = f"{wire.place}: initializer {name!r}"
    if dtype == STRINGS:
        return None
    if dtype not in BITS:
        raise ProfileError(f"{place}: data_type {dtype} is not known")
    if any(each >> 62 for each in dims):
        raise ProfileError(f"{place}: dims {dims} are impossible")
    return Found(name, (prod(dims) * BITS[dtype] + 7) // 8, dtype in REAL)
