"""Forks managers that kill themselves, from one process that has imported everything, which saves time.

    python -m tiresias.testing.kill.mortal

reads lines of JSON, {"home": …, "dies": null or [N, "after commit"]}, and answers each with the process id of
a new manager. The manager kills itself with SIGKILL at its Nth effect of that kind ("" is any kind): before
or after a commit, a command to the executor, or the adoption of runs. The child runs `tiresias.api.serve`, as
users do.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import tiresias.api.server  # noqa: F401  (imported once, for all children)
from tiresias.api import serve
from tiresias.executors.local import LocalExecutor
from tiresias.store import Store

DEADLY: tuple[tuple[type, str], ...] = (
    (Store, "commit"),
    (Store, "load"),
    (LocalExecutor, "start"),
    (LocalExecutor, "stop"),
    (LocalExecutor, "adopt"),
    (LocalExecutor, "forget"),
)


def arm(number: int, kind: str) -> None:
    """Make this process kill itself at effect number `number` of this kind."""
    left = number

    def point(what: str) -> None:
        nonlocal left
        left -= not kind or what == kind
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for owner, name in DEADLY:
        setattr(owner, name, _deadly(getattr(owner, name), name, point))


def _deadly(method: Callable[..., Any], name: str, point: Callable[[str], None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def around(*args: Any, **named: Any) -> Any:
        point(f"before {name}")
        result = method(*args, **named)
        point(f"after {name}")
        return result

    return around


def live(home: str, dies: tuple[int, str] | None) -> int:
    """In the child: run a manager until it is killed."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    if dies is not None:
        arm(*dies)
    return serve.main(["--home", home])


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = live(request["home"], request["dies"])
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
