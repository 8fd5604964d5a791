"""Reads PyTorch checkpoints: a zip with a pickle of shapes, and with the weights, which are not read.

No code of the file is ever run: the unpickler finds none of the classes and functions that the pickle names.
Tensors become stubs with a size; everything else becomes an `Opaque`, which only stores its arguments.
"""

from __future__ import annotations

import io
import pickle
import zipfile
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.readers.found import Found, profile_of

LARGEST_PICKLE = 256 * 1024 * 1024
DEEPEST = 100
MODEL_KEYS = ("state_dict", "model_state_dict", "model", "module", "net", "network")
"""Under which keys training programs store the model in their checkpoints, the most usual first."""
SIZES = {
    "double": (8, True),
    "float": (4, True),
    "half": (2, True),
    "bfloat16": (2, True),
    "complexdouble": (16, True),
    "complexfloat": (8, True),
    "long": (8, False),
    "int": (4, False),
    "short": (2, False),
    "char": (1, False),
    "byte": (1, False),
    "bool": (1, False),
    "untyped": (1, True),
}
"""Bytes per element, and whether it is a real number, by the name of the storage."""
DTYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "half",
    "bfloat16": "bfloat16",
    "int64": "long",
    "int32": "int",
    "int16": "short",
    "int8": "char",
    "uint8": "byte",
    "bool": "bool",
    "float8_e4m3fn": "char",
    "float8_e5m2": "char",
}


class Opaque:
    """An object of the file that is not a tensor: it stores its parts and does nothing."""

    def __init__(self, *parts: Any, **more: Any):
        self.parts: list[Any] = [*parts, *more.values()]

    def __new__(cls, *parts: Any, **more: Any) -> Opaque:
        made = super().__new__(cls)
        made.parts = []
        return made

    def __setstate__(self, state: Any) -> None:
        self.parts.append(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.parts.append(value)

    def append(self, value: Any) -> None:
        self.parts.append(value)

    def extend(self, values: Any) -> None:
        self.parts += list(values)


class Kind(NamedTuple):
    """A type of element. It is a named tuple, like the next two, so that no pickle can change it later."""

    bytes: int
    is_real: bool


class Storage(NamedTuple):
    """The memory of tensors; several tensors may share one storage."""

    kind: Kind
    key: str


class Stub(NamedTuple):
    """A tensor without its numbers; `identity` is the same for two names of one tensor."""

    bytes: int
    is_real: bool
    identity: tuple[str, str, tuple[int, ...]]


def _tensor(storage: Any, offset: Any, shape: Any, *rest: Any) -> Stub:
    if not isinstance(storage, Storage) or not isinstance(shape, tuple):
        raise pickle.UnpicklingError("a tensor without storage or shape")
    if not all(type(each) is int and each >= 0 for each in shape):
        raise pickle.UnpicklingError(f"a tensor of shape {shape!r}")
    kind = next((each for each in rest if isinstance(each, Kind)), storage.kind)
    return Stub(prod(shape) * kind.bytes, kind.is_real, (storage.key, repr(offset), shape))


def _parameter(data: Any, *rest: Any) -> Any:
    return data


def _of_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor of a subclass; `args` are the arguments of the function that makes it."""
    return function(*args) if function in (_tensor, _parameter) and isinstance(args, tuple) else Opaque(args)


KNOWN = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _of_type,
    ("torch", "Size"): tuple,
}


class Harmless(pickle.Unpickler):
    """An unpickler that finds stubs and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known = KNOWN.get((module, name))
        if known is not None:
            return known
        if module == "torch" and name in DTYPES:
            return Kind(*SIZES[DTYPES[name]])
        if module in ("torch", "torch.storage") and name.endswith("Storage"):
            short = name.removesuffix("Storage").lower()
            if short in SIZES:
                return Kind(*SIZES[short])
        return type(name, (Opaque,), {})

    def persistent_load(self, key: Any) -> Any:
        if not isinstance(key, tuple) or len(key) < 3 or not isinstance(key[1], Kind):
            return Opaque(key)
        return Storage(key[1], str(key[2]))


NOT_A_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
BROKEN = (pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, ValueError, TypeError)


def read(path: Path) -> ModelProfile:
    tree = _tree(path)
    found: dict[tuple[Any, ...], Found] = {}
    names: Counter[str] = Counter()
    for name, stub in _named(_model_of(tree), "", 0, set()):
        if stub.identity in found:
            continue  # tied weights are one tensor under two names
        names[name] += 1
        unique = f"{name}#{names[name]}" if names[name] > 1 else name
        found[stub.identity] = Found(unique or "tensor", stub.bytes, stub.is_real)
    return profile_of(path.stem, list(found.values()), str(path), "PyTorch checkpoint")


def _tree(path: Path) -> Any:
    """The saved objects, with stubs in place of tensors and no code of the file."""
    with path.open("rb") as file:
        begin = file.read(2)
    if begin == b"\x80\x02":
        raise ProfileError(f"{path}: saved by PyTorch before 1.6; load it and save it again with torch.save")
    try:
        with zipfile.ZipFile(path) as archive:
            names = [each for each in archive.infolist() if each.filename.endswith("/data.pkl")]
            if not names:
                raise ProfileError(f"{path}: a zip file, but no PyTorch checkpoint: it has no data.pkl")
            if names[0].file_size > LARGEST_PICKLE:
                raise ProfileError(f"{path}: data.pkl has {names[0].file_size:,} bytes, too many for shapes")
            text = archive.read(names[0])
    except NOT_A_ZIP as error:
        raise ProfileError(f"{path}: truncated, or no PyTorch checkpoint: {error}") from None
    try:
        return Harmless(io.BytesIO(text)).load()
    except BROKEN as error:
        raise ProfileError(f"{path}: data.pkl cannot be read: {error}") from None


def _model_of(tree: Any) -> Any:
    """The part of a checkpoint that is the model; optimizers have tensors of the same sizes again."""
    if not isinstance(tree, dict):
        return tree
    parts = dict(dict.items(tree))  # a pickle may have replaced the `items` of the object
    if not any(isinstance(value, Stub) for value in parts.values()):
        for key in MODEL_KEYS:
            if key in parts and next(_named(parts[key], "", 0, set()), None) is not None:
                return parts[key]
    return {key: value for key, value in parts.items() if "optim" not in str(key).lower()}


def _named(value: Any, name: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Stub]]:
    """All tensors inside a value, by their path; nothing is visited twice."""
    if isinstance(value, Stub):
        yield name, value
        return
    if depth > DEEPEST or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        parts = [(str(key), each) for key, each in dict.items(value)]
    elif isinstance(value, Opaque):
        parts = [("", each) for each in list(value.parts)]
    elif isinstance(value, list | tuple):
        parts = [(str(number), each) for number, each in enumerate(value)]
    else:
        return
    for key, each in parts:
        yield from _named(each, f"{name}.{key}".strip(".") if key else name, depth + 1, seen)
