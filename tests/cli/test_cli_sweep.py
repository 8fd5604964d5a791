"""`tiresias sweep`: a grid that grows on disk, survives kills, and shows its frontier."""

from __future__ import annotations

import csv
import fcntl
from pathlib import Path

import pytest

SMALL = ("sweep", "builtin:example", "--clusters", "1x2,1x4", "--policies", "fifo,tiresias-l")


def grid(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_combination_is_a_row(tiresias, tmp_path):
    spans = ("--set", "queues=4", "--set", "queues=8", "--set", "order=first-start")
    outcome = tiresias(*SMALL, *spans, "--out", "g.csv")
    assert outcome.code == 0
    cells = [(row["cluster"], row["policy"], row["options"]) for row in grid(tmp_path / "g.csv")]
    assert sorted(cells) == [
        (cluster, policy, options)
        for cluster in ("1x2", "1x4")
        for policy, options in (
            ("fifo", ""),
            ("tiresias-l", "queues=4 order=first-start"),
            ("tiresias-l", "queues=8 order=first-start"),
        )
    ]
    assert "queues applies to tiresias-l; fifo has no such option" in outcome.err
    assert "6 cells simulated, 0 taken from g.csv" in outcome.err


@pytest.mark.usefixtures("without_workers")
def test_the_table_is_sweep_csv_unless_said_otherwise(tiresias, tmp_path):
    assert tiresias(*SMALL).code == 0
    assert len(grid(tmp_path / "sweep.csv")) == 4


@pytest.mark.usefixtures("without_workers")
def test_the_best_of_each_size_is_shown_and_marked(tiresias):
    policies = ("--policies", "fifo,tiresias-l")
    outcome = tiresias("sweep", "builtin:testbed-480", "--clusters", "12x4,15x4", *policies)
    lines = [line.split() for line in outcome.out.splitlines() if line.startswith(("12x4", "15x4"))]
    assert [(line[0], line[1], line[-1]) for line in lines] == [
        ("12x4", "tiresias-l", "yes"),
        ("15x4", "tiresias-l", "yes"),
    ]


def test_finished_cells_are_not_run_again(tiresias, tmp_path):
    first = tiresias(*SMALL)
    before = (tmp_path / "sweep.csv").read_bytes()
    again = tiresias(*SMALL)
    assert "0 cells simulated, 4 taken from sweep.csv" in again.err
    assert again.out == first.out
    assert (tmp_path / "sweep.csv").read_bytes() == before
    more = tiresias("sweep", "builtin:example", "--clusters", "1x2,1x4,1x6", "--policies", "fifo,tiresias-l")
    assert "2 cells simulated, 4 taken from sweep.csv" in more.err


@pytest.mark.usefixtures("without_workers")
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (("--preemption-cost", "5"), "4 cells simulated, 0 taken"),
        (("--placer", "count"), "4 cells simulated, 0 taken"),
        (("--set", "queues=3"), "2 cells simulated, 2 taken"),  # fifo has no such option
        (("--set", "queues=auto"), "0 cells simulated, 4 taken"),  # the default, spelt out
    ],
)
def test_whatever_changes_a_cell_makes_it_another_cell(tiresias, changed, expected):
    assert tiresias(*SMALL).err == "note: 4 cells simulated, 0 taken from sweep.csv\n"
    assert expected in tiresias(*SMALL, *changed).err


@pytest.mark.usefixtures("without_workers")
def test_the_content_of_the_trace_counts_not_its_name(tiresias, tmp_path, two_jobs):
    base = ("--clusters", "1x4", "--policies", "fifo")
    tiresias("sweep", two_jobs, *base)
    (tmp_path / "copy.csv").write_text((tmp_path / two_jobs).read_text())
    assert "1 taken" in tiresias("sweep", "copy.csv", *base).err
    (tmp_path / two_jobs).write_text((tmp_path / two_jobs).read_text().replace("20", "21"))
    assert "1 cell simulated, 0 taken" in tiresias("sweep", two_jobs, *base).err


@pytest.mark.usefixtures("without_workers")
def test_a_line_torn_by_a_kill_is_run_again(tiresias, tmp_path):
    whole = tiresias(*SMALL)
    path = tmp_path / "sweep.csv"
    path.write_bytes(path.read_bytes()[:-40])
    outcome = tiresias(*SMALL)
    assert "1 cell simulated, 3 taken from sweep.csv" in outcome.err
    assert outcome.out == whole.out
    assert len(grid(path)) == 4


@pytest.mark.usefixtures("without_workers")
@pytest.mark.parametrize("size", [0, 7])
def test_a_kill_at_the_very_start_leaves_a_usable_table(tiresias, tmp_path, size):
    tiresias(*SMALL)
    path = tmp_path / "sweep.csv"
    path.write_bytes(path.read_bytes()[:size])
    assert "4 cells simulated, 0 taken" in tiresias(*SMALL).err
    assert len(grid(path)) == 4


