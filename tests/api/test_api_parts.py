"""Submissions that are larger than one request: sent in parts, each all or none, no job twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_server import ENV, job
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.api.client import ApiError, Client, PartlySubmitted, new_key
from tiresias.api.parts import count_of, parts_of
from tiresias.api.request_limits import (
    LARGEST_BODY_BYTES,
    LARGEST_SUBMISSION_BYTES,
    MIB,
    MOST_VALUES,
    values_in,
)


def large(name: str, **more: Any) -> dict[str, Any]:
    """A job of a little more than 1 MiB, so that three of them fit into a request. The manager holds it."""
    return job(
        "true", name=name, env={**ENV, **{f"V{n}": "x" * 100_000 for n in range(11)}}, hold=True, **more
    )


def names(client: Client, ids: list[int]) -> list[str]:
    return [client.job(id)["summary"]["name"] for id in ids]


def test_a_submission_of_several_requests_is_submitted_whole_and_in_order(admin: Client) -> None:
    wanted = [f"part-{n}" for n in range(7)]
    jobs = [large(name) for name in wanted]
    assert len(json.dumps(jobs)) > LARGEST_BODY_BYTES
    key = new_key()
    answer = admin.submitted(jobs, key)
    assert names(admin, answer["ids"]) == wanted
    assert admin.submitted(jobs, key)["ids"] == answer["ids"], "the same key submits nothing twice"
    for id in answer["ids"]:
        admin.cancel(id)


def test_a_refused_part_says_what_was_submitted_and_the_same_key_goes_on(admin: Client) -> None:
    jobs, key = [large(f"some-{n}") for n in range(5)], new_key()
    with pytest.raises(PartlySubmitted) as caught:
        admin.submit([*jobs[:4], large("some-4", gpus=999)], key)
    error = caught.value
    submitted = error.answer["ids"]
    assert (error.status, error.code) == (422, "impossible")
    assert "999" in error.message
    assert f"3 jobs ({submitted[0]} to {submitted[-1]}) were submitted" in error.message
    assert "2 were not submitted" in error.message
    assert names(admin, submitted) == ["some-0", "some-1", "some-2"]
    ids = admin.submit(jobs, key)
    assert ids[:3] == submitted, "they are not submitted again"
    assert names(admin, ids) == [f"some-{n}" for n in range(5)]
    for id in ids:
        admin.cancel(id)


def test_a_refusal_of_the_first_part_submits_nothing(admin: Client) -> None:
    before = admin.submit(job("true", hold=True))
    with pytest.raises(ApiError) as caught:
        admin.submit([large("none-0", gpus=999), *(large(f"none-{n}") for n in range(1, 5))])
    assert not isinstance(caught.value, PartlySubmitted)
    assert admin.submit(job("true")) == [before[0] + 1], "no id was used"
    admin.cancel(before[0])


@pytest.mark.parametrize("as_list", [False, True])
def test_one_job_that_is_larger_than_a_request_is_refused_with_a_next_step(
    admin: Client, as_list: bool
) -> None:
    huge = job("true", env={**ENV, **{f"V{n}": "x" * 100_000 for n in range(50)}})
    with pytest.raises(ApiError, match=r"one job takes 4\.\d MiB .* 4 MiB .*--clean-env"):
        admin.submit([huge] if as_list else huge)


def test_an_array_whose_jobs_are_too_large_together_says_how_many_indices_fit(admin: Client) -> None:
    array = {**large("a-{i}"), "array": {"indices": list(range(100))}}
    with pytest.raises(ApiError, match=r"the 100 jobs .*at most (\d+) of them at once \(--array") as caught:
        admin.submit(array)
    fit = int(caught.value.message.partition("at most ")[2].split()[0])
    ids = admin.submit({**array, "array": {"indices": list(range(fit))}})
    assert len(ids) == fit
    for id in ids:
        admin.cancel(id)


sizes = st.integers(0, 3 * MIB)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(sizes, st.integers(0, 60_000), st.integers(0, 40)), max_size=12))
def test_parts_keep_the_order_and_the_limits(wanted: list[tuple[int, int, int]]) -> None:
    jobs = []
    for size, values, indices in wanted:
        one = {"command": ["x" * size], "values": [1] * values}
        jobs.append({**one, "array": {"indices": list(range(indices))}} if indices else one)
    parts = parts_of(jobs)
    assert [each for part in parts for each in part] == jobs
    for part in parts:
        body = json.dumps({"jobs": part}).encode()
        assert len(body) <= LARGEST_BODY_BYTES
        assert values_in(body) <= MOST_VALUES
        stored = sum(len(json.dumps(each)) * count_of(each) for each in part)
        assert stored <= LARGEST_SUBMISSION_BYTES or len(part) == 1
