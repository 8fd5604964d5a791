"""Errors in a trace name the file, the line, the column, the value and the next step."""

from __future__ import annotations

import gzip

import polars as pl
import pytest

from tiresias.sim.errors import InputError
from tiresias.sim.traces import FORMATS, Trace, TraceError, load, write

HEADER = "id,submitted_at,gpus,duration_s\n"


@pytest.mark.parametrize(
    ("row", "column", "value", "why"),
    [
        ("a,0,x,1", "gpus", "'x'", "is not a number"),
        ("a,0,,1", "gpus", "''", "is empty"),
        ("a,0,-1,1", "gpus", "'-1'", "is below 0"),
        ("a,0,-4,1", "gpus", "'-4'", "is below 0"),
        ("a,0,1.5,1", "gpus", "'1.5'", "is not a whole number"),
        ("a,0,1e300,1", "gpus", "'1e300'", "is above 1,000,000"),
        ("a,0,nan,1", "gpus", "'nan'", "is not a finite number"),
        ("a,0,1,0", "duration_s", "'0'", "is not above 0"),
        ("a,0,1,-1", "duration_s", "'-1'", "is not above 0"),
        ("a,0,1,inf", "duration_s", "'inf'", "is not a finite number"),
        ("a,0,1,NaN", "duration_s", "'NaN'", "is not a finite number"),
        ("a,0,1,1e999", "duration_s", "'1e999'", "is not a finite number"),
        ("a,0,1,1 h", "duration_s", "'1 h'", "is not a number"),
        ("a,soon,1,1", "submitted_at", "'soon'", "is neither a number nor an ISO date and time"),
        ("a,2017-13-01 00:00:00,1,1", "submitted_at", "'2017-13-01 00:00:00'", "is neither a number"),
        ("a,,1,1", "submitted_at", "''", "is empty"),
        ("a,-5,1,1", "submitted_at", "'-5'", "is below 0"),
        ("a,-inf,1,1", "submitted_at", "'-inf'", "is not a finite number"),
        (
            "a,1507532515000,1,1",
            "submitted_at",
            "'1507532515000'",
            "is above 100,000,000,000 (in milliseconds, perhaps)",
        ),
        (" ,0,1,1", "id", "' '", "is empty"),
    ],
)
def test_a_bad_cell_is_named_with_its_place(given, complaint, row, column, value, why):
    path = given(f"{HEADER}ok,0,1,1\n\n{row}\n")
    message = complaint(path)
    assert message.startswith(f"{path}, line 4, column {column}: {value} {why}")
    assert "--skip-bad-rows" in message
    left = load(path, skip_bad_rows=True)
    assert left.jobs["id"].to_list() == ["ok"]
    assert left.skipped_rows == 1
    problem = message[len(str(path)) + 2 :].partition(". Fix")[0]
    assert left.notes == [f"skipped 1 bad row of {path}: {problem}"]


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("priority", "urgent", "is not a priority (high, normal, low)"),
        ("preemptible", "maybe", "is neither true nor false"),
        ("preemption_cost_s", "-1", "is below 0"),
        ("preemption_cost_s", "much", "is not a number"),
    ],
)
def test_a_bad_optional_cell_is_named_too(given, complaint, column, value, why):
    message = complaint(given(f"submitted_at,gpus,duration_s,{column}\n0,1,1,{value}\n"))
    assert f"line 2, column {column}: {value!r} {why}" in message


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize(("row", "fields"), [("b,0,1", 3), ("b,0,1,1,1", 5), ("b", 1)])
def test_a_row_with_too_few_or_too_many_fields(given, complaint, quote, row, fields):
    path = given(f"{HEADER}{quote}a{quote},0,1,1\n{row}\nc,1,1,1\n")
    assert f"line 3: {row!r} has {fields} fields, the header has 4" in complaint(path)
    assert load(path, skip_bad_rows=True).jobs["id"].to_list() == ["a", "c"]


def test_row_numbers_do_not_shift_when_bad_rows_are_skipped(given):
    trace = load(given("submitted_at,gpus,duration_s\n0,1\n1,1,1\n2,x,1\n3,1,1\n"), skip_bad_rows=True)
    assert trace.jobs["id"].to_list() == ["2", "4"]


def test_many_bad_rows_are_counted_and_the_first_few_shown(given, complaint):
    path = given(HEADER + "ok,0,1,1\n" + "".join(f"j{i},0,-1,0\n" for i in range(5)))
    assert "line 3, column gpus: '-1' is below 0 (4 more bad rows)" in complaint(path)
    trace = load(path, skip_bad_rows=True)
    assert trace.skipped_rows == 5
    assert trace.notes[0].startswith(f"skipped 5 bad rows of {path}: line 3, column gpus")
    assert "line 5" in trace.notes[0]
    assert "line 6" not in trace.notes[0]


