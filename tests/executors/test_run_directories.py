"""A run directory belongs to one run of one journal, and nothing in it counts for another run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.core.model import RunId
from tiresias.executors import run_files
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import Bench, processes_of

R1 = RunId(1)
OURS, OTHER = "a1" * 16, "b2" * 16


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    executor = LocalExecutor(tmp_path / "executor", linger_s=0.2)
    bench = Bench(executor, tmp_path)
    yield bench
    assert not processes_of(tmp_path)
    bench.executor.close()


def later(bench: Bench) -> Bench:
    """The executor of another manager, with the same directories."""
    bench.executor.close()
    bench.executor = LocalExecutor(bench.top / "later", linger_s=0.2)
    return Bench(bench.executor, bench.top)


def test_every_file_that_says_how_a_run_stands_names_its_journal_and_its_run(bench: Bench) -> None:
    spec = bench.shell("exit 0", journal=OURS)
    bench.gone()
    for name in (run_files.RUN, run_files.CLAIM, run_files.EXIT):
        found = run_files.read(str(spec.run_dir), name)
        assert found is not None
        assert (found["journal"], found["run_id"]) == (OURS, 1), name


@pytest.mark.parametrize("changes", [{"journal": OTHER}, {"run_id": RunId(2)}])
def test_the_exit_of_another_run_is_not_taken_for_ours(bench: Bench, changes: dict[str, object]) -> None:
    first = bench.shell("echo a secret; exit 0", journal=OURS)
    bench.gone()
    second = later(bench)
    spec = second.shell("exit 0", run_dir=first.run_dir, **{"journal": OURS, **changes})
    [gone] = second.executor.poll()
    assert (gone.run_id, gone.exits, gone.tail) == (spec.run_id, (), "")
    assert f"run 1 of the journal {OURS}" in gone.error
    assert str(first.run_dir) in gone.error


def test_a_living_run_of_another_journal_is_neither_adopted_nor_stopped(bench: Bench) -> None:
    spec = bench.shell("exec sleep 600", journal=OURS)
    bench.up()
    second = later(bench)
    adopted = second.executor.adopt([second.spec("true", run_dir=spec.run_dir, journal=OTHER)])
    assert (adopted.running, adopted.gone, adopted.absent) == ([], [R1], [])
    second.executor.stop(R1, grace_s=0.0)
    assert not run_files.exists(str(spec.run_dir), run_files.STOP)
    assert processes_of(bench.top)
    third = later(bench)  # which the run belongs to
    assert third.executor.adopt([spec]).running == [R1]
    third.specs = bench.specs
    third.executor.stop(R1, grace_s=0.0)
    assert third.gone().stopped


def test_a_run_of_an_earlier_version_whose_files_name_no_journal_is_adopted(bench: Bench) -> None:
    spec = bench.spec("true")
    spec.run_dir.mkdir(parents=True)
    worker = {"code": 0, "signal": None, "told": False, "error": ""}
    record = {"version": 1, "run_id": 1, "exits": [worker], "stopped": False, "lost": False, "error": ""}
    claim = {"version": 1, "boot_id": "x", "pid": 1, "start": 1, "port": 0}
    (spec.run_dir / run_files.CLAIM).write_text(json.dumps(claim))
    (spec.run_dir / run_files.EXIT).write_text(json.dumps(record))
    assert bench.executor.adopt([spec]).gone == [R1]
    assert bench.gone().status == 0


def test_a_run_that_a_journal_grants_after_its_migration_takes_no_files_of_before(bench: Bench) -> None:
    spec = bench.spec("true", journal=OURS)
    spec.run_dir.mkdir(parents=True)
    (spec.run_dir / run_files.EXIT).write_text(json.dumps({"version": 1, "run_id": 1, "exits": []}))
    assert bench.executor.adopt([spec]).gone == [R1]
    assert "of an earlier version" in bench.gone().error
