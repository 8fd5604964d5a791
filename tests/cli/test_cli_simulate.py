"""`tiresias simulate`: figures on stdout, notes on stderr, files on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from unittest.mock import ANY

import pytest

from tiresias.sim.report import JOB_COLUMNS, OBJECTS, SUMMARY_KEYS

FIFO = ("--cluster", "1x4", "--policy", "fifo")


def test_json_is_one_object_with_the_promised_keys_in_order(tiresias, two_jobs):
    outcome = tiresias("simulate", two_jobs, *FIFO, "--json")
    assert outcome.code == 0
    assert [key for key in outcome.json if key not in OBJECTS] == list(SUMMARY_KEYS)
    figures = outcome.json | {"wall_s": 0, "events": 0}
    assert figures == {
        "policy": "fifo",
        "placer": "packed",
        "network": "none",
        "models": "",
        "jobs": 2,
        "rejected_jobs": 0,
        "gpus": 4,
        "avg_jct_s": 105.0,  # 100 and 90 + 20
        "p50_jct_s": 105.0,
        "p95_jct_s": 109.5,
        "p99_jct_s": 109.9,
        "max_jct_s": 110.0,
        "avg_wait_s": 45.0,
        "p95_wait_s": 85.5,
        "makespan_s": 120.0,
        "preemptions": 0,
        "lost_gpu_s": 0.0,
        "gpu_utilization": pytest.approx(420 / 480),
        "avg_slowdown": 1.0,
        "work_slowdown": 1.0,
        "avg_nodes_per_job": 1.0,
        "fragmentation_wait_s": 0.0,
        "migrations": 0,
        "moved_resumes": 0,
        "max_rho": pytest.approx(690 / 600),
        "p99_rho": pytest.approx(1.14, abs=0.01),
        "p50_rho": pytest.approx(1.0, abs=0.2),
        "jain": pytest.approx(1.0, abs=0.1),
        "shares": "trace",
        "tenants": {"": ANY},
        "events": 0,
        "wall_s": 0,
    }


def test_people_get_a_table_and_the_lines_they_want(tiresias, two_jobs):
    outcome = tiresias("simulate", two_jobs, *FIFO)
    assert "fifo on 1x4 (4 GPUs, packed), two.csv" in outcome.out
    assert "1.75 min" in outcome.out  # the average JCT
    assert "2 finished" in outcome.out
    assert "87.5%" in outcome.out
    assert outcome.err == ""


def test_rejected_jobs_and_skipped_rows_are_reported(tiresias, tmp_path):
    rows = "id,submitted_at,gpus,duration_s\na,0,1,10\nhuge,0,99,10\nbad,0,1,-5\n"
    (tmp_path / "t.csv").write_text(rows)
    outcome = tiresias("simulate", "t.csv", *FIFO, "--skip-bad-rows")
    assert "1 finished, 1 rejected, 1 bad row skipped" in outcome.out
    assert "1 job rejected: larger than the cluster's 4 GPUs" in outcome.err
    quiet = tiresias("simulate", "t.csv", *FIFO, "--skip-bad-rows", "--json")
    assert quiet.json["rejected_jobs"] == 1
    assert "rejected" in quiet.err


def test_where_no_job_fits_figures_are_null_and_files_are_written(tiresias, two_jobs, tmp_path):
    (tmp_path / "huge.csv").write_text("id,submitted_at,gpus,duration_s\nhuge,0,99,10\n")
    outcome = tiresias("simulate", "huge.csv", *FIFO, "--json", "--out", "o")
    assert outcome.code == 0
    assert outcome.json["avg_jct_s"] is None
    assert outcome.json["jobs"] == 0
    assert (tmp_path / "o/jct-cdf.png").exists()
    assert "–" in tiresias("simulate", "huge.csv", *FIFO).out


def test_out_writes_a_row_a_job_the_timeline_the_summary_and_plots(tiresias, two_jobs, tmp_path):
    outcome = tiresias("simulate", two_jobs, *FIFO, "--json", "--out", "deep/o")
    out = tmp_path / "deep/o"
    assert (out / "jobs.csv").read_text().splitlines() == [
        ",".join(JOB_COLUMNS),
        'long,4,0.0,0.0,100.0,100.0,0.0,1,0,400.0,"",1.0,1.0,0.0,0',
        'short,1,10.0,100.0,120.0,110.0,90.0,1,0,20.0,"",1.0,1.0,0.0,0',
    ]
    assert (out / "timeline.csv").read_text().splitlines() == [
        "at,busy_gpus,running,waiting",
        "0.0,4,1,0",
        "10.0,4,1,1",
        "100.0,1,1,0",
        "120.0,0,0,0",
    ]
    assert json.loads((out / "summary.json").read_text()) == outcome.json
    for name in ("jct-cdf.png", "timeline.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in out.iterdir()) == [
        "jct-cdf.png",
        "jobs.csv",
        "summary.json",
        "timeline.csv",
        "timeline.png",
    ]


def test_jobs_csv_is_the_same_bytes_whatever_the_hash_seed(tmp_path, outside_environment):
    simulate = ["simulate", "builtin:testbed-480", "--cluster", "15x4"]
    command = [sys.executable, "-m", "tiresias.cli.main", *simulate]
    written = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        environment = outside_environment | {"PYTHONHASHSEED": seed}
        subprocess.run([*command, "--out", out], env=environment, check=True, capture_output=True)
        written.append((out / "jobs.csv").read_bytes())
    assert len(written[0].splitlines()) == 481
    assert written[0] == written[1]


def test_set_placer_seed_and_cost_reach_the_simulation(tiresias):
    base = ("simulate", "builtin:testbed-480", "--cluster", "15x4", "--json")
    plain = tiresias(*base).json
    assert plain["policy"] == "tiresias"
    assert tiresias(*base, "--set", "stay=9").json["avg_jct_s"] != plain["avg_jct_s"]
    assert tiresias(*base, "--set", "tiresias.stay=9").json["avg_jct_s"] != plain["avg_jct_s"]
    assert tiresias(*base, "--seed", 5).json["avg_jct_s"] != plain["avg_jct_s"]
    assert tiresias(*base, "--preemption-cost", 0).json["lost_gpu_s"] == 0
    assert tiresias(*base, "--placer", "count").json["placer"] == "count"


def test_a_journal_is_written_where_asked(tiresias, two_jobs, tmp_path):
    assert tiresias("simulate", two_jobs, *FIFO, "--journal", "facts").code == 0
    assert (tmp_path / "facts").stat().st_size > 0


def test_ctrl_c_prints_what_was_measured_and_writes_nothing(tiresias, tmp_path, monkeypatch):
    def press_ctrl_c(done: int, total: int, at: float) -> None:
        if done > 50:
            raise KeyboardInterrupt

    @contextmanager
    def impatient_person(label: str, began_at: float) -> Iterator[object]:
        yield press_ctrl_c

    monkeypatch.setattr("tiresias.cli.simulate.one_bar", impatient_person)
    monkeypatch.setattr(sys.modules["tiresias.sim.simulate"], "PROGRESS_EVERY_S", 0.0)
    outcome = tiresias("simulate", "builtin:philly-like", "--cluster", "64x8", "--json", "--out", "o")
    assert outcome.code == 130
    assert 50 < outcome.json["jobs"] < 10_000
    assert f"interrupted: {outcome.json['jobs']:,} of 10,000 jobs had finished" in outcome.err
    assert "nothing is written to o" in outcome.err
    assert list((tmp_path / "o").iterdir()) == []


def test_a_full_disk_is_a_message(tiresias, two_jobs, tmp_path, monkeypatch):
    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device", "o/.jobs.csv.part")

    monkeypatch.setattr(Path, "replace", full)
    outcome = tiresias("simulate", two_jobs, *FIFO, "--out", "o")
    assert outcome.code == 2
    assert outcome.err == "Error: o/.jobs.csv.part: No space left on device\n"
    assert list((tmp_path / "o").iterdir()) == []


def test_a_picture_of_the_cluster(tiresias, two_jobs, tmp_path):
    outcome = tiresias("simulate", two_jobs, *FIFO, "--out", "o", "--at", "1m")
    assert outcome.code == 0
    assert (tmp_path / "o/cluster.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote o/cluster.png" in outcome.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--at", "1m"), "which needs a directory; add --out DIR"),
        (("--at", "soon", "--out", "o"), "--at soon: give a span of time from 0 up"),
        (("--at", "-3s", "--out", "o"), "--at -3s: give a span of time from 0 up"),
        (("--network", "filly"), "no network 'filly'; did you mean 'philly'"),
        (("--models", "none.yaml"), "--models none.yaml: no such file"),
        (("--cluster", "phily"), "'phily' is not a cluster. Did you mean 'philly'?"),
    ],
)
def test_options_of_placement_that_are_wrong(tiresias, two_jobs, options, message):
    answer = tiresias("simulate", two_jobs, *FIFO, *options)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_the_network_and_the_models_are_printed(tiresias, tmp_path):
    (tmp_path / "gang.csv").write_text("id,submitted_at,gpus,duration_s\na,0,2,100\n")
    asked = ("simulate", "gang.csv", "--cluster", "2x1", "--network", "consumer-10g", "--models", "3")
    assert "consumer-10g" in tiresias(*asked).out
    figures = tiresias(*asked, "--json").json
    assert (figures["network"], figures["models"]) == ("consumer-10g", "drawn (the paper's ten, seed 3)")
    assert figures["avg_nodes_per_job"] == 2


def test_jobs_run_on_nodes_of_cpus_while_the_gpus_are_full(tiresias, tmp_path):
    (tmp_path / "lab.yaml").write_text("nodes: [{gpus: 4}, {gpus: 0, cpus: 32}]\n")
    (tmp_path / "t.csv").write_text("submitted_at,gpus,duration_s\n0,4,1000\n0,4,1000\n")
    words = ("simulate", "t.csv", "--cluster", "lab.yaml", "--policy", "srsf")
    outcome = tiresias(*words, "--cpu-speed", "0.5")
    assert "on CPUs" in outcome.out
    assert "1 run, 0 jobs ended there, 25.0% of the work" in outcome.out
    assert tiresias(*words, "--cpu-speed", "0.5", "--json").json["cpu_runs"] == 1
    assert tiresias(*words, "--cpu-speed", "0.5", "--no-use-cpus", "--json").json["cpu_runs"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cpu-speed", "0.1"), "speed on CPUs 0.1: the cluster has no node with CPUs only"),
        (("--use-cpus",), "asked to use CPUs: the cluster has no node with CPUs only"),
        (("--cpu-speed", "2"), "speed on CPUs 2.0: give it relative to GPUs"),
    ],
)
def test_cpus_that_are_not_there_are_an_error_in_words(tiresias, two_jobs, words, message):
    done = tiresias("simulate", two_jobs, *FIFO, *words)
    assert done.code == 2
    assert message in " ".join(done.err.split())
