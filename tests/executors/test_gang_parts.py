"""Runs over several nodes: which node starts which workers, and what an executor of one node does."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.executors.base import RunPart, Slot, parts_of
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import Bench, until


def slots(**nodes: int) -> tuple[Slot, ...]:
    return tuple(Slot(node, index) for node, count in nodes.items() for index in range(count))


def shares(parts: tuple[RunPart, ...]) -> list[list[str]]:
    """The slots of each worker, in the order of the workers."""
    workers = [(part, part.first_worker + nth) for part in parts for nth in range(part.workers)]
    assert [worker for _, worker in workers] == list(range(len(workers)))
    return [[str(slot) for slot in part.slots_of(worker)] for part, worker in workers]


def test_a_gang_with_one_worker_has_one_per_node():
    parts = parts_of(slots(a=2, b=2), 1)
    assert [(part.node, part.rank, part.first_worker, part.workers) for part in parts] == [
        ("a", 0, 0, 1),
        ("b", 1, 1, 1),
    ]
    assert shares(parts) == [["a:0", "a:1"], ["b:0", "b:1"]]


def test_workers_are_shared_out_by_the_slots_of_the_nodes_and_never_straddle_them():
    assert shares(parts_of(slots(a=3, b=1), 4)) == [["a:0"], ["a:1"], ["a:2"], ["b:0"]]
    assert shares(parts_of(slots(a=3, b=1), 2)) == [["a:0", "a:1", "a:2"], ["b:0"]]
    whole = [f"b:{index}" for index in range(4)]
    assert shares(parts_of(slots(a=4, b=4), 3)) == [["a:0", "a:1"], ["a:2", "a:3"], whole]


def test_nodes_of_one_machine_are_one_part():
    later = tuple(replace(slot, machine="a") for slot in slots(**{"a-2": 2}))
    [part] = parts_of((*slots(a=2), *later), 1)
    assert (part.node, len(part.slots), part.workers) == ("a", 4, 1)


def test_a_run_without_slots_has_no_parts():
    assert parts_of((), 3) == ()


@pytest.fixture
def two_nodes(tmp_path: Path):
    """Two executors, as two nodes with one shared folder would have them."""
    benches = []
    for name in ("a", "b"):
        executor = LocalExecutor(tmp_path / name)
        benches.append(Bench(executor, tmp_path))
    yield benches
    for bench in benches:
        for run_id in bench.specs:
            bench.executor.stop(run_id, 0.0)
        for run_id in bench.specs:
            bench.gone(run_id)
        bench.executor.close()


def test_each_node_starts_its_own_workers_in_the_directory_of_the_run(two_nodes):
    names = (
        "TIRESIAS_WORKER TIRESIAS_WORKERS RANK LOCAL_RANK WORLD_SIZE TIRESIAS_NODE_RANK TIRESIAS_SLOTS"
        " MASTER_ADDR MASTER_PORT"
    )
    shows = f"import os; print(*map(os.environ.get, {names!r}.split()))"
    for bench, node in zip(two_nodes, "ab", strict=True):
        bench.start(
            sys.executable,
            "-c",
            shows,
            slots=slots(a=1, b=2),
            launcher="per-gpu",
            node=node,
            master_addr="192.0.2.1",
            master_port=2222,
        )
    for bench in two_nodes:
        gone = bench.gone()
        assert gone.status == 0, gone
    assert [len(bench.gone().exits) for bench in two_nodes] == [1, 2]
    run_dir = two_nodes[0].specs[1].run_dir
    assert sorted(path.name for path in run_dir.glob("*")) == [
        "job",
        "node-0",
        "node-1",
        "worker-0.log",
        "worker-1.log",
        "worker-2.log",
    ]
    logs = [(run_dir / f"worker-{nth}.log").read_text().split() for nth in range(3)]
    assert logs == [
        ["0", "3", "0", "0", "3", "0", "a:0", "192.0.2.1", "2222"],
        ["1", "3", "1", "0", "3", "1", "b:0", "192.0.2.1", "2222"],
        ["2", "3", "2", "1", "3", "1", "b:1", "192.0.2.1", "2222"],
    ]


def test_the_failure_of_a_part_shows_the_output_of_its_own_worker(two_nodes):
    _, second = two_nodes
    second.shell("echo broken on the second node; exit 3", slots=slots(a=1, b=1), node="b")
    gone = second.gone()
    assert (gone.status, gone.first_failed, gone.tail) == (3, 0, "broken on the second node")


def test_another_executor_of_the_same_node_adopts_its_part_and_no_other(two_nodes, tmp_path):
    first, second = two_nodes
    spec = first.shell("sleep 600", slots=slots(a=1, b=1), node="a")
    first.up()
    later = LocalExecutor(tmp_path / "a")
    try:
        assert later.adopt([spec]).running == [1]
        assert second.executor.adopt([replace(spec, node="b")]).absent == [1]
        later.stop(spec.run_id, 0.0)
        until(lambda: first.has_ended())
    finally:
        later.close()
        second.executor.stop(spec.run_id)
