"""Every fact is encoded and decoded without loss; what cannot be read is refused."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.core import facts as f
from tiresias.core.model import Demand, Job, JobId, Node, Priority
from tiresias.store import CodecError, codec

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
KINDS = list(get_args(f.Fact))


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type; floats of any size and sign."""
    if kind is float:
        return FLOATS
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{field.name: values(hints[field.name]) for field in fields(kind)})
    if kind == f.Allocation:
        return st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2**70)), max_size=4).map(tuple)
    if kind == dict[str, float]:
        return st.dictionaries(st.text(), FLOATS)
    if kind == tuple[f.Allotment, ...]:
        return st.lists(values(f.Allotment), max_size=3).map(tuple)
    if kind == float | None:
        return st.none() | FLOATS
    return st.from_type(kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_fact_of_every_kind_is_decoded_as_it_was(kind: type, data: st.DataObject) -> None:
    fact = data.draw(values(kind))
    again = codec.decode_fact(*codec.encode_fact(fact))
    assert type(again) is kind
    assert repr(again) == repr(fact)
    assert again == fact


@given(at=FLOATS)
def test_an_instant_keeps_every_bit(at: float) -> None:
    again = codec.decode_fact(*codec.encode_fact(f.TimerFired(at)))
    assert again.at.hex() == at.hex()


def test_every_kind_has_a_codec() -> None:
    assert set(codec.FACTS) == {kind.__name__ for kind in KINDS}


def test_enums_and_allocations_keep_their_types() -> None:
    job = Job(JobId(7), Demand(2, gpu_type="a100"), 1.5, priority=Priority.HIGH, duration_s=None)
    again = codec.decode_fact(*codec.encode_fact(f.JobSubmitted(1.5, job)))
    assert isinstance(again, f.JobSubmitted)
    assert again.job.priority is Priority.HIGH
    granted = codec.decode_fact(*codec.encode_fact(f.RunGranted(1.0, 1, 7, ((0, 3), (2, 1)))))  # type: ignore[arg-type]
    assert isinstance(granted, f.RunGranted)
    assert granted.allocation == ((0, 3), (2, 1))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(CodecError, match=r"unknown kind 'JobTeleported' \(known: .*RunGranted"):
        codec.decode_fact("JobTeleported", 1, "{}")


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(CodecError, match=rf"version {f.VERSION + 1}, and this Tiresias knows .* {f.VERSION}"):
        codec.decode_fact("TimerFired", f.VERSION + 1, '{"at":1.0}')


def test_an_older_version_is_upgraded_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f, "VERSION", 3)
    monkeypatch.setattr(codec, "UPGRADERS", {})

    @codec.upgrades("NodeDrained", 1)
    def names(body: codec.Body) -> codec.Body:
        return {"when": body["t"], "node": body["node"]}

    @codec.upgrades("NodeDrained", 2)
    def instants(body: codec.Body) -> codec.Body:
        return {"at": body["when"], "node": body["node"]}

    assert names({"t": 2.5, "node": "n1"}) == {"when": 2.5, "node": "n1"}, "it can still be called"
    assert codec.decode_fact("NodeDrained", 1, '{"t":2.5,"node":"n1"}') == f.NodeDrained(2.5, "n1")
    assert codec.decode_fact("NodeDrained", 2, '{"when":2.5,"node":"n1"}') == f.NodeDrained(2.5, "n1")
    assert codec.decode_fact("TimerFired", 1, '{"at":2.5}') == f.TimerFired(2.5)  # nothing changed for it


def test_a_field_that_was_added_later_has_its_default() -> None:
    assert codec.decode_fact("RunStarted", 1, '{"at":1.0,"run_id":4}') == f.RunStarted(1.0, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    ['{"at":1.0}', '{"at":1.0,"run_id":1,"cause":"bored","progress_s":1.0}', '{"odd":1}', "not JSON"],
)
def test_a_damaged_body_is_refused_and_shown(body: str) -> None:
    with pytest.raises(CodecError) as error:
        codec.decode_fact("RunExited", 1, body)
    assert body.strip("{}").split(",")[0].split(":")[-1] in str(error.value)


@pytest.mark.parametrize("speed", [float("nan"), float("inf")])
def test_what_json_cannot_hold_is_refused_before_it_is_written(speed: float) -> None:
    with pytest.raises(CodecError, match="JSON cannot hold this value"):
        codec.encode_fact(f.RunStarted(1.0, 4, speed))  # type: ignore[arg-type]


def test_an_object_that_is_not_a_fact_is_refused() -> None:
    with pytest.raises(CodecError, match="Node is not a kind of fact"):
        codec.encode_fact(Node("n", 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [set[int], set, complex])
def test_a_field_of_a_type_that_cannot_be_stored_is_refused(kind: Any) -> None:
    with pytest.raises(CodecError, match=f"a field of type {re.escape(repr(kind))} cannot be stored"):
        codec._converters(kind)


def test_stored_jobs_and_nodes_without_cpus_and_speeds_are_read() -> None:
    body = '{"at":1.0,"job":{"id":7,"demand":{"gpus":2},"submitted_at":1.0}}'
    fact = codec.decode_fact("JobSubmitted", 1, body)
    assert isinstance(fact, f.JobSubmitted)
    assert fact.job.demand == Demand(2, cpu_speed=None)
    added = codec.decode_fact("NodeAdded", 1, '{"at":1.0,"node":{"name":"a","gpus":4,"rack":"r"}}')
    assert isinstance(added, f.NodeAdded)
    assert (added.node.speed, added.node.cpus_per_slot, added.node.cpu_slots) == (1.0, 8, 0)
