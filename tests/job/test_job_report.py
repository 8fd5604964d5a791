"""Reports are written whole and at most once per second, and the last one is always written."""

from __future__ import annotations

import os
import signal
import threading
from itertools import pairwise
from types import SimpleNamespace

import pytest

from tiresias.job import _reporter
from tiresias.job._job import Job
from tiresias.job._reporter import Reporter
from tiresias.job.reports import read_reports


@pytest.fixture
def clock(monkeypatch):
    """The clock of the reporter, which tests set."""
    made = SimpleNamespace(now=100.0)
    made.monotonic = lambda: made.now
    made.time = lambda: made.now + 1_700_000_000
    monkeypatch.setattr(_reporter, "time", made)
    return made


@pytest.fixture
def reporter(tmp_path, clock):
    return Reporter(str(tmp_path / "report-0.jsonl"))


def steps(path):
    return [report.step for report in read_reports(path).reports]


def test_the_first_report_is_written_at_once_and_then_one_per_second(reporter, clock, tmp_path):
    for step in range(50):
        clock.now = 100 + step / 10
        reporter.report(step=step, total_steps=50, loss=1 / (step + 1))
    assert steps(tmp_path) == [0, 10, 20, 30, 40]
    reporter.flush()
    assert steps(tmp_path) == [0, 10, 20, 30, 40, 49]


def test_a_flush_writes_nothing_twice(reporter, tmp_path):
    reporter.flush()
    reporter.report(step=1, total_steps=2)
    reporter.flush()
    assert steps(tmp_path) == [1]


def test_a_report_is_dated_when_it_was_made_not_when_it_was_written(reporter, clock, tmp_path):
    reporter.report(step=1, total_steps=9)
    clock.now = 100.5
    reporter.report(step=2, total_steps=9)
    clock.now = 500
    reporter.flush()
    assert [report.at - 1_700_000_000 for report in read_reports(tmp_path).reports] == [100, 100.5]


def test_a_metric_that_is_reported_rarely_is_not_lost(reporter, clock, tmp_path):
    reporter.report(step=1, total_steps=100, loss=3.0)
    reporter.report(step=2, loss=2.0, accuracy=0.5)
    clock.now += 1
    reporter.report(step=3, loss=1.0)
    last = read_reports(tmp_path).reports[-1]
    assert (last.step, last.total_steps, last.metrics) == (3, 100, {"loss": 1.0, "accuracy": 0.5})


def test_a_long_training_writes_less_often_but_at_least_every_ten_seconds(reporter, clock, tmp_path):
    for _ in range(48 * 3600):
        clock.now += 1
        reporter.report(step=int(clock.now))
    written = steps(tmp_path)[:20_000]
    gaps = [after - before for before, after in pairwise(written)]
    assert gaps[:3000] == [1] * 3000
    assert gaps == sorted(gaps)
    assert gaps[-1] == 10


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (0.5, 0.5),
        (3, 3),
        (True, True),
        (None, None),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("text" * 100, ("text" * 100)[:200]),
        ([1, 2], "[1, 2]"),
        pytest.param(16**5000, "0x1" + "0" * 197, id="huge"),
        (SimpleNamespace(item=lambda: 0.25), 0.25),
    ],
)
def test_any_value_can_be_reported_and_read(reporter, tmp_path, value, read):
    reporter.report(step=1, total_steps=1, metric=value)
    [report] = read_reports(tmp_path).reports
    assert report.metrics == {"metric": read}


def test_numpy_scalars_are_numbers_and_arrays_are_text(reporter, tmp_path):
    numpy = pytest.importorskip("numpy")
    metrics = {"loss": numpy.float32(0.5), "all": numpy.zeros(3)}
    reporter.report(step=numpy.int64(7), total_steps=numpy.int32(9), **metrics)
    [report] = read_reports(tmp_path).reports
    assert (report.step, report.total_steps) == (7, 9)
    assert report.metrics == {"loss": 0.5, "all": "[0. 0. 0.]"}


def test_metrics_that_are_too_long_are_left_out_and_the_step_stays(reporter, tmp_path):
    reporter.report(step=1, total_steps=2, **{f"metric{number}": "x" * 150 for number in range(200)})
    [report] = read_reports(tmp_path).reports
    assert (report.step, report.metrics) == (1, {})


def test_after_a_torn_line_the_next_report_has_a_line_of_its_own(reporter, tmp_path):
    (tmp_path / "report-0.jsonl").write_bytes(b'{"at":1,"step":1}\n{"at":2,"st')
    reporter.report(step=7, total_steps=9)
    assert steps(tmp_path) == [1, 7]


