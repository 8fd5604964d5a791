"""`python -m tiresias.executors.ray_tasks_carrier`: the process that has Ray call functions, for one command.

The first frame says what to call; each answer is a result or why there is none. The process ends with the
one that has started it, and Ray then ends what it still runs for it.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from tiresias import __version__
from tiresias.executors.ray_connection import NoRay, connect, frame, last_line, read_frame_now
from tiresias.executors.ray_tasks import AGAIN, called

NAMESPACE = "tiresias-tasks"
RETRIES = 5  # of a call whose worker was lost; one that takes its worker along must end some time
LOOK_S = 2.0  # between two looks at how many processors there are: nodes come and go

Tell = Callable[[str, int, Any], None]


def run(asked: Mapping[str, Any], tell: Tell) -> None:
    """Have everything called that is asked for; NoRay if that cannot be done here."""
    import ray

    remote = ray.remote(called).options(num_cpus=1, max_retries=RETRIES, name="tiresias simulation")
    work, shared = ray.put(asked["work"]), {key: ray.put(value) for key, value in asked["shared"].items()}
    waiting = deque(enumerate(asked["calls"]))
    busy: dict[Any, int] = {}
    while waiting or busy:
        while waiting and len(busy) < (asked["at_once"] or _processors(asked["address"])):
            number, (arguments, key) = waiting.popleft()
            busy[remote.remote(asked["version"], work, arguments, shared[key])] = number
        ended, _ = ray.wait(list(busy), num_returns=1, timeout=LOOK_S)
        for each in ended:
            _tell(each, busy.pop(each), tell)


def _processors(address: str) -> int:
    import ray

    found = int(ray.cluster_resources().get("CPU", 0))
    if not found:
        raise NoRay(6, f"Ray at {address} offers no processors; start a node with --num-cpus, then {AGAIN}")
    return found


def _tell(reference: Any, number: int, tell: Tell) -> None:
    import ray

    try:
        kind, value = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise NoRay(2, _problem(str(error))) from None
    except ray.exceptions.RayError as error:
        tell("lost", number, f"its worker was lost {RETRIES + 1} times, at last so: {last_line(str(error))}")
        return
    if kind == "other":
        raise NoRay(2, value)
    tell("done", number, value)


def _problem(said: str) -> str:
    if "No module named 'tiresias'" in said:
        return (
            "the Python of a node has no Tiresias; run"
            f" `pip install 'tiresias[ray]=={__version__}'` there, start Ray there again, then {AGAIN}"
        )
    return f"a node cannot run simulations: {last_line(said)}"


def main() -> None:
    connection = socket.socket(fileno=os.dup(0))

    def tell(kind: str, number: int, value: Any) -> None:
        connection.sendall(frame((kind, number, value)))

    def end_with_the_other() -> None:
        connection.recv(1)  # nothing comes any more: it is the end
        os._exit(0)

    try:
        asked = read_frame_now(connection)
        threading.Thread(target=end_with_the_other, daemon=True).start()
        try:
            connect(asked["address"], NAMESPACE, AGAIN)
            tell("connected", 0, None)
            run(asked, tell)
        except NoRay as error:
            tell("failed", error.code, str(error))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the other one has ended
        pass
    finally:
        sys.stdout.flush()
        os._exit(0)  # at once: Ray would wait for what it has under way


if __name__ == "__main__":
    main()
