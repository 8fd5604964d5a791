"""Simulations with nodes of CPUs only: at the stated speed, while the GPUs are full."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tiresias.core.model import Cluster, Node
from tiresias.sim import simulate, traces
from tiresias.sim.clusters import ClusterError, parse
from tiresias.sim.errors import InputError
from tiresias.testing import a_trace, random_trace, story_of
from tiresias.testing.checkers import check_story

LAB = Cluster([Node("g", 4, rack="r0"), Node("c", 0, rack="r0", cpus=32)])
TWO = [(0.0, 4, 100.0), (0.0, 4, 100.0)]


def test_a_job_on_cpus_goes_at_its_speed_and_then_on_gpus() -> None:
    result = simulate(a_trace(TWO, cpu_speed=[None, 0.1]), LAB, "srtf", preemption_cost_s=12)
    # 100 s at a tenth, 2 s to save, 10 s to load, and what is left of 100 s of work.
    assert result.jobs["finished_at"].to_list() == [100, 100 + 2 + 10 + 90]
    assert result.jobs["service_gpu_s"].to_list() == [400, 4 * 100]
    assert result.jobs["wait_s"].to_list() == [0, 0]
    assert result.jobs["first_started_at"].to_list() == [0, 0]
    assert result.jobs["preemptions"].to_list() == [0, 0]
    assert result.jobs["moved_resumes"].to_list() == [0, 0]
    summary = result.summary()
    assert (summary["cpu_slots"], summary["cpu_runs"], summary["cpu_jobs"]) == (4, 1, 0)
    assert summary["cpu_work"] == pytest.approx(10 / 200)
    assert summary["gpu_utilization"] == pytest.approx(190 / 202)
    assert result.lost_gpu_s == 4 * 10  # to load on GPUs; to save on CPUs costs no GPU


def test_a_job_may_end_on_cpus() -> None:
    rows = [(0.0, 4, 1000.0), (10.0, 1, 50.0)]
    result = simulate(a_trace(rows, cpu_speed=[0.0, 0.5]), LAB, "fifo-skip", use_cpus=True)
    assert result.jobs["finished_at"].to_list() == [1000, 110]
    assert result.jobs["first_started_at"].to_list() == [0, 10]
    assert result.summary()["cpu_jobs"] == 1


def test_the_speed_of_a_node_counts_too() -> None:
    fast = Cluster([Node("g", 4), Node("c", 0, cpus=32, speed=2.0)])
    rows = [(0.0, 4, 1000.0), (10.0, 1, 50.0)]
    result = simulate(a_trace(rows, priority=["high", "low"]), fast, "srsf", cpu_speed=0.25)
    assert result.jobs["finished_at"].to_list() == [1000, 110]


def test_a_default_speed_is_for_jobs_that_do_not_tell() -> None:
    trace = a_trace([(0.0, 4, 500.0)] + [(1.0, 1, 10.0)] * 3, cpu_speed=[0.0, None, 0.0, 0.5])
    ends = simulate(trace, LAB, "fifo-skip", use_cpus=True, cpu_speed=0.1).jobs["finished_at"].to_list()
    assert ends == [500, 101, 510, 21]


@pytest.mark.parametrize(
    ("policy", "settings", "runs"),
    [
        ("srsf", {}, True),
        ("srsf", {"use_cpus": False}, False),
        ("fifo", {}, False),
        ("fifo", {"use_cpus": True}, True),
    ],
)
def test_which_policies_use_cpus(policy: str, settings: dict[str, Any], runs: bool) -> None:
    result = simulate(a_trace(TWO), LAB, policy, cpu_speed=0.1, **settings)
    assert bool(result.summary()["cpu_runs"]) is runs


def test_without_cpus_there_are_no_figures_of_them() -> None:
    assert "cpu_runs" not in simulate(a_trace(TWO), "1x4", "srsf").summary()


@pytest.mark.parametrize("settings", [{"cpu_speed": 0.1}, {"use_cpus": True}])
def test_asking_for_cpus_that_are_not_there(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"no node with CPUs only; describe one in a cluster file \(gpus: 0"):
        simulate(a_trace(TWO), "1x4", "srsf", **settings)


@pytest.mark.parametrize("speed", [0.0, -1.0, 1.5, float("nan")])
def test_a_speed_that_is_none(speed: float) -> None:
    with pytest.raises(InputError, match="above 0 and up to 1"):
        simulate(a_trace(TWO), LAB, "srsf", cpu_speed=speed)


@pytest.mark.parametrize("policy", ["tiresias-l", "tiresias-g", "srsf"])
@pytest.mark.parametrize("cost_s", [0.0, 60.0])
def test_the_story_is_sound(policy: str, cost_s: float) -> None:
    for seed in range(4):
        rng = Random(seed)
        rows = random_trace(rng, 60, whole=seed % 2 == 0, longest_s=900)
        nodes = [Node("g0", 4), Node("c0", 0, cpus=24), Node("g1", 4), Node("c1", 0, cpus=40)]
        speeds = [rng.choice((0.0, 0.05, 0.4)) for _ in rows]
        story = story_of(
            a_trace(rows, cpu_speed=speeds), Cluster(nodes), policy, placer="packed", preemption_cost_s=cost_s
        )
        check_story(story)
        assert story.result.on_cpus is not None
        assert story.result.on_cpus.runs > 5


def test_the_figures_are_better_with_them_where_the_gpus_are_full() -> None:
    trace = traces.load("builtin:testbed-480")
    cluster = Cluster([*parse("15x4").nodes, *(Node(f"c{i}", 0, cpus=64) for i in range(10))])
    plain = simulate(trace, "15x4")
    unused = simulate(trace, cluster)
    assert unused.jobs.equals(plain.jobs)
    used = simulate(trace, cluster, cpu_speed=0.1)
    assert used.summary()["avg_jct_s"] < 0.95 * plain.summary()["avg_jct_s"]


def test_nodes_of_cpus_in_a_cluster_file(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(
        "nodes: [{gpus: 4}, {gpus: 0, cpus: 64, count: 2}, {gpus: 0, cpus: 64, cpus_per_slot: 16}]"
    )
    cluster = parse(str(path))
    assert cluster.gpus == 4
    assert [node.cpu_slots for node in cluster.nodes] == [0, 8, 8, 4]
    for text, expected in (
        ("{gpus: 0}", "must be from 1 to 1,000,000. A node with CPUs only has gpus: 0 and a number of cpus"),
        ("{gpus: 0, cpus: 7}", "cpus: 7 cores are not one slot of 8"),
        ("{gpus: 0, cpus: 64, gpu_type: P100}", "a node without GPUs has neither gpu_type nor sockets"),
        ("{gpus: 0, cpus: 64, cpus_per_slot: 0}", "cpus_per_slot: 0 must be from 1"),
        ("{gpus: 0, cpus: 1000000, cpus_per_slot: 1, count: 9}", "9,000,000 slots of CPUs in all"),
    ):
        path.write_text(f"nodes: [{{gpus: 4}}, {text}]")
        with pytest.raises(ClusterError) as caught:
            parse(str(path))
        assert expected in str(caught.value)
    path.write_text("nodes: [{gpus: 0, cpus: 64}]")
    with pytest.raises(ClusterError, match="0 GPUs in all"):
        parse(str(path))


def test_the_column_of_our_own_format(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submitted_at,gpus,duration_s,cpu_speed\n0,1,10,0.25\n0,1,10,\n0,1,10,0\n")
    assert traces.load(path).jobs["cpu_speed"].to_list() == [0.25, None, 0.0]
    path.write_text("submitted_at,gpus,duration_s,cpu_speed\n0,1,10,1.5\n")
    with pytest.raises(traces.TraceError, match=r"column cpu_speed: '1\.5' is above 1"):
        traces.load(path)


def test_a_picture_shows_gpus_only(tmp_path: Path) -> None:
    from tiresias.sim.picture import Moment
    from tiresias.sim.report import write_picture

    moment = Moment(50.0)
    result = simulate(a_trace(TWO), LAB, "srsf", cpu_speed=0.1, moment=moment)
    assert set(moment.holders.values()) == {0}
    assert write_picture(moment, result.cluster, "lab", tmp_path).stat().st_size > 1000
