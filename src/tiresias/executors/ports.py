"""The choice of the TCP port at which the workers of a gang connect to each other (MASTER_PORT)."""

from __future__ import annotations

import socket
from collections.abc import Collection
from pathlib import Path

LOW, HIGH = 20000, 30000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(taken: Collection[int], seed: int = 0) -> int:
    """A port on which nothing listens, that is not in `taken`, and that the kernel does not assign by itself.

    The port cannot be reserved for a program that binds it later. So it is chosen outside of the ephemeral
    range of the kernel, where possible. `seed` makes two managers on one machine start at different ports.
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
        return 0, 0  # the ephemeral range covers all of ours, so there is nothing better
    return int(low), int(high)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
