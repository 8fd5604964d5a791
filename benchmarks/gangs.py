"""Gangs over four Ray nodes in network namespaces, each with four GPUs that do not exist.

It needs root, iproute2 and an environment with Ray: `make bench` uses that of `make test-ray`. Each figure is
printed beside one of the same run: a start on one node, or a stop on one node.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from benchmarks.live import PRINT_INSTANT, ms
from benchmarks.managers import ENVIRONMENT, share
from tiresias.api.client import Client
from tiresias.testing.executors import until
from tiresias.testing.ray_bed import Bed, missing
from tiresias.testing.ray_lab import RayLab

BOXES = 4
LEASE_S, GRACE_S = 20.0, 2.0
LONG_S = 120.0
ON_ONE: dict[str, Any] = {"gpus": 4, "nodes": 1, "workers": 4}
OVER_FOUR: dict[str, Any] = {"gpus": 4, "nodes": 4, "workers": 4}
FOREVER = ("sleep", "600")


class Bench:
    """A manager on Ray, and its client."""

    def __init__(self, bed: Bed, top: Path):
        self.bed, self.lab = bed, RayLab(bed, top)
        self.lab.up(lease_s=LEASE_S, judge_after_s=1e6)
        self.client = Client(self.lab.home)
        until(lambda: len(self.client.nodes()) == BOXES, "every node has joined", within_s=LONG_S)

    def submit(self, command: tuple[str, ...], **asked: Any) -> int:
        env = {"PATH": os.environ["PATH"], **ENVIRONMENT}
        body = {"command": list(command), "cwd": "/", "env": env, "grace_s": GRACE_S, **asked}
        [id] = self.client.submit(body)
        return int(id)

    def runs(self, id: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.job(id)["runs"]
        return found

    def until_run(self, id: int, number: int, what: str) -> dict[str, Any]:
        """Wait until that run of a job has `started_at` or another instant, and return it."""

        def look() -> dict[str, Any] | None:
            runs = self.runs(id)
            return runs[number - 1] if len(runs) >= number and runs[number - 1][what] is not None else None

        found = until(look, f"run {number} of job {id} has {what}", within_s=LONG_S)
        assert found is not None
        return found

    def end(self) -> None:
        self.client.close()
        self.lab.end()


@contextmanager
def bench() -> Iterator[Bench]:
    top = Path(mkdtemp(prefix="tir"))  # sockets of Ray must have short paths
    bed = Bed(BOXES, top)
    try:
        bed.make()
        bed.start_ray()
        made = Bench(bed, top)
        yield made
        made.end()
    finally:
        bed.remove()
        rmtree(top, ignore_errors=True)


def gangs(rounds: int = 50) -> None:
    lacks = missing() if any(each.name == "ray" for each in distributions()) else "Ray is not installed"
    if lacks:
        print(f"gangs: not run: {lacks}")
        return
    with bench() as found:
        for part in (_starts, _preemptions, _elsewhere):
            part(found, rounds)
        _silent(found)


def _starts(found: Bench, rounds: int) -> None:
    """From the decision to the moment at which the last of four workers prints the time."""
    one, four = [], []
    for _ in range(rounds):
        for took, asked in ((one, ON_ONE), (four, OVER_FOUR)):
            id = found.submit(PRINT_INSTANT, **asked)
            granted_at = found.until_run(id, 1, "exited_at")["granted_at"]
            run = found.lab.shared / "jobs" / str(id) / "runs" / "1"
            instants = [float(log.read_text()) for log in run.glob("worker-*.log")]
            assert len(instants) == asked["workers"], (id, instants)
            took.append(max(instants) - granted_at)
    ratio = share(four, 0.5) / share(one, 0.5)
    for where, took in (("one node", one), ("four nodes", four)):
        print(
            f"gangs: decision to all of 4 workers on {where}: p50 {ms(share(took, 0.5))},"
            f" p99 {ms(share(took, 0.99))}, longest {ms(max(took))}, {rounds} rounds"
        )
    print(f"gangs: over four nodes the median is {ratio:.2f} times that on one (at most 3 wanted)")
    print(f"gangs: p99 over four nodes {ms(share(four, 0.99))} (at most 1 s wanted)")


def _preemptions(found: Bench, rounds: int) -> None:
    """From the decision to stop a run until its GPUs are free; its workers end at once."""

    def took_s(asked: dict[str, Any]) -> float:
        low = found.submit(FOREVER, priority="low", **asked)
        found.until_run(low, 1, "started_at")
        high = found.submit(("true",), gpus=16, workers=4, priority="high")
        found.until_run(high, 1, "exited_at")
        run = found.runs(low)[0]
        found.client.cancel(low, now=True)
        _until_idle(found)
        return float(run["exited_at"] - run["revoked_at"])

    _stops(found, rounds, took_s)


def _stops(found: Bench, rounds: int, took_s: Callable[[dict[str, Any]], float]) -> None:
    one = [took_s(ON_ONE) for _ in range(rounds)]
    four = [took_s(OVER_FOUR) for _ in range(rounds)]
    for where, took in (("one node", one), ("four nodes", four)):
        print(
            f"gangs: preemption to GPUs free on {where}: p50 {ms(share(took, 0.5))},"
            f" p99 {ms(share(took, 0.99))}, longest {ms(max(took))}, {rounds} rounds"
        )
    ratio = share(four, 0.5) / share(one, 0.5)
    print(f"gangs: over four nodes the median is {ratio:.2f} times that on one (p50 less than 200 ms wanted)")


def _elsewhere(found: Bench, rounds: int) -> None:
    """From the known exits of a gang whose node is drained until its next run is up on other nodes."""
    took, stops = [], []
    for _ in range(max(3, rounds // 10)):
        id = found.submit(FOREVER, gpus=3, nodes=3, workers=3)
        first = found.until_run(id, 1, "started_at")
        node = first["slots"][-1].partition(":")[0]
        found.client.drain(node, "benchmark", 0.1)
        second = found.until_run(id, 2, "started_at")
        first = found.runs(id)[0]
        took.append(second["started_at"] - first["exited_at"])
        stops.append(first["exited_at"] - first["revoked_at"])
        assert node not in {slot.partition(":")[0] for slot in second["slots"]}
        found.client.undrain(node)
        found.client.cancel(id, now=True)
        _until_idle(found)
    ratio = share(took, 0.5) / share(stops, 0.5)
    print(
        f"gangs: exits known to running elsewhere: p50 {ms(share(took, 0.5))}, longest {ms(max(took))}"
        f" (less than 10 s wanted), {ratio:.2f} times the stop before it"
    )


def _silent(found: Bench) -> None:
    """A box is paused: how long until its run is given up, and until the gang runs elsewhere."""
    id = found.submit(FOREVER, gpus=2, nodes=2, workers=2)
    first = found.until_run(id, 1, "started_at")
    names = {slot.partition(":")[0] for slot in first["slots"]}
    box = next(box for box in found.bed.boxes[1:] if box.name in names)
    paused_at = time.time()
    stopped = box.pause()
    try:
        first = found.until_run(id, 1, "exited_at")
        second = found.until_run(id, 2, "started_at")
    finally:
        box.resume(stopped)
    wanted = LEASE_S + GRACE_S
    late = first["exited_at"] - paused_at - wanted
    print(
        f"gangs: a run on a silent node is given up {late:.1f} s after lease and grace ({wanted:g} s; at most"
        f" 5 s wanted), in all {(late + wanted) / wanted:.2f} times that, and runs elsewhere"
        f" {second['started_at'] - first['exited_at']:.1f} s later"
    )
    found.client.cancel(id, now=True)
    _until_idle(found)


def _until_idle(found: Bench) -> None:
    until(lambda: not list(found.client.jobs()), "no job is left", within_s=LONG_S)
