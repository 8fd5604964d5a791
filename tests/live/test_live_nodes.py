"""Nodes that join, fall silent and return while the manager runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.model import Phase
from tiresias.executors.cgroup_parent import Limiting
from tiresias.live.answers import DryRun
from tiresias.live.errors import Impossible, NotFound
from tiresias.live.nodes import assigned, misnamed
from tiresias.live.submission import Submission
from tiresias.testing.live import ADMIN, LiveLab
from tiresias.testing.nodes import ToldNodes

FOREVER = "sleep 600"


@pytest.fixture
def nodes() -> ToldNodes:
    return ToldNodes()


def slots_of(lab: LiveLab, job: int) -> list[str]:
    return lab.manager.queries.runs(ADMIN, job)[-1].slots


def node(lab: LiveLab, name: str):
    return next(each for each in lab.manager.queries.nodes.all() if each.name == name)


def test_jobs_start_on_a_node_when_it_joins(tmp_path: Path, nodes: ToldNodes) -> None:
    with LiveLab(tmp_path, source=nodes) as lab:
        with pytest.raises(Impossible, match="there are 0 in all"):
            lab.submit(FOREVER)
        nodes.join("a", gpus=2, rack="r1", cpus=16, memory_bytes=1 << 34, address="192.0.2.1")
        lab.turn()
        job = lab.submit(FOREVER, gpus=2)
        lab.until_running(job)
        assert slots_of(lab, job) == ["a:0", "a:1"]
        found = node(lab, "a")
        assert (found.rack, found.cpus, found.memory_bytes, found.address) == ("r1", 16, 1 << 34, "192.0.2.1")
        other = lab.submit(FOREVER, gpus=2)
        assert lab.of(other).phase == Phase.PENDING
        nodes.join("b", gpus=2)
        lab.until_running(other)
        assert slots_of(lab, other) == ["b:0", "b:1"]
        invariants.check_plan(lab.manager.controller)


def test_a_terminal_is_refused_where_there_are_many_machines(tmp_path: Path, nodes: ToldNodes) -> None:
    """Its job might run on another one than the manager, where nobody can attach to it."""
    nodes.join("a", gpus=1)
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        with pytest.raises(Impossible, match="another machine than the manager's cannot be reached; use"):
            lab.submit(FOREVER, pty=True)
        assert lab.submit(FOREVER, interactive=True)


def test_nothing_new_starts_on_a_silent_node_and_its_runs_go_on(tmp_path: Path, nodes: ToldNodes) -> None:
    nodes.join("a", gpus=2)
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        running = lab.submit(FOREVER)
        lab.until_running(running)
        nodes.fall_silent("a")
        lab.turn()
        waiting = lab.submit(FOREVER)
        assert lab.of(waiting).phase == Phase.PENDING
        assert lab.of(running).phase == Phase.RUNNING
        found = node(lab, "a")
        assert (found.is_silent, found.is_drained) == (True, False)
        assert "does not answer" in found.reason
        why = lab.manager.queries.why(ADMIN, waiting)
        assert why.code == "OutOfService"
        assert "a (it does not answer" in why.text
        nodes.come_back("a")
        lab.until_running(waiting)
        assert not node(lab, "a").is_silent


def test_a_manager_that_is_started_again_waits_to_hear_from_a_silent_node(
    tmp_path: Path, nodes: ToldNodes
) -> None:
    nodes.join("a", gpus=1)
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        nodes.fall_silent("a")
        lab.turn()
        lab.restart()
        job = lab.submit(FOREVER)
        lab.turn()
        assert lab.of(job).phase == Phase.PENDING
        nodes.join("a", gpus=1)
        lab.until_running(job)
        assert [
            type(each.fact) for each in lab.manager.store.facts(0) if "Node" in type(each.fact).__name__
        ] == [
            f.NodeAdded,
            f.NodeFellSilent,
            f.NodeReturned,
        ]


def test_a_run_is_taken_over_whose_node_has_not_been_heard_of_yet(tmp_path: Path, nodes: ToldNodes) -> None:
    nodes.join("a", uuids=("GPU-x", "GPU-y"))
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        job = lab.submit(("/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 600"), gpus=2)
        lab.until(lambda: lab.output(job) == "GPU-x,GPU-y\n" and lab.of(job).phase == Phase.RUNNING)
        nodes.fall_silent("a")
        lab.restart()
        spec = lab.manager.dispatcher.spec(lab.manager.state.jobs[job])
        assert [slot.uuid for slot in spec.slots] == ["GPU-x", "GPU-y"]
        assert lab.of(job).phase == Phase.RUNNING


def test_a_node_keeps_its_slots_when_it_comes_back_with_its_gpus_in_another_order(
    tmp_path: Path, nodes: ToldNodes
) -> None:
    nodes.join("a", uuids=("GPU-x", "GPU-y", "GPU-z"))
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        nodes.fall_silent("a")
        lab.turn()
        nodes.join("a", uuids=("GPU-z", "GPU-x"), rack="r2", gpu_type="A100")
        lab.turn()
        found = node(lab, "a")
        assert [slot.state for slot in found.slots] == ["free", "out", "free"]
        assert [lab.manager.queries._machine.slot(f"a:{i}").uuid for i in range(3)] == [
            "GPU-x",
            "GPU-y",
            "GPU-z",
        ]
        assert (found.rack, found.gpu_type) == ("r2", "A100")
        nodes.join("a", uuids=("GPU-x", "GPU-new", "GPU-z"), rack="r2", gpu_type="A100")
        lab.turn()
        assert [slot.state for slot in node(lab, "a").slots] == ["free"] * 3
        assert lab.manager.queries._machine.slot("a:1").uuid == "GPU-new"


def test_an_unusable_node_is_listed_with_the_reason_and_used_when_it_joins(
    tmp_path: Path, nodes: ToldNodes
) -> None:
    with LiveLab(tmp_path, source=nodes) as lab:
        nodes.refuse("a", "it cannot write to the shared folder /lab")
        lab.turn()
        found = node(lab, "a")
        assert (found.gpus, found.is_silent, found.reason) == (
            0,
            True,
            "it cannot write to the shared folder /lab",
        )
        nodes.join("a", gpus=1)
        lab.turn()
        lab.until_running(lab.submit(FOREVER))
        nodes.refuse("a", "its shared folder is read-only now")
        lab.turn()
        assert node(lab, "a").reason == "its shared folder is read-only now"
        assert lab.of(lab.submit(FOREVER)).phase == Phase.PENDING


def test_gpus_that_their_node_reports_are_not_used_until_it_reports_otherwise(
    tmp_path: Path, nodes: ToldNodes
) -> None:
    nodes.join("a", gpus=2)
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        nodes.trouble("a", _0="used by others: pid 7", _1="77 uncorrected errors")
        lab.turn()
        states = [(slot.state, slot.reason) for slot in node(lab, "a").slots]
        assert states == [("foreign", "used by others: pid 7"), ("out", "unhealthy: 77 uncorrected errors")]
        nodes.trouble("a", _1="77 uncorrected errors")
        job = lab.submit(FOREVER)
        lab.until_running(job)
        assert slots_of(lab, job) == ["a:0"]


def test_an_administrator_drains_a_node_that_then_falls_silent_and_returns(
    tmp_path: Path, nodes: ToldNodes
) -> None:
    nodes.join("a", gpus=1)
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        lab.manager.requests.drain(ADMIN, "a", "new fans")
        nodes.fall_silent("a")
        lab.turn()
        assert node(lab, "a").reason.endswith("new fans")
        lab.manager.requests.undrain(ADMIN, "a")
        job = lab.submit(FOREVER)
        assert lab.of(job).phase == Phase.PENDING
        nodes.come_back("a")
        lab.until_running(job)


def test_a_job_runs_on_cpus_while_the_gpus_are_full_and_changes_to_gpus(
    tmp_path: Path, nodes: ToldNodes
) -> None:
    nodes.join("a", gpus=1)
    nodes.join("c", cpus=16)
    saves = "trap 'exit 75' TERM; echo $TIRESIAS_SLOTS; while :; do sleep 0.01; done"
    with LiveLab(tmp_path, source=nodes, policy="fifo-skip") as lab:
        lab.turn()
        first = lab.submit(FOREVER)
        lab.until_running(first)
        second = lab.submit(("/bin/sh", "-c", saves), cpu_speed=0.1)
        lab.manager.requests.set_policy(ADMIN, "tiresias-l", {})
        lab.until(lambda: lab.output(second) == "c:0\n")
        lab.until_running(second)
        assert lab.of(second).reason == "RunningOnCPUs"
        [cores] = [each for each in lab.manager.queries.nodes.all() if each.name == "c"]
        assert [(slot.name, slot.state, slot.gpu) for slot in cores.slots] == [
            ("c:0", "busy", "8 cores"),
            ("c:1", "free", "8 cores"),
        ]
        lab.manager.requests.cancel(ADMIN, first)
        lab.until(lambda: lab.output(second, 2) == "a:0\n")
        assert [run.slots for run in lab.manager.queries.runs(ADMIN, second)] == [["c:0"], ["a:0"]]
        lab.manager.requests.drain(ADMIN, "c:1")
        with pytest.raises(NotFound):
            lab.manager.requests.drain(ADMIN, "c:2")


@pytest.mark.parametrize(
    ("asked", "may", "more", "refusal", "needs"),
    [
        (
            {"gpu_type": "A100"},
            "ab",
            {"gpu_type": "B200"},
            "GPUs of type B200, and there are 4 A100",
            "1 GPU of its kind",
        ),
        (
            {"gpus": 3, "nodes": 3},
            "abc",
            {"gpus": 4, "nodes": 4},
            "asks for 4 nodes, and there are 3",
            "3 GPUs on 3 nodes",
        ),
        (
            {"gpus": 4, "gpus_per_node": 2},
            "abc",
            {"gpus": 6, "gpus_per_node": 3},
            "asks for 2 nodes with 3 GPUs each, and 0 have so many",
            "4 GPUs on 2 nodes",
        ),
        (
            {"cpus": 9},
            "a",
            {"cpus": 99},
            "asks for GPUs with 99 cores each, and no node has more than 16",
            "1 GPU of its kind",
        ),
        (
            {"memory_bytes": 9 << 30},
            "a",
            {"memory_bytes": 99 << 30},
            "asks for GPUs with 99 GiB",
            "1 GPU of its kind",
        ),
    ],
)
def test_what_a_job_asks_of_nodes_decides_where_it_would_run_and_is_explained(
    tmp_path: Path,
    nodes: ToldNodes,
    asked: dict[str, Any],
    may: str,
    more: dict[str, Any],
    refusal: str,
    needs: str,
) -> None:
    nodes.join("a", uuids=("GPU-1", "GPU-2"), gpu_type="A100", cpus=32, memory_bytes=32 << 30)
    nodes.join("b", uuids=("GPU-3", "GPU-4"), gpu_type="A100", cpus=8, memory_bytes=8 << 30)
    nodes.join("c", gpus=2, cpus=8, memory_bytes=8 << 30)
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        lab.manager.requests.machine.limiting = Limiting("", "")  # as on Ray: the nodes limit what they can

        def dry_run() -> DryRun:
            return lab.manager.requests.dry_run(ADMIN, Submission(("true",), str(tmp_path), **asked))

        found = dry_run()
        used = {slot.partition(":")[0] for slot in found.slots}
        assert found.starts_now
        assert used <= set(may)
        assert len(used) == asked.get("nodes", 2 if "gpus_per_node" in asked else 1)
        with pytest.raises(Impossible, match=refusal):
            lab.submit(FOREVER, **asked | more)
        for name in may:  # GPUs that are free elsewhere are not what the job asks for
            lab.manager.requests.drain(ADMIN, name)
        found = dry_run()
        assert not found.starts_now
        assert found.why is not None
        assert needs in found.why.text
        waiting = lab.submit(FOREVER, **asked)
        assert lab.of(waiting).phase == Phase.PENDING
        assert needs in lab.manager.queries.why(ADMIN, waiting).text
        if not asked.keys() & {"cpus", "memory_bytes"}:  # which this machine may not be able to limit
            for name in may:
                lab.manager.requests.undrain(ADMIN, name)
            lab.until_running(waiting)
            assert {slot.partition(":")[0] for slot in slots_of(lab, waiting)} <= set(may)


def test_gpus_keep_their_slots_by_uuid_and_new_ones_take_what_is_left(nodes: ToldNodes) -> None:
    gpus = nodes.join("a", uuids=("Z", "N", "X", "M")).gpus
    places = assigned(["a:0", "a:1", "a:2"], {"a:0": "X", "a:1": "Y", "a:2": "Z"}, gpus)
    assert {slot: gpu.uuid for slot, gpu in places.items()} == {"a:2": "Z", "a:0": "X", "a:1": "N"}


@pytest.mark.parametrize("name", ["", "a b", "a:1", "a/b", "x" * 201])
def test_a_node_whose_name_cannot_be_written_is_not_used(name: str, tmp_path: Path, nodes: ToldNodes) -> None:
    assert misnamed(name)
    nodes.join(name, gpus=1)
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        assert node(lab, name).gpus == 0


def test_what_still_runs_at_the_deadline_of_a_drain_goes_on_elsewhere(
    tmp_path: Path, nodes: ToldNodes
) -> None:
    nodes.join("a", gpus=1)
    with LiveLab(tmp_path, source=nodes) as lab:
        lab.turn()
        job = lab.submit(FOREVER)
        lab.until_running(job)
        nodes.join("b", gpus=1)
        lab.turn()
        lab.manager.requests.drain(ADMIN, "a", deadline_s=3600.0)
        lab.turn()
        lab.restart()  # another manager knows the deadline
        assert lab.manager.drains.next_due_at < lab.manager.now() + 3601
        assert lab.of(job).phase == Phase.RUNNING
        lab.manager.requests.drain(ADMIN, "a", deadline_s=0.0)
        lab.until(lambda: slots_of(lab, job) == ["b:0"])
        lab.until_running(job)
        assert lab.manager.drains.next_due_at == float("inf")


def test_a_node_on_which_different_jobs_keep_failing_is_taken_out_until_it_is_pardoned(
    tmp_path: Path, nodes: ToldNodes
) -> None:
    """Not for what fails by its own code, and never the last node."""
    nodes.join("a", gpus=1)
    with LiveLab(tmp_path, source=nodes, policy="fifo-skip") as lab:
        lab.turn()
        for name in "stuv":  # there is no other node
            lab.until_ended(lab.submit(("/no/such/program", name), retries=0, force=True))
        assert node(lab, "a").reason == ""
        nodes.join("b", gpus=1)
        lab.turn()
        blocker = lab.submit(FOREVER)
        lab.until_running(blocker)
        for name in "xyz":
            lab.until_ended(lab.submit(("sh", "-c", f"exit {name!r}"), retries=0, force=True))
        free = next(name for name in "ab" if f"{name}:0" not in slots_of(lab, blocker))
        lab.manager.requests.undrain(ADMIN, free)
        failed = [lab.submit(("/no/such/program", name), retries=0, force=True) for name in "klm"]
        for job in failed:
            lab.until_ended(job)
        assert node(lab, free).reason.startswith(f"jobs {', '.join(map(str, failed))} failed there")
        lab.manager.requests.undrain(ADMIN, free)
        assert node(lab, free).reason == ""
