"""Where a manager is found: the files of its home that other programs read. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOCKET = "manager.sock"
ABOUT = "manager.json"  # {"pid", "start", "socket", "url"} of the manager that answers
OPTIONS = "options.json"  # what the manager was started with
LOG = "manager.log"
LONGEST_SOCKET_NAME = 107  # bytes; the kernel's limit


def default_home() -> Path:
    """TIRESIAS_HOME, or ~/.tiresias."""
    return Path(os.environ.get("TIRESIAS_HOME") or "~/.tiresias").expanduser().absolute()


@contextmanager
def short_name(socket: Path) -> Iterator[str]:
    """A name of the socket that is short enough for the kernel, however long the path of the home is."""
    if len(os.fsencode(socket)) <= LONGEST_SOCKET_NAME:
        yield str(socket)
        return
    directory = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{socket.name}"
    finally:
        os.close(directory)
