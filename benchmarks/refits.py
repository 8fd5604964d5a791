"""What it costs the live manager that its policy learns anew: every decision, with 10,000 jobs waiting.

The manager, the Controller and the journal are real, and the policy is the default. The executor starts no
processes, and the clock is set forward between the exits, so that jobs work for minutes and hours. Times are
processor time, without commits. A publication works out new hazards at one exit; afterwards jobs go over to
them by and by. The largest single decisions of each kind are what a user may notice.
"""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from random import Random

from benchmarks.live import ADMIN, ENVIRONMENT, ms
from benchmarks.managers import share
from tiresias.api.garbage import survivors_left_out
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.live.clock import Clock
from tiresias.live.submission import Submission
from tiresias.testing.still import still_manager

PENDING, SLOTS = 10_000, 256
EXITS = 3_000
GAP_S = 60.0  # between exits, in the mean
TENANTS = tuple("abcdefgh")
NAMES = ("", *"abcdefghijklmnop")  # so that there are as many classes as are kept
WANTED_MS = 20.0


class Hands:
    """A clock that shows what was set."""

    def __init__(self) -> None:
        self.at = 1e9

    def __call__(self) -> float:
        return self.at


def refits(exits: int = EXITS) -> None:
    random, hands = Random(1), Hands()
    took_s: dict[str, list[float]] = {"publishes": [], "goes over": [], "neither": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        still_manager(Path(folder), SLOTS, DEFAULT_POLICY, Clock(wall=hands, steady=hands)) as still,
    ):
        manager, runs = still

        def asked() -> Submission:
            return Submission(
                ("sleep", "86400"),
                folder,
                ENVIRONMENT,
                gpus=random.choice((1, 1, 1, 2, 4, 8)),
                tenant=random.choice(TENANTS),
                name=random.choice(NAMES),
            )

        def settle() -> None:
            """Let everything that follows happen, and become durable."""
            while True:
                manager.flush()
                before = len(manager.state.runs), manager.controller.state.ledger.free
                manager.poll()
                if before == (len(manager.state.runs), manager.controller.state.ledger.free):
                    break
            manager.flush()

        def timed(deed: str) -> None:
            memory = manager.state.memory
            published, cursor = memory.now, memory.cursor
            began = time.process_time()
            if deed == "exit":
                manager.poll()
            else:
                manager.requests.submit(ADMIN, [asked()])
            manager.settle()
            took = time.process_time() - began
            is_new, moved = memory.now is not published, memory.cursor != cursor
            took_s["publishes" if is_new else "goes over" if moved else "neither"].append(took)
            settle()

        while manager.state.waiting < PENDING or manager.state.ledger.free:
            manager.requests.submit(ADMIN, [asked() for _ in range(100)])
            settle()
            hands.at += GAP_S
        gc.collect()
        gc.freeze()
        with survivors_left_out():
            for _ in range(exits):
                hands.at += random.expovariate(1 / GAP_S)
                runs.finish(random.choice(list(manager.state.runs)))
                timed("exit")
                timed("submit")
        gc.unfreeze()
        classes = len(manager.state.memory.now.rates)
    for what, seconds in took_s.items():
        print(
            f"refits: a decision that {what}: {len(seconds):,} of them, p50 {ms(share(seconds, 0.5))},"
            f" p99 {ms(share(seconds, 0.99))}, most {ms(max(seconds))}",
            flush=True,
        )
    most_s = max(max(took_s["publishes"]), max(took_s["goes over"]))
    print(
        f"refits: with {PENDING:,} jobs waiting and {classes} classes, most of those that learn"
        f" {ms(most_s)} (at most {WANTED_MS:g} ms wanted)"
    )
