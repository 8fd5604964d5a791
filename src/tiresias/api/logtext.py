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

REMOVED = "\n[tiresias: {:,} bytes of output were removed here, because the job has written too much]\n"
PIECE_BYTES = 16 * 1024  # small enough to get through a connection that often breaks


@dataclass(slots=True, frozen=True)
class Piece:
    """Bytes of a log; `offset` is where they end."""

    data: bytes
    offset: int
    is_last: bool = True  # the log ended there as well
    is_torn: bool = False  # what followed them was removed


def read_piece(path: Path, offset: int, limit: int) -> Piece:
    """The bytes after `offset`, at most `limit`; none if there is no file (yet).

    If output was removed there (executors/log_cap.py), what follows it, after a line that says so.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return Piece(b"", offset)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return Piece(b"", offset)
        start, end = written(file, offset)
        data = os.pread(file, min(limit, end - start), start)
        size = os.fstat(file).st_size
    finally:
        os.close(file)
    removed = REMOVED.format(start - offset).encode() if start > offset else b""
    after = start + len(data)
    return Piece(removed + data, after, is_last=after >= size, is_torn=after == end < size)


def written(file: int, offset: int) -> tuple[int, int]:
    """Where the next bytes are that were not removed, at `offset` or after it, and where they end."""
    try:
        start = os.lseek(file, offset, os.SEEK_DATA)
        return start, os.lseek(file, start, os.SEEK_HOLE)
    except OSError:  # at the end of the file
        return offset, offset + 1


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
    cut = incomplete(piece.data)
    if cut == 0 or piece.is_torn or (whole and cut == len(piece.data)):
        return piece  # it ends between characters, or the rest of the last one will never be there
    return Piece(piece.data[:-cut], piece.offset - cut)


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