def test_an_id_that_comes_twice_names_both_lines(given, complaint):
    path = given(f"{HEADER}a,0,1,1\nb,0,1,1\n\na,9,1,1\n")
    assert f"{path}, line 5, column id: 'a' is also the id on line 2" in complaint(path)
    kept = load(path, skip_bad_rows=True)
    assert kept.jobs["submitted_at"].to_list() == [0.0, 0.0]
    assert kept.skipped_rows == 1


def test_a_skipped_row_does_not_take_an_id(given):
    path = given(f"{HEADER}a,0,none,1\na,9,1,1\n")
    assert load(path, skip_bad_rows=True).jobs.select("id", "submitted_at").rows() == [("a", 9.0)]


def test_a_long_value_is_cut(given, complaint):
    assert len(complaint(given(f"{HEADER}a,0,{'9x' * 500},1\n"))) < 400


def test_only_bad_rows_leave_nothing_to_replay(given, complaint):
    message = complaint(given(f"{HEADER}a,0,-1,1\n"), skip_bad_rows=True)
    assert "has no job that can be replayed (skipped 1 bad row" in message


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"])
def test_an_empty_file(given, complaint, text):
    assert "the file is empty" in complaint(given(text))


def test_a_header_alone(given, complaint):
    assert "the file has a header but no job" in complaint(given(HEADER))


def test_a_file_that_is_not_there(tmp_path, complaint):
    assert "no-such.csv: no such file" in complaint(tmp_path / "no-such.csv")


def test_a_directory(tmp_path, complaint):
    assert "is a directory" in complaint(tmp_path)


def test_a_name_no_file_can_have(complaint):
    assert "cannot be read" in complaint("a\0b")


def test_a_gzip_file_cut_short(given, complaint):
    packed = gzip.compress((HEADER + "a,0,1,1\n" * 1000).encode())
    assert "cut short" in complaint(given(packed[:-20], "jobs.csv.gz"))


def test_a_damaged_gzip_file(given, complaint):
    packed = bytearray(gzip.compress(HEADER.encode() * 50))
    packed[15:25] = b"\xff" * 10
    assert "damaged" in complaint(given(bytes(packed), "jobs.csv.gz"))


def test_bytes_that_are_no_text(given, complaint):
    message = complaint(given(HEADER.encode() + b"a,0,1,1\nb\xe9,0,1,1\n"))
    assert "line 3: byte 0xe9 is not UTF-8 text" in message


def test_a_quote_that_is_never_closed_stops_even_when_skipping(given, complaint):
    path = given(f'{HEADER}a,0,1,1\n"b,0,1,1\nc,0,1,1\n')
    assert "line 3: quotes" in complaint(path)
    assert "line 3: quotes" in complaint(path, skip_bad_rows=True)


def test_a_column_there_twice(given, complaint):
    assert "has column 'gpus' twice" in complaint(given("submitted_at,gpus,gpus,duration_s\n0,1,1,1\n"))


def test_a_missing_column_is_named_with_what_there_is(given, complaint):
    path = given("submitted_at,gpus\n0,1\n")
    message = complaint(path, format="tiresias")
    assert "missing column duration_s" in message
    assert "submitted_at, gpus" in message
    assert "For tiresias it lacks duration_s." in complaint(path)


@pytest.mark.parametrize("header", ["what,ever", "a b c", "{}"])
def test_an_unknown_header_is_an_error_that_lists_the_formats(given, complaint, header):
    message = complaint(given(f"{header}\n1,2\n"))
    assert header in message
    assert "submitted_at, gpus, duration_s" in message
    for name in FORMATS:
        assert name in message


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_an_error_that_names_the_comma(given, complaint, separator):
    message = complaint(given("submitted_at,gpus,duration_s\n0,1,1\n".replace(",", separator)))
    assert "separated by commas" in message


def test_an_unknown_format_is_an_error_that_lists_the_known_ones(given, complaint):
    message = complaint(given(HEADER), format="phily")
    assert "'phily': no such trace format" in message
    assert "philly-csv" in message


def test_an_unknown_builtin_is_an_error_that_lists_the_known_ones(complaint):
    message = complaint("builtin:phily")
    assert "builtin:example, builtin:testbed-480, builtin:philly-like" in message


def test_a_builtin_has_no_format(complaint):
    assert "has no format" in complaint("builtin:example", format="slurm")


def test_a_trace_cannot_be_written_where_there_is_no_directory(tmp_path):
    with pytest.raises(TraceError, match="cannot be written"):
        write(load("builtin:example"), tmp_path / "none" / "t.csv")


def test_errors_are_input_errors_and_value_errors():
    assert issubclass(TraceError, InputError)
    assert issubclass(InputError, ValueError)


def test_a_trace_has_as_many_jobs_as_rows():
    assert len(Trace("t", pl.DataFrame({"id": ["a", "b"]}))) == 2
