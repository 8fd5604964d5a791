"""The work of `benchmarks.against`, in one process: `against_work.py FOLDER JOBS`.

It uses nothing but what every version of the manager has, because it runs with the code of other checkouts.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import tiresias.placers
import tiresias.policies  # noqa: F401  (both are imported because they register plug-ins)
from tiresias.live.clock import Clock
from tiresias.live.machine import Machine
from tiresias.live.manager import Manager
from tiresias.live.submission import Caller, Submission
from tiresias.store import Chosen, Store
from tiresias.testing.still import NoProcesses

ADMIN = Caller("ann", is_admin=True)
ENVIRONMENT = {f"SOME_VARIABLE_{n}": f"a value of usual length, such as a path {n}" for n in range(40)}
SLOTS, ROUNDS = 256, 200


class Ticks:
    """A clock that the work itself moves, so that what is decided depends neither on the machine nor on how
    often a manager looks at its clock."""

    def __init__(self) -> None:
        self.at = 1e9

    def __call__(self) -> float:
        return self.at


@contextmanager
def still_manager(home: Path, ticks: Ticks) -> Iterator[tuple[Manager, NoProcesses]]:
    executor, clock = NoProcesses(), Clock(wall=ticks, steady=ticks)
    with Store.open(home / "journal.db", home=home) as store:
        machine, chosen = Machine.fake(SLOTS), Chosen("tiresias-l")
        yield Manager.open(home, store, executor, machine, chosen, clock=clock), executor
    executor.close()


def main(folder: str, jobs: str) -> None:
    took = {}
    random, ticks = Random(1), Ticks()

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        os.getloadavg()  # see MARKER in against.py
        began = time.process_time()
        yield
        took[name] = time.process_time() - began

    def asked() -> Submission:
        return Submission(("sleep", "86400"), folder, ENVIRONMENT, gpus=random.choice((1, 1, 2, 4, 8)))

    with still_manager(Path(folder), ticks) as (manager, executor):
        requests = getattr(manager, "requests", manager)  # the manager itself, before it had parts

        def complete() -> None:
            ticks.at += 0.01
            manager.settle()
            manager.flush()
            manager.poll()
            manager.flush()

        with stage("fill"):
            while manager.state.waiting < int(jobs) or manager.state.ledger.free:
                ticks.at += 0.01
                requests.submit(ADMIN, [asked() for _ in range(100)])
                manager.flush()
                manager.poll()
        with stage("decide"):
            for _ in range(ROUNDS):
                for one in (asked(), asked()):
                    requests.submit(ADMIN, [one])
                    complete()
                requests.cancel(ADMIN, random.choice(list(manager.state.jobs)))
                complete()
                executor.finish(random.choice(list(manager.state.runs)))
                manager.poll()
                complete()
    gc.collect()
    gc.disable()  # as a manager does while it starts
    with stage("open"), still_manager(Path(folder), ticks) as (manager, _):
        manager.flush()
    os.getloadavg()
    print(json.dumps(took))


if __name__ == "__main__":
    main(*sys.argv[1:])
