"""Many simulations at once: what is run, in which order it comes back, and how it ends."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import tiresias
from tiresias.core.model import Cluster
from tiresias.core.plugins import OptionError
from tiresias.sim import experiment, simulate, traces
from tiresias.sim.errors import InputError
from tiresias.sim.experiment import (
    Cell,
    WorkerDied,
    compare,
    grid,
    key,
    run_cells,
    sweep,
    trace_digest,
    whole,
)
from tiresias.sim.trace import Trace

LISTS_MODULES = """
import sys
from tiresias.sim import traces
from tiresias.sim.experiment import Cell, run_cells

def loaded(result):
    return list(sys.modules)

if __name__ == "__main__":
    trace = traces.load("builtin:example")
    [(_, names)] = run_cells([Cell("tiresias", "1x2")], {None: trace}, loaded)
    print(*names)
"""


@pytest.fixture(scope="module")
def testbed() -> Trace:
    return traces.load("builtin:testbed-480", seed=1)


@pytest.fixture(scope="module")
def busy_trace() -> Trace:
    """Long enough to be seen at work."""
    return traces.generate("philly-like", jobs=50_000, load=0.9, cluster_gpus=256, seed=1)


def cell(**changes: object) -> Cell:
    return dataclasses.replace(Cell("tiresias-l", "15x4"), **changes)


class TestCompare:
    def test_it_measures_what_single_simulations_measure_in_the_order_asked_for(self, testbed):
        options = {"tiresias-l": {"queues": "3250"}}
        compared = compare(
            testbed, "15x4", ["tiresias-l", "fifo", "srsf"], options=options, preemption_cost_s=30
        )
        assert [result.policy for result in compared.results] == ["tiresias-l", "fifo", "srsf"]
        assert compared.unfinished == []
        for result in compared.results:
            alone = simulate(
                testbed,
                "15x4",
                result.policy,
                options=options.get(result.policy),
                preemption_cost_s=30,
            )
            assert result.jobs.equals(alone.jobs)
            assert result.timeline.equals(alone.timeline)

    def test_paths_frames_and_clusters_will_do(self, tmp_path):
        frame = pl.DataFrame({"submitted_at": [0.0, 0.0], "gpus": [4, 1], "duration_s": [100.0, 20.0]})
        (tmp_path / "t.csv").write_text("id,submitted_at,gpus,duration_s\n0,0,4,100\n1,0,1,20\n")
        for trace in (frame, tmp_path / "t.csv", str(tmp_path / "t.csv")):
            (result,) = compare(trace, Cluster.of(1, 4), ["fifo"]).results
            assert result.jobs["jct_s"].to_list() == [100.0, 120.0]

    def test_mistakes_are_found_before_any_process_starts(self, testbed, monkeypatch):
        monkeypatch.setattr(experiment, "_started", lambda keep: pytest.fail("a worker was started"))
        with pytest.raises(OptionError, match="no policy 'fido'"):
            compare(testbed, "15x4", ["fifo", "fido"])
        with pytest.raises(OptionError, match="no option 'queues'"):
            compare(testbed, "15x4", ["fifo"], options={"fifo": {"queues": 3}})
        with pytest.raises(InputError, match="not a cluster"):
            compare(testbed, "fifteen", ["fifo"])


class TestWorkers:
    def test_a_workers_mistake_comes_back_as_the_users(self, testbed):
        with pytest.raises(InputError, match="no placer 'nowhere'"):
            list(run_cells([cell(placer="nowhere")], {None: testbed}, whole))

    def test_a_worker_imports_only_what_simulations_need(self, tmp_path):
        script = tmp_path / "compares.py"
        script.write_text(LISTS_MODULES)
        done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=True)
        loaded = set(done.stdout.split())
        assert "tiresias.sim.simulate" in loaded
        unneeded = {"store", "sim.journal", "sim.plots", "live", "api", "executors", "observe"}
        assert not loaded & {f"tiresias.{each}" for each in unneeded}
        assert not loaded & {
            "sqlite3",
            "yaml",
            "matplotlib",
            "rich",
            "typer",
            "fastapi",
            "pydantic",
            "asyncio",
        }

    def test_a_dead_worker_is_noticed_and_named(self, busy_trace):
        def kill(number: int, done: int, total: int, at: float) -> None:
            for process in multiprocessing.active_children():
                os.kill(process.pid, signal.SIGKILL)

        with pytest.raises(WorkerDied, match="simulating tiresias-l on 32x8 was killed by SIGKILL"):
            list(run_cells([cell(cluster="32x8")], {None: busy_trace}, whole, progress=kill))
        assert multiprocessing.active_children() == []

    def test_a_script_that_starts_workers_as_it_is_imported_is_told_so(self, tmp_path):
        script = tmp_path / "script.py"
        script.write_text(
            "from tiresias.sim.experiment import compare\n"
            "compare('builtin:example', '1x2', ['fifo', 'fifo-skip'])\n"
        )
        done = subprocess.run([sys.executable, script], capture_output=True, text=True)
        assert done.returncode == 1
        assert 'a script that calls this needs `if __name__ == "__main__":`' in done.stderr
        assert "memory" not in done.stderr.splitlines()[-1]

    def test_workers_never_see_ctrl_c_their_parent_ends_them(self, busy_trace):
        blocked = []

        def look_and_press_ctrl_c(number: int, done: int, total: int, at: float) -> None:
            for process in multiprocessing.active_children():
                status = Path(f"/proc/{process.pid}/status").read_text()
                mask = int(status.split("SigBlk:")[1].split()[0], 16)
                blocked.append(bool(mask & 1 << (signal.SIGINT - 1)))
            raise KeyboardInterrupt

        compared = compare(
            busy_trace, "32x8", ["tiresias-l", "srsf", "fifo"], workers=2, progress=look_and_press_ctrl_c
        )
        assert blocked == [True, True]
        assert multiprocessing.active_children() == []
        assert len(compared.results) + len(compared.unfinished) == 3
        assert "fifo" in compared.unfinished  # it was the third in line for two workers

    def test_at_most_so_many_at_once(self, testbed, monkeypatch):
        started = []
        start = experiment._started

        def counted(keep):
            started.append(1)
            return start(keep)

        monkeypatch.setattr(experiment, "_started", counted)
        compare(testbed, "15x4", ["fifo", "sjf", "srsf"], workers=1)
        assert len(started) == 1

    def test_each_cell_gets_the_trace_of_its_seed(self):
        replayed = {seed: traces.load("builtin:testbed-480", seed=seed) for seed in (1, 2)}
        cells = [cell(policy="fifo", seed=seed) for seed in (1, 2, 1)]
        done = dict(run_cells(cells, replayed, whole, workers=1))
        averages = [done[number].summary()["avg_jct_s"] for number in range(3)]
        assert averages[0] == averages[2] != averages[1]


class TestGrid:
    def test_every_combination_once_seed_by_seed(self):
        cells = grid(
            ["1x4", "2x4"],
            ["fifo", "tiresias-l"],
            options={"tiresias-l": {"queues": ["1", "2"], "order": ["first-start"]}},
            seeds=[1, 2],
        )
        assert len(cells) == len(set(cells)) == 2 * 2 * (1 + 2)
        assert [each.seed for each in cells] == [1] * 6 + [2] * 6
        assert str(cells[1]) == "tiresias-l queues=1 order=first-start on 1x4, seed 1"

    @pytest.mark.parametrize(
        "change",
        [
            {"policy": "tiresias-g"},
            {"cluster": "15x5"},
            {"cluster": "2*15x4"},
            {"options": (("queues", "3"),)},
            {"placer": "count"},
            {"preemption_cost_s": 61.0},
        ],
        ids=str,
    )
    def test_what_changes_a_simulation_changes_its_key(self, change):
        assert key(cell(**change), "digest") != key(cell(), "digest")

    def test_so_do_the_trace_and_the_version(self, monkeypatch):
        before = key(cell(), "digest")
        assert key(cell(), "another") != before
        monkeypatch.setattr(tiresias, "__version__", "9.9.9")
        assert key(cell(), "digest") != before

    def test_what_means_the_same_has_the_same_key(self):
        assert key(cell(cluster=" 15 X 4 "), "digest") == key(cell(), "digest")
        assert key(cell(options=(("queues", "auto"),)), "digest") == key(cell(), "digest")
        spelt = [key(cell(options=(("queues", text),)), "digest") for text in ("3250,7200", "3250.0,7200")]
        assert spelt[0] == spelt[1]

    def test_a_file_counts_by_what_is_in_it(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        asked = cell(policy="tiresias-g", options=(("index", "table"), ("table", "@table")))
        keys = []
        for text in ("0:.25,1:.28", "0:0.25, 1:0.28", "0:.25,1:.29"):
            Path("table").write_text(text)
            keys.append(key(asked, "digest"))
        assert keys[0] == keys[1] != keys[2]

    def test_a_traces_digest_is_its_jobs_not_its_name(self, testbed):
        renamed = dataclasses.replace(testbed, name="other", notes=["x"])
        assert trace_digest(renamed) == trace_digest(testbed)
        longer = testbed.jobs.with_columns(duration_s=pl.col("duration_s") + 1)
        assert trace_digest(dataclasses.replace(testbed, jobs=longer)) != trace_digest(testbed)


class TestSweep:
    def test_rows_come_in_the_grids_order_and_cells_that_mean_the_same_run_once(self, tmp_path):
        trace = traces.load("builtin:example")
        cells = [cell(policy=name, cluster="1x4") for name in ("srsf", "fifo")]
        cells.append(cell(policy="fifo", cluster="1 x 4"))
        seen = []
        swept = sweep(cells, {None: trace}, tmp_path / "g.csv", on_row=lambda row: seen.append(row.policy))
        assert [row.policy for row in swept.rows] == ["srsf", "fifo"]
        assert sorted(seen) == ["fifo", "srsf"]
        assert (swept.reused, swept.unfinished) == (0, 0)
        seen.clear()
        again = sweep(cells, {None: trace}, tmp_path / "g.csv", on_row=lambda row: seen.append(row.policy))
        assert again.reused == 2
        assert seen == ["srsf", "fifo"]
        for first, second in zip(swept.rows, again.rows, strict=True):
            assert first.number("avg_jct_s") == second.number("avg_jct_s")

    def test_a_row_that_was_spelt_otherwise_is_named_as_this_grid_names_it(self, tmp_path):
        trace = traces.load("builtin:example")
        sweep([cell(cluster="1x4")], {None: trace}, tmp_path / "g.csv")
        spelt = cell(cluster="1x4", options=(("queues", "auto"),), seed=0)
        (row,) = sweep([spelt], {0: trace}, tmp_path / "g.csv").rows
        assert (row.options, row.seed) == ("queues=auto", 0)


class Others:
    """Other machines, as `Elsewhere` wishes them: what is called there shares nothing with this process."""

    def __init__(self, lost: tuple[int, ...] = ()):
        self.lost = lost
        self.at_once: int | None = None

    def run(self, work, calls, shared, *, at_once=None):
        self.at_once = at_once
        for number, (arguments, seed) in reversed(list(enumerate(calls))):
            if number in self.lost:
                yield number, ChildProcessError("its worker was lost 6 times")
            else:
                there, given, value = pickle.loads(pickle.dumps((work, arguments, shared[seed])))
                yield number, pickle.loads(pickle.dumps(there(*given, value)))


class TestElsewhere:
    def test_other_machines_measure_the_same(self, testbed):
        names = ["tiresias-l", "fifo", "srsf"]
        seen: list[tuple[int, int, int]] = []
        others = Others()
        away = compare(
            testbed, "15x4", names, workers=2, elsewhere=others, progress=lambda *what: seen.append(what[:3])
        )
        here = compare(testbed, "15x4", names)
        assert others.at_once == 2
        for one, other in zip(away.results, here.results, strict=True):
            assert one.policy == other.policy
            assert one.jobs.equals(other.jobs)
        assert seen == [(2, 480, 480), (1, 480, 480), (0, 480, 480)]

    def test_a_sweep_writes_the_same_table(self, tmp_path):
        replayed = {seed: traces.load("builtin:testbed-480", seed=seed) for seed in (1, 2)}
        cells = grid(["12x4", "15x4"], ["fifo"], seeds=[1, 2])
        away = sweep(cells, replayed, tmp_path / "away.csv", elsewhere=Others())
        here = sweep(cells, replayed, tmp_path / "here.csv")
        assert [(row.key, row.figures["avg_jct_s"]) for row in away.rows] == [
            (row.key, row.figures["avg_jct_s"]) for row in here.rows
        ]

    def test_a_cell_that_is_lost_for_good_is_named_and_what_has_finished_is_kept(self, testbed, tmp_path):
        cells = grid(["12x4", "15x4"], ["fifo"])
        with pytest.raises(WorkerDied, match="fifo on 12x4 was not simulated: its worker was lost 6 times"):
            sweep(cells, {None: testbed}, tmp_path / "g.csv", elsewhere=Others(lost=(0,)))
        again = sweep(cells, {None: testbed}, tmp_path / "g.csv", elsewhere=Others())
        assert again.reused == 1

    def test_a_plugin_that_is_missing_or_another_one_there_is_named(self, testbed, tmp_path, monkeypatch):
        """The file has changed, or gone, when the other machine looks for it."""
        plugin = tmp_path / "own.py"
        plugin.write_text("")
        monkeypatch.setenv("TIRESIAS_PLUGINS", str(plugin))

        class Changes(Others):
            def run(self, work, calls, shared, *, at_once=None):
                plugin.write_text("x = 1")
                yield from super().run(work, calls, shared, at_once=at_once)

        with pytest.raises(InputError, match=r"own.py: the content differs from that on this machine; every"):
            compare(testbed, "15x4", ["fifo"], elsewhere=Changes())

        class Misses(Others):
            def run(self, work, calls, shared, *, at_once=None):
                plugin.unlink()
                yield from super().run(work, calls, shared, at_once=at_once)

        with pytest.raises(InputError, match=r"No such file .*own.py'; every node needs the same plug-ins"):
            compare(testbed, "15x4", ["fifo"], elsewhere=Misses())
