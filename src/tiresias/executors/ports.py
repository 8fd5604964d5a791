"""A port for a gang's workers to meet at (MASTER_PORT)."""

from __future__ import annotations

import socket
from collections.abc import Collection
from pathlib import Path

LOW, HIGH = 20000, 30000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(taken: Collection[int], seed: int = 0) -> int:
    """A port that nobody listens on, that no run of ours has, and that the kernel gives to nobody by chance.

    It cannot be held for a program that binds it itself, so it is taken from outside the range from which
    the kernel serves. `seed` makes two managers on one machine begin in different places.
    """
    span = HIGH - LOW
    low, high = _ephemeral()
    for step in range(span):
        port = LOW + (seed + step) % span
        if port not in taken and not low <= port <= high and _is_free(port):
            return port
    raise OSError(f"no free port from {LOW} to {HIGH}")


def _ephemeral() -> tuple[int, int]:
    try:
        low, high = EPHEMERAL.read_text().split()
    except (OSError, ValueError):
        return 32768, 60999
    if int(low) <= LOW and int(high) >= HIGH:
        return 0, 0  # all of ours is within: nothing better to be had
    return int(low), int(high)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
