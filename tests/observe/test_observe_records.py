"""Files of records: whole, still being written, damaged."""

from __future__ import annotations

import numpy as np
import pytest

from tiresias.observe import ObserveError, analyse
from tiresias.observe.records import FLOW, HEADER, HEADER_BYTES, MAGIC, RECORD, read_all

FLOWS, RECORDS = 4, 8


def write(path, rows, written=None, flows=FLOWS, records=RECORDS) -> None:
    """A file as the library writes it: rows of (at_ns, asked, sent, flow), the first ever first."""
    header = np.zeros(1, HEADER)
    header["magic"], header["flows"], header["records"] = np.void(MAGIC), flows, records
    header["pid"], header["written"] = 42, len(rows) if written is None else written
    header["command"] = np.void(b"python\0train.py\0".ljust(1024, b"\0"))
    table = np.zeros(flows, FLOW)
    ring = np.zeros(records, RECORD)
    for number, (at_ns, asked, sent, flow) in enumerate(rows):
        ring[number % records] = (at_ns, asked, sent, flow, number + 1)
    path.write_bytes(header.tobytes().ljust(HEADER_BYTES, b"\0") + table.tobytes() + ring.tobytes())


def sizes(directory) -> list[list[int]]:
    return [flow.sizes.tolist() for each in read_all(directory) for flow in each.flows]


def test_calls_that_ask_for_the_rest_are_one_message(tmp_path):
    rows = [(1, 1000, 300, 0), (2, 700, 700, 0), (3, 50, 50, 0), (4, 50, 20, 0), (5, 10, 10, 0)]
    write(tmp_path / "1.messages", rows)
    assert sizes(tmp_path) == [[1000, 50, 20, 10]]


def test_flows_do_not_continue_each_other(tmp_path):
    write(tmp_path / "1.messages", [(1, 1000, 300, 0), (2, 700, 700, 1), (3, 700, 700, 0)])
    assert sizes(tmp_path) == [[1000], [700]]


def test_of_a_ring_that_went_round_the_newest_are_read_in_their_order(tmp_path):
    write(tmp_path / "1.messages", [(100 + n, n, n, 0) for n in range(1, 12)])
    [process] = read_all(tmp_path)
    assert process.flows[0].sizes.tolist() == list(range(4, 12))
    assert process.overwritten == 3
    assert process.command == ("python", "train.py")


def test_a_record_that_is_being_written_is_left_out(tmp_path):
    path = tmp_path / "1.messages"
    write(path, [(1, 10, 10, 0), (2, 20, 20, 0)], written=3)
    assert sizes(tmp_path) == [[10, 20]]


def test_a_file_that_has_only_just_been_made_is_no_process_yet(tmp_path):
    (tmp_path / "1.messages").write_bytes(b"")
    (tmp_path / "2.messages").write_bytes(bytes(HEADER_BYTES))
    assert read_all(tmp_path) == []


def test_a_file_of_something_else_is_named(tmp_path):
    (tmp_path / "1.messages").write_bytes(b"something else" * 1000)
    with pytest.raises(ObserveError, match=r"1\.messages is not a file of recorded messages"):
        read_all(tmp_path)


def test_a_file_that_was_cut_is_named(tmp_path):
    path = tmp_path / "1.messages"
    write(path, [(1, 10, 10, 0)])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ObserveError, match=r"1\.messages has 4,568 bytes, not 4,608: it is truncated"):
        read_all(tmp_path)


def test_nothing_recorded_and_nothing_repeated_are_different_errors(tmp_path):
    with pytest.raises(ObserveError, match="nothing was sent that could be seen"):
        analyse(tmp_path)
    write(tmp_path / "1.messages", [(1, 5000, 5000, 0), (2, 10, 10, 0)])
    with pytest.raises(ObserveError, match="5,010 bytes were sent within 0 s, but nothing was repeated"):
        analyse(tmp_path)
