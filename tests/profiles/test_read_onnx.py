"""ONNX files: initialisers from the wire format, and errors for damaged files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tiresias.profiles import readers
from tiresias.profiles.errors import ProfileError

REAL = Path(__file__).parent / "data/small.onnx"
"""Written by the onnx library: fc.weight 20x30 float, fc.bias 20 float16, shape 2 int64, plain 3 double."""


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name: str, dims: list[int], dtype: int, *, packed: bool = False) -> bytes:
    shape = field(1, b"".join(map(varint, dims))) if packed else b"".join(field(1, each) for each in dims)
    return shape + field(2, dtype) + field(8, name.encode())


def model(*tensors: bytes) -> bytes:
    return field(1, 8) + field(7, b"".join(field(5, each) for each in tensors))


def load(path: Path, data: bytes):
    path.write_bytes(data)
    return readers.load(str(path))


def test_a_real_file_has_its_initialisers():
    profile = readers.load(str(REAL))
    assert {each.name: each.bytes for each in profile.tensors} == {
        "fc.weight": 2400,
        "fc.bias": 40,
        "shape": 16,
        "plain": 24,
    }
    assert profile.sent_bytes == 2464


def test_dimensions_may_be_packed_or_not_and_weights_elsewhere(tmp_path):
    data = model(tensor("a", [300, 7], 1), tensor("b", [300, 7], 16, packed=True), tensor("s", [9], 8))
    profile = load(tmp_path / "m.onnx", data)
    assert [(each.name, each.bytes) for each in profile.tensors] == [("a", 8400), ("b", 4200)]


def test_any_part_of_a_file_is_an_error_or_a_whole_model(tmp_path):
    """What follows the graph may be missing; nothing else may."""
    whole = REAL.read_bytes()
    path = tmp_path / "part.onnx"
    complete = 0
    for length in range(0, len(whole), 7):
        with suppress(ProfileError):
            assert load(path, whole[:length]).sent_bytes == 2464
            complete += 1
    assert complete < 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated: an empty file"),
        (field(1, 8), "no ONNX file: there is no graph in it"),
        (b"\x3a\xff", "truncated: a number is cut off"),
        (b"\xff" * 11, "no ONNX file: a number without end"),
        (b"\x3a\x7f123", ".*: field 7 at byte 2 should have 127 bytes, and 3 are left"),
        (b"\x3b1234", "no ONNX file: field of kind 3"),
        (model(tensor("w", [3], 99)), "initializer 'w': data_type 99 is not known"),
        (model(tensor("w", [1 << 63], 1)), "initializer 'w': dims .* are impossible"),
        (model(tensor("w", [1 << 50, 1 << 50], 1)), "tensor 'w': a size of .* bytes is impossible"),
        (model(), "no tensors in it"),
    ],
)
def test_a_wrong_file_is_an_error(data, message, tmp_path):
    with pytest.raises(ProfileError, match=f"m.onnx: {message}"):
        load(tmp_path / "m.onnx", data)
