"""Reading a log that may still grow, in pieces that end between characters. Offsets are bytes.

The files are in run directories, which belong to users. They are opened without following links, so that no
user can make the manager read another file.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

PIECE_BYTES = 16 * 1024  # small enough to get through a connection that often breaks


@dataclass(slots=True, frozen=True)
class Piece:
    """Bytes of a log; `offset` is where they end."""

    data: bytes
    offset: int


def read_piece(path: Path, offset: int, limit: int) -> Piece:
    """The bytes after `offset`, at most `limit`; none if there is no file (yet)."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return Piece(b"", offset)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return Piece(b"", offset)
        data = os.pread(file, limit, offset)
    finally:
        os.close(file)
    return Piece(data, offset + len(data))


def size_of(path: Path) -> int:
    """The present size of a log; 0 if there is no file (yet)."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def read_text(path: Path, offset: int, *, whole: bool) -> Piece:
    """The same, cut where a character ends; `whole` means that nothing will be appended any more."""
    piece = read_piece(path, offset, PIECE_BYTES)
    kept = len(piece.data) - incomplete(piece.data)
    if whole and kept == 0:
        return piece  # the log ends within a character
    return Piece(piece.data[:kept], offset + kept)


def incomplete(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character whose rest is missing."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # not a continuation: the last character begins here
            return back if back < _length(byte) else 0
    return 0


def _length(first: int) -> int:
    """The bytes of the character that begins with this byte; 1 if none does."""
    if 0xC2 <= first < 0xE0:
        return 2
    if 0xE0 <= first < 0xF0:
        return 3
    return 4 if 0xF0 <= first < 0xF5 else 1


def as_json(run: int, piece: Piece) -> bytes:
    """A piece for an event. Bytes that are not UTF-8 are U+FFFD in `text`; then `base64` has all bytes."""
    body: dict[str, object] = {"run": run, "offset": piece.offset}
    try:
        body["text"] = piece.data.decode()
    except UnicodeDecodeError:
        body["text"] = piece.data.decode(errors="replace")
        body["base64"] = base64.b64encode(piece.data).decode()
    return json.dumps(body, ensure_ascii=False).encode()
