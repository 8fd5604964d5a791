"""The command line: processor time of a verb, beside that of `python -c pass` in the same run.

Only the time of the program itself is counted, not that of the manager that answers it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence

from benchmarks.managers import ManagerProcess, manager_process, share

TIMES = 15
MOST_RATIO = 12.0
ACTIVE = 1000
MOST_LS_S = 0.3
NOTHING = [sys.executable, "-c", "pass"]
TIR = [sys.executable, "-m", "tiresias.cli.main"]


def cli(times: int = TIMES) -> None:
    """`ls`, `submit` and `why` with one job, and `ls` with 1,000 active jobs."""
    with manager_process(gpus=1) as manager:
        env = _environment(manager)
        [id] = manager.client.submit(manager.job("sleep", "86400"))
        commands = {
            "ls": [*TIR, "ls"],
            "why": [*TIR, "why", str(id)],
            "submit": [*TIR, "submit", "--hold", "--", "true"],
        }
        took = _by_turns({"nothing": NOTHING, **commands}, env, times)
        nothing = share(took.pop("nothing"), 0.5)
        for verb, values in took.items():
            middle = share(values, 0.5)
            print(
                f"cli: {verb}: {middle * 1e3:.1f} ms of processor time, {middle / nothing:.1f} times"
                f" `python -c pass` ({nothing * 1e3:.1f} ms; less than {MOST_RATIO:g} times wanted)"
            )
        manager.fill(ACTIVE)
        many = share(_by_turns({"ls": commands["ls"]}, env, times)["ls"], 0.5)
        print(f"cli: ls with {ACTIVE:,} active jobs: {many:.3f} s (less than {MOST_LS_S:g} s wanted)")


def _environment(manager: ManagerProcess) -> dict[str, str]:
    """The environment of a user."""
    kept = {name: value for name, value in os.environ.items() if name != "TIRESIAS_URL"}
    return kept | {"TIRESIAS_HOME": str(manager.home)}


def _by_turns(
    commands: Mapping[str, Sequence[str]], env: Mapping[str, str], times: int
) -> dict[str, list[float]]:
    """Seconds of processor time of each command, all of them in turn; the first turn is a rehearsal."""
    took: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(times + 1):
        for name, command in commands.items():
            before = _children_s()
            subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
            if number:
                took[name].append(_children_s() - before)
    return took


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
