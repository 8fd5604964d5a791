"""Reading what trainings tell, however much they tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiresias.core.model import RunId
from tiresias.job.reports import Report
from tiresias.live import progress_reader
from tiresias.live.progress_reader import ProgressReader, Reading, read_loss

RUN = RunId(1)


def lines(steps: range, **metrics: object) -> bytes:
    reports = ({"at": 1000.0 + step, "step": step, "metrics": metrics} for step in steps)
    return b"".join(json.dumps(report).encode() + b"\n" for report in reports)


def test_of_a_long_story_the_beginning_and_the_end_are_read(tmp_path: Path, monkeypatch) -> None:
    bytes_read = []
    read = progress_reader.read_reports

    def counted(*arguments: object) -> object:
        found = read(*arguments)
        bytes_read.append(len(found.reports))
        return found

    monkeypatch.setattr(progress_reader, "read_reports", counted)
    path = tmp_path / "report-0.jsonl"
    path.write_bytes(b'{"at":1000.0,"step":0,"total_steps":500000}\n' + lines(range(1, 200_000), loss=0.5))
    reader = ProgressReader()
    found = reader.latest(RUN, tmp_path, 201_000.0)
    assert found is not None
    assert (found.step, found.total_steps, found.metrics) == (199_999, 500_000, {"loss": 0.5})
    assert found.steps_per_s is not None
    assert 0.9 < found.steps_per_s < 1.1
    assert sum(bytes_read) < 3000, "not all of it"
    assert reader.first_and_last(RUN, tmp_path, 201_000.0) == [[1000.0, 0], [200_999.0, 199_999]]
    with path.open("ab") as file:
        file.write(lines(range(200_000, 200_003)))
    assert reader.latest(RUN, tmp_path, 201_003.0).step == 200_002


def test_a_training_that_reports_without_end_does_not_delay_others(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "report-0.jsonl"
    path.write_bytes(lines(range(2000)))
    read, calls = progress_reader.read_reports, []

    def read_while_it_grows(*arguments: object) -> object:
        calls.append(arguments)
        with path.open("ab") as file:
            file.write(lines(range(2000 * len(calls), 2000 * (len(calls) + 1))))
        return read(*arguments)

    monkeypatch.setattr(progress_reader, "read_reports", read_while_it_grows)
    assert ProgressReader().latest(RUN, tmp_path, 2000.0) is not None
    assert len(calls) <= progress_reader.MOST_READS


@pytest.mark.parametrize("loss", [1e31, -1e31, float("inf"), True, "0.5"])
def test_a_loss_that_would_make_infinities_is_skipped_and_counted(loss: object) -> None:
    reading = Reading()
    read_loss(reading, Report(1000.0, 5, metrics={"loss": loss}))  # type: ignore[dict-item]
    assert (reading.loss, reading.skipped_losses) == (None, 1)


@pytest.mark.parametrize("epoch", [5e-324, -1.0, 1e10, float("nan")])
def test_an_epoch_that_cannot_be_is_not_taken_and_its_loss_is(epoch: float) -> None:
    reading = Reading()
    read_loss(reading, Report(1000.0, 5, metrics={"loss": 0.5, "epoch": epoch}))
    assert reading.loss == (5, 0.5, None, None)
