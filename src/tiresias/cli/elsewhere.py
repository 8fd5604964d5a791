"""Simulations on a Ray cluster: `--on ray --address HOST:PORT` of `compare` and `sweep`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tiresias.cli.errors import Stop

if TYPE_CHECKING:
    from tiresias.executors.ray_tasks import RayTasks


@contextmanager
def chosen(on: str | None, address: str | None) -> Iterator[RayTasks | None]:
    """Where the cells of a grid are simulated; None is this machine. What Ray refuses ends the command."""
    if on is None:
        if address is not None:
            raise Stop(f"--address {address} is for a Ray cluster; add --on ray, or leave it out")
        yield None
        return
    if on != "ray":
        raise Stop(f"--on {on}: give ray, or leave it out to simulate on this machine")
    if address is None:
        raise Stop("--on ray needs --address HOST:PORT, as `ray start --head` prints it")
    from tiresias.executors.ray_connection import NoRay, is_address, require_ray
    from tiresias.executors.ray_tasks import AGAIN, RayTasks

    if not is_address(address):
        raise Stop(f"--address {address}: give HOST:PORT, as `ray start --head` prints it")
    try:
        require_ray(AGAIN)
        yield RayTasks(address)
    except NoRay as error:
        raise Stop(str(error), error.code) from None
