"""Safetensors files and folders: sizes from the header, and errors that name file and key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiresias.profiles import readers
from tiresias.profiles.errors import ProfileError

REAL = Path(__file__).parent / "data/small.safetensors"
"""Written by the safetensors library: b 2x3 float32, a 5 float16, i 2 int64."""


def tensor(dtype: str, shape: list[int], begin: int, end: int, **more) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end], **more}


def write(path: Path, header: object, data: int = 0, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + bytes(data))
    return path


def test_a_real_file_is_read_without_its_weights():
    profile = readers.load(str(REAL))
    assert {each.name: each.bytes for each in profile.tensors} == {"b": 24, "a": 10, "i": 16}
    assert profile.sent_bytes == 34  # integers have no gradient
    assert profile.skew == pytest.approx(24 / 34)
    assert profile.name == "small"
    assert profile.compute_s is None


def test_the_weights_need_not_even_be_readable_memory(tmp_path):
    """A terabyte of weights in a sparse file takes no time and no room."""
    path = write(tmp_path / "huge.safetensors", {"w": tensor("BF16", [1 << 20, 1 << 19], 0, 1 << 40)})
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + (1 << 40))
    assert readers.load(str(path)).total_bytes == 1 << 40


def test_a_folder_is_all_files_of_its_index(tmp_path):
    write(tmp_path / "model-1.safetensors", {"a": tensor("F32", [4], 0, 16)}, 16)
    write(tmp_path / "model-2.safetensors", {"b": tensor("F32", [2], 0, 8)}, 8)
    write(tmp_path / "copy.safetensors", {"a": tensor("F32", [4], 0, 16)}, 16)
    index = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert readers.load(str(tmp_path)).total_bytes == 24


def test_a_folder_without_an_index_is_all_its_files(tmp_path):
    write(tmp_path / "one.safetensors", {"a": tensor("F32", [4], 0, 16)}, 16)
    write(tmp_path / "two.safetensors", {"b": tensor("F16", [4], 0, 8), "__metadata__": {"x": "y"}}, 8)
    assert [each.name for each in readers.load(str(tmp_path)).tensors] == ["a", "b"]


GOOD = tensor("F32", [4], 0, 16)
DAMAGED = {
    "empty": (b"", "truncated: 0 bytes, and the length of the header takes 8"),
    "breaks off in the header": (REAL.read_bytes()[:40], "truncated, or no safetensors file: its header"),
    "breaks off in the weights": (REAL.read_bytes()[:-1], "tensor 'a': truncated: data_offsets end at 50"),
    "something else": (b"GIF89a..." * 9, "truncated, or no safetensors file"),
}
WRONG = {
    "not JSON": (b"{nope", "its header is not JSON"),
    "not an object": ([1], "its header is not an object"),
    "a tensor that is none": ({"w": 3}, "tensor 'w': must be an object with the keys dtype, shape"),
    "an unknown key": ({"w": GOOD | {"colour": 1}}, "tensor 'w': unknown key 'colour'"),
    "a missing key": ({"w": {"dtype": "F32", "shape": [4]}}, "tensor 'w': missing key 'data_offsets'"),
    "an unknown type": ({"w": tensor("F99", [4], 0, 16)}, "tensor 'w': dtype 'F99' is not known"),
    "a type that is no text": ({"w": tensor([], [4], 0, 16)}, r"tensor 'w': dtype \[\] is not known"),
    "a negative shape": ({"w": tensor("F32", [-4], 0, 16)}, r"tensor 'w': shape \[-4\] is not a list"),
    "a backward range": ({"w": tensor("F32", [4], 16, 0)}, r"tensor 'w': data_offsets \[16, 0\]"),
    "the wrong number of bytes": ({"w": tensor("F32", [4], 0, 12)}, "takes 16 bytes, not 12"),
    "more than there is": ({"w": tensor("F32", [40], 0, 160)}, "data_offsets end at 160, and 16 bytes are"),
    "no tensors": ({"__metadata__": {}}, "no tensors in it"),
    "nothing to train": ({"w": tensor("I64", [2], 0, 16)}, "none of its 1 tensors can be trained"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_is_an_error_that_names_it(what, tmp_path):
    data, message = DAMAGED[what]
    path = tmp_path / "broken.safetensors"
    path.write_bytes(data)
    with pytest.raises(ProfileError, match=f"broken.safetensors: {message}"):
        readers.load(str(path))


@pytest.mark.parametrize("what", WRONG)
def test_an_error_in_a_header_names_file_and_key(what, tmp_path):
    header, message = WRONG[what]
    path = write(tmp_path / "wrong.safetensors", header, 16)
    with pytest.raises(ProfileError, match=f"wrong.safetensors: .*{message}"):
        readers.load(str(path))


def test_any_part_of_a_file_is_an_error_and_not_a_crash(tmp_path):
    whole = REAL.read_bytes()
    path = tmp_path / "part.safetensors"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ProfileError, match=r"part\.safetensors"):
            readers.load(str(path))


def test_a_folder_with_a_tensor_twice_or_without_any_is_an_error(tmp_path):
    with pytest.raises(ProfileError, match=r"no \.safetensors file in this folder"):
        readers.load(str(tmp_path))
    for name in ("one", "two"):
        write(tmp_path / f"{name}.safetensors", {"w": GOOD}, 16)
    with pytest.raises(ProfileError, match="tensor 'w' is there twice; name a single file"):
        readers.load(str(tmp_path))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{}", "needs the key 'weight_map'"),
        ("[]", "needs the key 'weight_map'"),
        ('{"weight_map": {"w": "gone.safetensors"}}', "names gone.safetensors, which does not exist"),
        ('{"weight_map": {"w": "../w.safetensors"}}', "is not the name of a file beside it"),
        ('{"weight_map": {"w": 3}}', "3 is not the name of a file"),
    ],
)
def test_an_error_in_an_index_names_the_key(index, message, tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ProfileError, match=f"index.json: .*{message}"):
        readers.load(str(tmp_path))
