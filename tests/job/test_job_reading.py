"""The manager reads files of user programs: it tolerates damage, is never blocked, and follows no link."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.job import reports
from tiresias.job.reports import Report, is_finished, parse, read_reports


def line(step: int, **more: object) -> bytes:
    return json.dumps({"at": 1000.0 + step, "step": step, **more}).encode() + b"\n"


def write(path, data: bytes) -> None:
    with open(path / "report-0.jsonl", "ab") as file:
        file.write(data)


def test_without_a_file_there_are_no_reports(tmp_path):
    assert read_reports(tmp_path) == ([], 0)
    assert read_reports(tmp_path / "no" / "run", 3, 17) == ([], 17)


def test_reading_continues_at_the_offset_and_leaves_an_incomplete_line_for_later(tmp_path):
    whole = line(1) + line(2)
    write(tmp_path, whole + line(3)[:7])
    assert read_reports(tmp_path) == ([Report(1001.0, 1), Report(1002.0, 2)], len(whole))
    assert read_reports(tmp_path, 0, len(whole)) == ([], len(whole))
    write(tmp_path, line(3)[7:])
    found, offset = read_reports(tmp_path, 0, len(whole))
    assert ([report.step for report in found], offset) == ([3], len(whole + line(3)))


@given(cuts=st.lists(st.integers(0, 400), max_size=12), steps=st.lists(st.integers(0, 99), max_size=12))
def test_each_report_is_read_once_however_the_file_grows(tmp_path_factory, cuts, steps):
    path = tmp_path_factory.mktemp("run")
    data = b"".join(line(step) for step in steps)
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    found, offset, begin = [], 0, 0
    for end in ends:
        write(path, data[begin:end])
        begin = end
        fresh, offset = read_reports(path, 0, offset)
        found += fresh
    assert [report.step for report in found] == steps
    assert offset == len(data)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\0\0\0\0",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"3",
        b"null",
        b'{"step":1}',
        b'{"at":"now","step":1}',
        b'{"at":true}',
        b'{"at":NaN}',
        b'{"at":-1}',
        b'{"at":1e400}',
        b"[" * 100_000,
        b"9" * 10_000,
    ],
)
def test_a_line_that_is_no_report_is_skipped(tmp_path, bad):
    write(tmp_path, line(1) + bad + b"\n" + line(2))
    found, offset = read_reports(tmp_path)
    assert [report.step for report in found] == [1, 2]
    assert offset == os.path.getsize(tmp_path / "report-0.jsonl")


@pytest.mark.parametrize("bad", ["true", '"7"', "-1", "NaN", "1e300", "[]", "{}"])
def test_a_field_with_a_wrong_value_counts_as_not_given(bad):
    text = f'{{"at":5,"step":{bad},"total_steps":{bad},"metrics":{{"x":{bad}}}}}'.encode()
    report = parse(text)
    assert report is not None
    assert (report.at, report.step, report.total_steps) == (5, None, None)
    json.dumps(report.metrics, allow_nan=False)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 4000, str(2**63)])
def test_a_whole_number_that_no_float_or_encoder_holds_is_text(number):
    report = parse(f'{{"at":5,"metrics":{{"loss":{number}}}}}'.encode())
    assert report is not None
    assert report.metrics == {"loss": number[:200]}


@given(st.binary(max_size=200))
def test_no_line_is_an_error(data):
    report = parse(data)
    assert report is None or report.at >= 0


def test_a_total_of_zero_steps_counts_as_not_known():
    report = parse(b'{"at":5,"step":0,"total_steps":0}')
    assert report == Report(5, 0, None)


def test_a_large_file_is_read_in_pieces_and_an_overlong_line_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "CHUNK_BYTES", 100)
    data = b"".join(line(step) for step in range(20)) + b"x" * 1000 + b"\n" + line(20)
    write(tmp_path, data)
    found, offset, before = [], 0, -1
    while offset != before:
        before = offset
        fresh, offset = read_reports(tmp_path, 0, offset)
        assert len(fresh) <= 4
        found += fresh
    assert [report.step for report in found] == list(range(21))


def test_a_file_that_became_shorter_is_read_from_its_beginning(tmp_path):
    write(tmp_path, line(1))
    assert [report.step for report in read_reports(tmp_path, 0, 10_000).reports] == [1]


def test_links_pipes_and_directories_are_not_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(line(1))
    (tmp_path / "report-0.jsonl").symlink_to(secret)
    os.mkfifo(tmp_path / "report-1.jsonl")
    (tmp_path / "report-2.jsonl").mkdir()
    assert [read_reports(tmp_path, worker) for worker in range(3)] == [([], 0)] * 3


def test_a_file_that_may_not_be_read_is_an_error(tmp_path, monkeypatch):
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(reports.os, "open", refuse)
    with pytest.raises(PermissionError):
        read_reports(tmp_path)


def test_the_marker_shows_that_the_work_is_complete(tmp_path):
    assert not is_finished(tmp_path)
    (tmp_path / "finished").touch()
    assert is_finished(tmp_path)
