"""Events as they are written come back as they were, wherever the connection is cut."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tiresias.api import sse

VALUES = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


def lines_of(raw: bytes) -> list[bytes]:
    return raw.splitlines(keepends=True) if raw else []


def test_an_event_has_its_id_its_name_and_its_data():
    raw = sse.event("log", b'{"text": "a\\nb"}', "3:17")
    assert list(sse.read(lines_of(raw))) == [sse.Event("3:17", "log", '{"text": "a\\nb"}')]


def test_a_sign_of_life_is_no_event():
    assert list(sse.read(lines_of(sse.HEARTBEAT * 3))) == []


def test_a_place_moves_the_reader_and_tells_it_nothing():
    events = list(sse.read(lines_of(sse.position("1:0") + sse.event("log", b"1", "1:5"))))
    assert [(each.id, each.name) for each in events] == [("1:0", ""), ("1:5", "log")]


@given(st.lists(VALUES, max_size=5), st.data())
def test_a_stream_cut_anywhere_tells_whole_events_only_and_the_rest_follows_from_the_last_id(values, data):
    raw = b"".join(
        sse.event("fact", json.dumps(value).encode(), str(number)) for number, value in enumerate(values)
    )
    cut = data.draw(st.integers(0, len(raw)))
    first = list(sse.read([line + b"\n" for line in raw[:cut].split(b"\n")[:-1]]))
    assert [each.value() for each in first] == values[: len(first)]
    assert [each.id for each in first] == [str(number) for number in range(len(first))]
    assert raw[:cut].count(b"\n\n") == len(first)
