"""Who holds which slot at an instant, and the pictures of it."""

from __future__ import annotations

import polars as pl

from tiresias.core.model import Cluster
from tiresias.sim import placement_plots, simulate
from tiresias.sim.picture import Moment
from tiresias.testing import a_trace

TRACE = a_trace([(0.0, 3, 100.0), (10.0, 2, 50.0), (20.0, 4, 10.0)])


def at(instant: float) -> Moment:
    moment = Moment(instant)
    simulate(TRACE, "2x3", "fifo", moment=moment)
    return moment


def test_a_moment_between_two_instants_shows_what_holds_then():
    moment = at(15.0)
    assert moment.holders == {(0, 0): 0, (0, 1): 0, (0, 2): 0, (1, 0): 1, (1, 1): 1}
    assert (moment.free, moment.waiting) == (1, 0)
    assert moment.label(1) == "1: 2 GPUs on 1 node"


def test_what_happens_at_the_moment_itself_is_seen():
    assert set(at(10.0).jobs) == {0, 1}
    assert set(at(9.999).jobs) == {0}
    assert at(20.0).waiting == 1
    assert set(at(60.0).jobs) == {0}
    assert set(at(100.0).jobs) == {2}
    assert at(100.0).label(2) == "2: 4 GPUs on 2 nodes"


def test_after_the_end_all_slots_are_free():
    assert (at(1e9).holders, at(1e9).free) == ({}, 6)


def test_pictures_of_small_and_of_large_clusters(tmp_path):
    path = tmp_path / "cluster.png"
    for cluster in (Cluster.of(1, 1), Cluster.of(16, 8, racks=4), Cluster.of(300, 8)):
        moment = Moment(50.0)
        jobs = a_trace([(0.0, 1 + n % 4, 100.0) for n in range(40)])
        simulate(jobs, cluster, "fifo", moment=moment)
        placement_plots.draw_cluster(moment, cluster, "costs $5", path)
        assert path.stat().st_size < 1_000_000


def test_slowdown_by_model_is_that_of_gangs(tmp_path):
    trace = a_trace([(0.0, 2, 10.0), (0.0, 1, 10.0)], model=["vgg16", "resnet50"])
    result = simulate(trace, "3x1", "fifo", network="consumer-10g")
    assert placement_plots.slowdown_by_model(result) == {"vgg16": result.jobs["slowdown"][0]}
    path = tmp_path / "slowdown.png"
    result.jobs = pl.concat([result.jobs, result.jobs.with_columns(model=pl.lit(""))])
    placement_plots.draw_slowdown([result], path)
    assert path.read_bytes().startswith(b"\x89PNG")