@pytest.mark.usefixtures("without_workers")
def test_a_damaged_line_is_named(tiresias, tmp_path):
    tiresias(*SMALL)
    path = tmp_path / "sweep.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "nonsense", *lines[2:]]) + "\n")
    outcome = tiresias(*SMALL)
    assert outcome.code == 2
    assert "sweep.csv:3: not a row of a sweep" in outcome.err


def test_two_sweeps_never_write_one_table(tiresias, tmp_path):
    with (tmp_path / "sweep.csv").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        outcome = tiresias(*SMALL)
    assert outcome.code == 2
    assert "sweep.csv is being written by another sweep" in outcome.err


def test_seeds_vary_generated_traces_and_the_table_shows_their_mean(tiresias, tmp_path):
    outcome = tiresias(
        "sweep", "builtin:testbed-480", "--clusters", "15x4", "--policies", "fifo", "--seeds", "1,2,3"
    )
    averages = [float(row["avg_jct_s"]) for row in grid(tmp_path / "sweep.csv")]
    assert len(set(averages)) == 3
    assert "the mean over 3 seeds" in outcome.out
    (line,) = [line.split() for line in outcome.out.splitlines() if line.startswith("15x4")]
    assert float(line[4]) == pytest.approx(sum(averages) / 3 / 3600, abs=0.005)


@pytest.mark.usefixtures("without_workers")
def test_a_cluster_that_rejects_jobs_is_not_compared_with_one_that_takes_them(tiresias, tmp_path):
    (tmp_path / "t.csv").write_text("id,submitted_at,gpus,duration_s\na,0,1,10\nb,0,8,1000\n")
    outcome = tiresias("sweep", "t.csv", "--clusters", "1x4,1x8", "--policies", "fifo")
    assert "1x4 rejected more jobs than the other clusters" in outcome.err
    assert [line.split()[0] for line in outcome.out.splitlines() if line.startswith("1x")] == ["1x8"]
    assert len(grid(tmp_path / "sweep.csv")) == 2


def test_ctrl_c_keeps_what_is_finished(tiresias, tmp_path, monkeypatch):
    from tiresias.sim.report import SweepFile

    append = SweepFile.append

    def press_ctrl_c(self, row):
        append(self, row)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SweepFile, "append", press_ctrl_c)
        outcome = tiresias(*SMALL)
    assert outcome.code == 130
    assert "interrupted: 3 cells left; repeat the command to continue" in outcome.err
    assert len(grid(tmp_path / "sweep.csv")) == 1
    assert "3 cells simulated, 1 taken" in tiresias(*SMALL).err


def test_jobs_run_on_nodes_of_cpus_and_that_makes_another_cell(tiresias, tmp_path):
    (tmp_path / "lab.yaml").write_text("nodes: [{gpus: 4}, {gpus: 0, cpus: 32}]\n")
    (tmp_path / "t.csv").write_text("submitted_at,gpus,duration_s\n0,4,1000\n0,4,1000\n")
    words = ("t.csv", "--policies", "srsf", "--preemption-cost", "0")
    sweeping = ("sweep", *words, "--clusters", "lab.yaml", "--out", "cpus.csv")
    jct_s = []
    for more in (
        [],
        ["--cpu-speed", "0.5"],
        ["--cpu-speed", "0.25"],
        ["--cpu-speed", "0.5", "--no-use-cpus"],
    ):
        for found in ("1 cell simulated, 0 taken", "0 cells simulated, 1 taken"):
            assert found in tiresias(*sweeping, *more).err
        with (tmp_path / "cpus.csv").open() as table:
            jct_s.append(float(list(csv.DictReader(table))[-1]["avg_jct_s"]))
    assert jct_s == [1500, 1250, 1375, 1500]


def test_a_cluster_without_the_cpus_that_are_asked_for_is_named(tiresias, two_jobs, tmp_path):
    (tmp_path / "lab.yaml").write_text("nodes: [{gpus: 4}, {gpus: 0, cpus: 32}]\n")
    sizes = ("--clusters", "lab.yaml,2x4", "--policies", "srsf")
    wrong = ((("--cpu-speed", "0.1"), "speed on CPUs 0.1"), (("--use-cpus",), "asked to use CPUs"))
    for more, message in wrong:
        done = tiresias("sweep", two_jobs, *sizes, *more)
        assert done.code == 2
        assert f"2x4: {message}: the cluster has no node with CPUs only" in " ".join(done.err.split())
    assert not (tmp_path / "sweep.csv").exists()


def test_a_sweep_takes_allocators_and_their_options(tiresias, two_jobs):
    asked = (
        "--policies",
        "two-level,themis",
        "--set",
        "themis.f=0.5",
        "--set",
        "themis.f=0.8",
        "--out",
        "s.csv",
    )
    outcome = tiresias("sweep", two_jobs, "--clusters", "1x4", *asked)
    assert outcome.code == 0, outcome.err
    assert "two-level" in outcome.out or "themis" in outcome.out