def test_a_report_that_cannot_be_written_causes_one_warning_and_no_failure(clock, tmp_path, capsys):
    reporter = Reporter(str(tmp_path / "gone" / "report-0.jsonl"))
    for _ in range(3):
        clock.now += 1
        reporter.report(step=1, total_steps=2)
    path = tmp_path / "gone" / "report-0.jsonl"
    warning = f"tiresias.job: cannot write {path}: No such file or directory; the training continues"
    assert capsys.readouterr().err.startswith(warning)
    (tmp_path / "gone").mkdir()
    clock.now += 1
    reporter.report(step=2, total_steps=2)
    assert capsys.readouterr().err == ""
    assert steps(tmp_path / "gone") == [2]


def test_threads_that_report_at_once_leave_whole_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(_reporter, "EVERY_S", 0.0)
    monkeypatch.setattr(_reporter, "SLOWER_AFTER_S", float("inf"))
    reporter = Reporter(str(tmp_path / "report-0.jsonl"))
    threads = [threading.Thread(target=lambda: [reporter.report(step=i, x=i) for i in range(100)])]
    threads += [threading.Thread(target=lambda: [reporter.flush() for _ in range(100)])]
    threads += [threading.Thread(target=lambda: [reporter.report(step=i, y=i) for i in range(100)])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / "report-0.jsonl").read_bytes().splitlines()
    assert len(read_reports(tmp_path).reports) == len(lines) == 200


ENDINGS = ["sys.exit(3)", "raise ValueError", "job.preempted()", "job.finished()", ""]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_last_report_is_written_however_the_training_ends(trainings, ending):
    code = f"""
        import sys
        from tiresias import job
        for step in range(10):
            job.report(step=step, total_steps=10)
        {ending}
        """
    trainings.start(code).communicate(timeout=30)
    assert steps(trainings.run_dir) == [0, 9]


def test_a_forked_child_does_not_write_the_report_of_its_parent(trainings):
    code = """
        import os, sys
        from tiresias import job
        job.report(step=1)
        job.report(step=2)
        if os.fork() == 0:
            sys.exit()
        os.wait()
        """
    trainings.start(code).communicate(timeout=30)
    assert steps(trainings.run_dir) == [1, 2]


def test_every_whole_line_of_a_killed_training_is_read(trainings):
    code = """
        import pathlib
        from tiresias import job
        from tiresias.job import _reporter
        _reporter.EVERY_S, _reporter.SLOWER_AFTER_S = 0.0, float("inf")
        step = 0
        while True:
            step += 1
            job.report(step=step, total_steps=10**9, loss=1 / step)
            if step == 200:
                pathlib.Path("ready").touch()
        """
    for number in range(3):
        training = trainings.start(code, TIRESIAS_WORKER=str(number))
        trainings.wait_for("ready")
        training.send_signal(signal.SIGKILL)
        training.wait(30)
        (trainings.path / "ready").unlink()
        data = (trainings.run_dir / f"report-{number}.jsonl").read_bytes()
        before, offset, found = -1, 0, []
        while offset != before:
            before = offset
            reports, offset = read_reports(trainings.run_dir, number, offset)
            found += [report.step for report in reports]
        assert b"\n" not in data[offset:]  # a write may be cut at a page boundary; that line is not read
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= 200


def test_the_first_report_of_a_preflight_can_be_read_at_once(trainings):
    code = "import sys\nfrom tiresias import job\njob.report(step=1)\nprint(flush=True)\nsys.stdin.read()"
    training = trainings.start(code, TIRESIAS_PREFLIGHT="1")
    training.stdout.readline()
    assert steps(trainings.run_dir) == [1]


def test_each_worker_has_a_file_and_under_torchrun_one_process_writes_it(tmp_path):
    for worker, local_rank in (("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")):
        ours = {"TIRESIAS_RUN_DIR": str(tmp_path), "TIRESIAS_WORKER": worker}
        job = Job({**ours, "TORCHELASTIC_RUN_ID": "none", "LOCAL_RANK": local_rank})
        job.report(step=int(worker) * 10 + int(local_rank))
    assert sorted(os.listdir(tmp_path)) == ["report-0.jsonl", "report-1.jsonl"]
    by_worker = [read_reports(tmp_path, worker).reports for worker in (0, 1)]
    assert [[report.step for report in reports] for reports in by_worker] == [[0], [10]]


def test_a_report_that_is_not_due_does_not_touch_the_file(reporter, tmp_path, monkeypatch):
    """`python -m benchmarks job` measures what such a call costs."""
    reporter.report(step=0)
    monkeypatch.setattr(_reporter, "append", lambda *_: pytest.fail("the file was written"))
    for step in range(100):
        reporter.report(step=step, total_steps=100, loss=0.5)
