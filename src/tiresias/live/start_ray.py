"""From options to the executor of many nodes, on Ray."""

from __future__ import annotations

import os
import pwd

from tiresias.executors import sdk
from tiresias.executors.gang import GangExecutor
from tiresias.executors.gang_transport import Seen
from tiresias.live.errors import Conflict, Invalid, Refused, Unreached
from tiresias.live.home_paths import HomePaths
from tiresias.live.settings import Settings
from tiresias.live.shared_folder import SharedFolder
from tiresias.store import Store

RAY_LOG = "ray.log"
JOIN_S = 20.0  # for which a new manager waits until the nodes have joined that it has tested


def executor(
    paths: HomePaths,
    folder: SharedFolder,
    address: str | None,
    fake_gpus: int,
    settings: Settings,
    store: Store,
) -> GangExecutor:
    """Connected to Ray; refuses what cannot be used, in words."""
    from tiresias.executors.ray import RayOptions, RayTransport
    from tiresias.executors.ray_connection import NoRay, is_address

    try:
        if not address or not is_address(address):
            raise Invalid(f"--address {address or ''}: give HOST:PORT, as `ray start --head` prints it")
        options = RayOptions(
            address=address,
            shared=str(folder.path),
            sdk=str(sdk.publish(paths.sdk)),
            lease_s=settings.lease_s,
            fake_gpus=fake_gpus,
            uid=os.geteuid(),
            user=pwd.getpwuid(os.geteuid()).pw_name,
            manager=folder.about,
            tests_first=store.is_new,
        )
        transport = RayTransport(options, paths.home / RAY_LOG)
        try:
            nodes = transport.begin()
        except NoRay as error:
            raise _refused(error.code, str(error)) from None
        _check(nodes)
        made = GangExecutor(transport, folder.path, lease_s=settings.lease_s, on_close=folder.close)
        # The first submission must find the nodes that were tested: it is refused if it asks for more GPUs.
        made.wait_for([seen.node.name for seen in nodes], JOIN_S)
        return made
    except BaseException:
        folder.close()
        raise


def _check(nodes: list[Seen]) -> None:
    """Every node of a new manager must be usable, so that a mistake is seen; later ones are left out."""
    wrong = [f"node {seen.node.name}: {seen.problem}" for seen in nodes if seen.problem]
    if wrong:
        raise Invalid("; ".join(wrong))


def _refused(code: int, message: str) -> Refused:
    return {5: Unreached, 6: Conflict}.get(code, Invalid)(message)
