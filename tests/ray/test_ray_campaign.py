"""Many trainings on four nodes, preempted again and again, then disturbed: nothing is lost or doubled.

What is judged is what the processes themselves wrote about their slots, and what they have saved. The number
of trainings is TIRESIAS_RAY_TRAININGS (12 where it is not set; 40 in `make soak-ray`).
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest
from ray_lab import RayLab
from training_digest import digest_of

from tiresias.testing.executors import until

TRAININGS = int(os.environ.get("TIRESIAS_RAY_TRAININGS", "12"))
SEED = int(os.environ.get("TIRESIAS_RAY_SEED", "1"))
SIZES = (1, 2, 3, 4, 4, 6, 8, 12, 16)
LONGEST_S = 1500.0
MANAGER_EVERY_S, RAYLET_EVERY_S = 5.0, 20.0


class Campaign:
    """Trainings of all sizes on one lab; `steps` are those that each must make."""

    def __init__(self, lab: RayLab, rng: Random):
        self.lab, self.rng = lab, rng
        self.steps: dict[int, int] = {}

    def submit(self, number: int, step_s: float = 0.03) -> None:
        gpus = self.rng.choice(SIZES)
        nodes = -(-gpus // 4)
        workers = self.rng.choice((1, nodes)) if nodes == 1 else nodes
        steps = self.rng.randrange(40, 160)
        options = ["-g", str(gpus), "--workers", str(workers), "--grace", "5s", "--retries", "20"]
        options += ["--priority", self.rng.choice(("low", "normal", "high")), "--name", f"t{number}"]
        self.steps[self.lab.train(steps, step_s, *options)] = steps

    def all_ended(self) -> bool:
        with suppress(AssertionError):  # no manager answers at present
            found = json.loads(self.lab.tir("ls", "-a", "-o", "json").stdout)
            jobs = found["jobs"] if isinstance(found, dict) else found
            phases = {job["id"]: job["phase"] for job in jobs}
            return all(phases.get(id) in ("SUCCEEDED", "FAILED", "CANCELLED") for id in self.steps)
        return False

    def check(self) -> int:
        """Judge what has happened; returns the number of preemptions."""
        lab = self.lab
        preemptions = 0
        for id, steps in self.steps.items():
            job = lab.job(id)
            assert job["summary"]["phase"] == "SUCCEEDED", (id, job["summary"], job["runs"][-1])
            assert lab.steps(id) == (steps, digest_of(steps)), id
            preemptions += sum(run["cause"] == "preempted" for run in job["runs"])
        check_uses(lab.uses)
        assert not lab.processes(), "a process has outlived its run"
        return preemptions


def check_uses(uses: Path) -> None:
    """No slot was used by two workers at once, and no gang of which two workers met was partial."""
    spans: dict[str, list[tuple[float, float, str]]] = {}
    gangs: dict[str, tuple[set[int], int]] = {}
    for path in uses.iterdir():
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        begun = lines[0]
        until_at = lines[-1].get("until")
        if until_at is None:  # it was killed: the manager knew of its end before it used the slot again
            until_at = begun["at"]
        for slot in begun["slots"]:
            spans.setdefault(slot, []).append((begun["at"], until_at, path.name))
        run, _, worker = path.name.rpartition("-")
        members, size = gangs.setdefault(run, (set(), begun["workers"]))
        members.add(int(worker))
        assert len(members) <= size, run
    for slot, some in spans.items():
        some.sort()
        for (_, ended, one), (began, _, other) in pairwise(some):
            assert ended <= began, f"{one} and {other} had {slot} at the same time"


def finish(campaign: Campaign, disturb) -> int:
    deadline = monotonic() + LONGEST_S
    while not campaign.all_ended():
        assert monotonic() < deadline, campaign.lab.tir("ls", "-a", code=None).stdout
        disturb()
        sleep(0.2)
    return campaign.check()


@pytest.fixture
def lab(bed, tmp_path):
    made = RayLab(bed, tmp_path)
    made.up("--policy", "las", backoff_s=1.0, lease_s=8.0, most_lost_runs=1000)
    until(lambda: len(made.nodes()) == len(bed.boxes), "every node has joined", within_s=120)
    yield made
    made.end()


def test_trainings_of_all_sizes_finish_with_exactly_their_steps(lab):
    campaign = Campaign(lab, Random(SEED))
    for number in range(TRAININGS):
        campaign.submit(number)
    preemptions = finish(campaign, lambda: None)
    print(f"{TRAININGS} trainings, {preemptions} preemptions")
    assert preemptions >= TRAININGS // 2


def test_nothing_is_lost_or_doubled_while_managers_raylets_and_links_fail(lab, bed):
    """The manager is killed every 5 s and a raylet every 20 s; once a link is cut, once a node is paused."""
    rng = Random(SEED)
    campaign = Campaign(lab, rng)
    for number in range(max(6, TRAININGS // 2)):
        campaign.submit(number, step_s=0.1)
    campaign.steps[lab.train(600, 0.1, "-g", "2", "--grace", "5s", "--retries", "20")] = 600
    others = bed.boxes[1:]
    began = monotonic()
    kills, raylets, cuts, pauses = count(1), iter(others * 100), iter([others[0]]), iter([others[1]])
    done = {"manager": 0, "raylet": 0, "cut": 0, "pause": 0}

    def disturb() -> None:
        at = monotonic() - began
        if at > MANAGER_EVERY_S * (done["manager"] + 1):
            done["manager"] = next(kills)
            with suppress(FileNotFoundError, ProcessLookupError):
                os.kill(lab.pid(), signal.SIGKILL)
            lab.up(code=None)
        if at > RAYLET_EVERY_S * (done["raylet"] + 1):
            done["raylet"] += 1
            box = next(raylets)
            box.kill_raylet()
            box.start_node(labels=f"rack=r{box.number // 2}")
        if at > 12 and (box := next(cuts, None)):
            done["cut"] += 1
            box.cut()
            sleep(10)  # the length of the disturbance itself
            box.mend()
        if at > 30 and (box := next(pauses, None)):
            done["pause"] += 1
            stopped = box.pause()
            sleep(20)  # longer than lease and grace
            box.resume(stopped)

    finish(campaign, disturb)
    print(f"disturbances: {done}")
    assert done["manager"] >= 3
    assert done["raylet"] >= 2
    assert done["cut"] == done["pause"] == 1
