"""Reads profiles from files: models as frameworks store them, and profiles that Tiresias stored.

Used only by the command line. `load` takes what a user may name: a model of the zoo, a file, a folder, or
`module:function`. Every error is a ProfileError that names the file and the key.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tiresias.profiles import stored, zoo
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.readers import function, onnx, safetensors, torch_file

__all__ = ["SUFFIXES", "load", "read_stored"]


def read_stored(path: Path) -> ModelProfile:
    """A profile that `tiresias profile --save` wrote."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: not a stored profile: {error}") from None
    return stored.from_json(text, str(path))


SUFFIXES: dict[str, Callable[[Path], ModelProfile]] = {
    ".safetensors": safetensors.read,
    ".pt": torch_file.read,
    ".pth": torch_file.read,
    ".ckpt": torch_file.read,
    ".bin": torch_file.read,
    ".onnx": onnx.read,
    ".json": read_stored,
}
"""The reader for files with each ending."""


def load(source: str) -> ModelProfile:
    """The profile of a model of the zoo, of a file or a folder, or of what module:function returns."""
    path = Path(source)
    is_path = "/" in source  # ./vgg16 is a folder, ViT-B/16 a model
    if zoo.knows(source) and not (is_path and path.exists()):
        return zoo.find(source)
    if path.exists():
        return _read(path)
    if function.is_function(source):
        return function.read(source)
    if path.suffix.lower() in SUFFIXES or path.parent != Path():
        raise ProfileError(f"{source}: no such file")
    return zoo.find(source)  # its error names similar models


def _read(path: Path) -> ModelProfile:
    reader = safetensors.read if path.is_dir() else SUFFIXES.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(SUFFIXES)
        raise ProfileError(f"{path}: its name does not say what it is; known endings: {known}")
    try:
        return reader(path)
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from None
