"""The sockets on which a manager answers.

Rules: sockets are opened only by the process that has the journal's lock; a socket that is then in the home
is left over and may be removed. The Unix socket is never, not even for a moment, open to more users than it
should be.
"""

from __future__ import annotations

import grp
import ipaddress
import os
import socket
import stat
from pathlib import Path

from tiresias.api.home import short_name
from tiresias.live.errors import Invalid

BACKLOG = 1024


def listen_unix(path: Path, group: str | None = None) -> socket.socket:
    """A Unix socket for the manager's own user, or also for the members of a group."""
    gid = None if group is None else _gid(group)
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with short_name(path) as name:
            listening.bind(name)
    except OSError as error:
        listening.close()
        raise Invalid(f"cannot listen on {path}: {error.strerror or error}; choose another home") from error
    finally:
        os.umask(before)
    try:
        if gid is not None:
            os.chown(path, -1, gid)
            os.chmod(path, 0o660)
            _let_through(path.parent, gid)
    except OSError as error:
        listening.close()
        path.unlink()
        raise Invalid(
            f"cannot open {path} to the group {group!r}: {error.strerror}; the manager's user must be"
            " a member of it and own the home"
        ) from error
    listening.listen(BACKLOG)
    return listening


def _gid(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except (KeyError, ValueError):
        raise Invalid(f"group: there is no group {group!r} here; make it or name another") from None


def _let_through(home: Path, gid: int) -> None:
    """Let the group reach the socket, and read nothing else in the home."""
    mode = stat.S_IMODE(home.stat().st_mode)
    if home.stat().st_gid != gid:
        os.chown(home, -1, gid)
    os.chmod(home, mode & ~0o070 | 0o010)


def _remove_stale(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise Invalid(f"{path} is in the way, because it is not a socket; move it elsewhere")
    path.unlink()


def listen_tcp(address: str, *, has_tokens: bool) -> socket.socket:
    """A TCP socket at `host:port`; port 0 means a free one. Addresses beyond this machine require tokens."""
    host, port = _parsed(address)
    try:
        [family, *_, where], *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Invalid(f"listen: {host!r} is no address here ({error.strerror}); correct it") from error
    if not ipaddress.ip_address(where[0]).is_loopback and not has_tokens:
        raise Invalid(
            f"listen: {host} can be reached from other machines, and there are no tokens yet; listen on"
            " 127.0.0.1, or make a token first (`tir token create`)"
        )
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(where)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise Invalid(f"cannot listen on {address}: {error.strerror}; choose another port or 0") from error
    return listening


def _parsed(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise Invalid(f"listen: {address!r} is not HOST:PORT, such as 127.0.0.1:8080")
    return host.strip("[]"), int(port)


def host_of(address: str) -> str:
    """The host in `host:port`."""
    return _parsed(address)[0]


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine can reach the socket."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
