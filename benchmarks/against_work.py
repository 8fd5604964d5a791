"""The work of `benchmarks.against`, in one process: `against_work.py FOLDER JOBS`.

It uses nothing but what every version of the manager has, because it runs with the code of other checkouts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import still_manager

ADMIN = Caller("ann", is_admin=True)
ENVIRONMENT = {f"SOME_VARIABLE_{n}": f"a value of usual length, such as a path {n}" for n in range(40)}
SLOTS, ROUNDS = 256, 200


def main(folder: str, jobs: str) -> None:
    took = {}
    random = Random(1)

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        os.getloadavg()  # see MARKER in against.py
        began = time.process_time()
        yield
        took[name] = time.process_time() - began

    def asked() -> Submission:
        return Submission(("sleep", "86400"), folder, ENVIRONMENT, gpus=random.choice((1, 1, 2, 4, 8)))

    with still_manager(Path(folder), SLOTS) as (manager, executor):
        requests = getattr(manager, "requests", manager)  # the manager itself, before it had parts

        def complete() -> None:
            manager.settle()
            manager.flush()
            manager.poll()
            manager.flush()

        with stage("fill"):
            while manager.state.waiting < int(jobs) or manager.state.ledger.free:
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
    with stage("open"), still_manager(Path(folder), SLOTS) as (manager, _):
        manager.flush()
    os.getloadavg()
    print(json.dumps(took))


if __name__ == "__main__":
    main(*sys.argv[1:])
