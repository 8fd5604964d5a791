"""What a run's directory remembers. Standard library only: every supervisor imports this.

    claim.json   who started the gang: made once, for ever; whoever makes it is the only one that may start it
    up.json      every worker executes its program
    stop.json    the run was told to stop
    exit.json    how the run ended: made once, durable before anyone hears of it

A file appears whole or not at all. `claim.json` and `exit.json` are linked, not renamed into place: a link
never replaces what is there.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # so that a supervisor need not load typing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CLAIM, UP, STOP, EXIT = "claim.json", "up.json", "stop.json", "exit.json"
RESERVED = "exit.reserved"
RESERVED_BYTES = 16384  # so that a disk that fills up during the run cannot keep its exit from being recorded


def read(run_dir: str, name: str) -> dict[str, Any] | None:
    """The record, None if there is none. A damaged one (power was lost) reads as an empty one."""
    import json  # here, because most supervisors never read

    try:
        with open(os.path.join(run_dir, name), encoding="utf-8") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def exists(run_dir: str, name: str) -> bool:
    return os.path.exists(os.path.join(run_dir, name))


def claim(run_dir: str, *, boot: str, pid: int, start: int, port: int = 0) -> bool:
    """Whether the run is ours to start: true for exactly one caller. `pid` 0: nobody shall ever start it."""
    text = f'{{"version": 1, "boot_id": "{boot}", "pid": {pid}, "start": {start}, "port": {port}}}\n'
    temporary = os.path.join(run_dir, f"claim.{os.getpid()}.{pid}")
    try:
        _write(temporary, text.encode())
        os.link(temporary, os.path.join(run_dir, CLAIM))
    except FileExistsError:
        return False
    finally:
        _unlink(temporary)
    return True


def reserve_exit(run_dir: str) -> None:
    """Room on the disk for the exit record."""
    fd = os.open(os.path.join(run_dir, RESERVED), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, RESERVED_BYTES)
    finally:
        os.close(fd)


def record_exit(run_dir: str, record: Mapping[str, Any]) -> None:
    """Durable on return. If there is a record already, that one stays."""
    data = _encode(record)
    reserved = os.path.join(run_dir, RESERVED)
    fd = os.open(reserved, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.link(reserved, os.path.join(run_dir, EXIT))
    except FileExistsError:
        pass
    finally:
        _unlink(reserved)
    directory = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def put(run_dir: str, name: str, record: Mapping[str, Any]) -> None:
    """Write or replace; as lasting as the page cache."""
    temporary = os.path.join(run_dir, f"{name}.{os.getpid()}")
    try:
        _write(temporary, _encode(record))
        os.replace(temporary, os.path.join(run_dir, name))
    except OSError:
        _unlink(temporary)
        raise


def _encode(record: Mapping[str, Any]) -> bytes:
    return _json({"version": 1, **record}).encode(errors="replace") + b"\n"


def _json(value: Any) -> str:
    """As `json.dumps`, whose loading would be most of the work of a short run's supervisor."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(c):04x}" if c < " " or c in '"\\\x7f' else c for c in value) + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json(key)}: {_json(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(_json(each) for each in value) + "]"


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def _unlink(path: str) -> None:
    try:  # noqa: SIM105  (contextlib would have to be loaded)
        os.unlink(path)
    except FileNotFoundError:
        pass
