"""Logs are read in pieces that end between characters, and nothing is lost or sent twice."""

from __future__ import annotations

import base64
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.api import logtext
from tiresias.api.logtext import as_json, incomplete, read_piece, read_text


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        (b"", 0),
        (b"plain", 0),
        ("é".encode(), 0),
        ("é".encode()[:1], 1),
        ("a€".encode()[:-1], 2),
        ("a€".encode()[:-2], 1),
        ("🚀".encode()[:3], 3),
        ("🚀".encode(), 0),
        (b"\xff", 0),  # begins no character
        (b"\x80\x80\x80\x80", 0),  # continues none
    ],
)
def test_what_is_missing_at_the_end_is_known(data, missing):
    assert incomplete(data) == missing


@given(st.text())
def test_every_cut_of_a_text_leaves_a_text(text):
    data = text.encode()
    for cut in range(len(data) + 1):
        data[: cut - incomplete(data[:cut])].decode()


@given(st.binary(max_size=200), st.integers(4, 9))
def test_pieces_of_any_bytes_make_up_the_log(tmp_path_factory, data, size):
    path = tmp_path_factory.mktemp("log") / "worker-0.log"
    path.write_bytes(data)
    pieces, offset = [], 0
    before, logtext.PIECE_BYTES = logtext.PIECE_BYTES, size
    try:
        while (piece := read_text(path, offset, whole=True)).data:
            pieces.append(piece.data)
            assert piece.offset == offset + len(piece.data)
            offset = piece.offset
    finally:
        logtext.PIECE_BYTES = before
    assert b"".join(pieces) == data


def test_half_a_character_waits_for_its_other_half(tmp_path):
    path = tmp_path / "worker-0.log"
    path.write_bytes("ab€".encode()[:-1])
    assert read_text(path, 0, whole=False) == logtext.Piece(b"ab", 2)
    assert read_text(path, 2, whole=False) == logtext.Piece(b"", 2)
    path.write_bytes("ab€".encode())
    assert read_text(path, 2, whole=False).data == "€".encode()


def test_half_a_character_at_the_end_of_a_finished_log_is_sent(tmp_path):
    path = tmp_path / "worker-0.log"
    path.write_bytes(b"ab\xe2\x82")
    assert read_text(path, 2, whole=True) == logtext.Piece(b"\xe2\x82", 4)


def test_text_is_sent_as_text_and_other_bytes_as_base64_too():
    assert json.loads(as_json(1, logtext.Piece("é\n".encode(), 3))) == {"run": 1, "offset": 3, "text": "é\n"}
    body = json.loads(as_json(2, logtext.Piece(b"a\xff", 9)))
    assert body["text"] == "a\ufffd"
    assert base64.b64decode(body["base64"]) == b"a\xff"


def test_a_log_that_is_not_there_yet_is_empty(tmp_path):
    assert read_piece(tmp_path / "worker-0.log", 0, 100) == logtext.Piece(b"", 0)


def test_a_link_to_something_else_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("the manager's own")
    (tmp_path / "worker-0.log").symlink_to(tmp_path / "secret")
    assert read_piece(tmp_path / "worker-0.log", 0, 100).data == b""


def test_a_log_that_is_not_a_regular_file_reads_as_empty_at_once(tmp_path, within):
    os.mkfifo(tmp_path / "worker-0.log")
    with within(10):
        assert read_piece(tmp_path / "worker-0.log", 0, 100).data == b""
