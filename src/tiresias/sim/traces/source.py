"""Reads a trace file as text: decompresses gzip, decodes UTF-8, and explains every failure."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

from tiresias.sim.errors import TraceError

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(slots=True)
class Source:
    """The text of a trace file, and its name in messages."""

    name: str
    text: str

    @property
    def header(self) -> str:
        """The first line that is not blank."""
        start = len(self.text) - len(self.text.lstrip())
        return self.text[start:].partition("\n")[0].strip()


def open_source(path: str | Path) -> Source:
    """The text of the file, which must be UTF-8, plain or gzip (recognised by its content, not its name)."""
    name = str(path)
    data = _uncompressed(name, _bytes(name, path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError(
            f"{name}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text. "
            "Save the trace as UTF-8 text (plain or .gz)."
        ) from None
    if not text.strip():
        raise TraceError(f"{name}: the file is empty. A trace needs a header line and at least one job.")
    return Source(name, text)


def _bytes(name: str, path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise TraceError(f"{name}: no such file. Check the path, or use a builtin: trace.") from None
    except IsADirectoryError:
        raise TraceError(f"{name}: is a directory. Name one trace file.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TraceError(f"{name!r}: cannot be read: {reason}.") from None


def _uncompressed(name: str, data: bytes) -> bytes:
    if not data.startswith(GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except EOFError:
        raise TraceError(f"{name}: the gzip file is cut short. Copy or download it again.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{name}: the gzip file is damaged ({error}). Copy it again.") from None
