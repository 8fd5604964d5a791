"""Three apps that bid for the same GPUs under `themis`, with real processes; the manager is killed meanwhile.

TIRESIAS_LEASE_S sets the length of the leases: 5 s here, 20 s in `make soak`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from live_cli import Program, eventually

from tiresias.api.client import Client
from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import JobId, RunId
from tiresias.store import Reader
from tiresias.testing.kill import training

LEASE_S = float(os.environ.get("TIRESIAS_LEASE_S", "5"))
GRACE_S = 2.0
STEP_S = 0.05
STEPS = int(2 * LEASE_S / STEP_S)  # the work of two leases
PATIENCE_S = 60.0 + 40 * LEASE_S
BUSY_S = 60.0  # what a busy machine may need to end a process


def facts_of(home: Path) -> list[f.Fact]:
    with Reader(home / "journal.db") as reader:
        return [each.fact for each in reader.all_facts(0)]


def test_three_apps_share_gpus_by_leases_and_nothing_is_lost_when_the_manager_is_killed(
    fresh: Program, tmp_path: Path
) -> None:
    started = fresh("up", "--fake-gpus", "2", "--policy", "themis", "--set", f"lease_s={LEASE_S:g}")
    assert started.code == 0, started.err
    script = (sys.executable, training.__file__, STEPS, STEP_S)
    apps = {}
    for name, how in (("a", "good"), ("b", "good"), ("c", "stubborn")):
        folder = tmp_path / name
        given = (
            "-g",
            "2",
            "-n",
            name,
            "--ckpt-dir",
            folder,
            "--grace",
            f"{GRACE_S:g}s",
            "--resumable",
            "yes",
        )
        apps[JobId(fresh("submit", *given, "--", *script, how).id)] = folder
    with Client(fresh.home) as client:
        eventually(lambda: any(run["revoked_at"] for id in apps for run in client.runs(id)), PATIENCE_S)
        os.kill(client.status()["pid"], signal.SIGKILL)
        started = fresh("up")
        assert started.code == 0, started.err
        eventually(lambda: all(client.job(id)["summary"]["finished_at"] for id in apps), PATIENCE_S)
        assert {client.job(id)["summary"]["phase"] for id in apps} == {"SUCCEEDED"}
    for folder in apps.values():
        steps = [int(line.split()[0]) for line in (folder / training.STEPS).read_text().splitlines()]
        assert steps == list(range(1, STEPS + 1)), "a step was lost, or done twice"
        assert not (folder / training.TWICE).exists(), "two runs of a job worked at the same time"
    check_leases(facts_of(fresh.home))


def check_leases(facts: list[f.Fact]) -> None:
    """No run was stopped before its lease was over, and none that was stopped went on beyond its grace."""
    leases: dict[JobId, float] = {}
    jobs: dict[RunId, JobId] = {}
    holds: dict[tuple[int, int], RunId] = {}  # by node and slot
    stopped: dict[RunId, float] = {}
    for fact in facts:
        if isinstance(fact, f.WishChanged):
            leases |= {each.job_id: each.until for each in fact.given if each.until is not None}
        elif isinstance(fact, f.RunGranted):
            jobs[fact.run_id] = fact.job_id
            for slot in slots_of(fact.allocation):
                assert slot not in holds, ("a slot is held twice", fact, holds[slot])
                holds[slot] = fact.run_id
        elif isinstance(fact, f.RunRevoked):
            assert fact.at >= leases[jobs[fact.run_id]] - 1e-3, ("stopped in its lease", fact, leases)
            stopped[fact.run_id] = fact.at
        elif isinstance(fact, f.RunExited):
            holds = {slot: run for slot, run in holds.items() if run != fact.run_id}
            if fact.run_id in stopped:
                held_s = fact.at - stopped.pop(fact.run_id)
                assert held_s < GRACE_S + BUSY_S, ("held beyond its lease and its grace", fact, held_s)
                assert fact.cause in (ExitCause.PREEMPTED, ExitCause.FINISHED), fact
    assert not holds, "a slot is still held"
    assert not stopped, "a run that was stopped has not ended"
    assert len(jobs) > 3, "nobody had to wait for a second lease"


def slots_of(allocation: f.Allocation) -> list[tuple[int, int]]:
    return [(node, index) for node, mask in allocation for index in range(64) if mask >> index & 1]
