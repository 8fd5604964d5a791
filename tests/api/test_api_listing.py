"""The list of jobs: searched, sorted, in pages, compressed, and with the event at which it is valid."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from api_server import Server, job

from tiresias.api.client import ApiError, Client


def listed(client: Client, query: str) -> dict[str, Any]:
    found: dict[str, Any] = client.requester.transport.request("GET", f"/api/v1/jobs?{query}").value()
    return found


@pytest.fixture(scope="module")
def ids(admin: Client) -> list[int]:
    """Six jobs on hold, with names, tenants and demands of their own."""
    rows = [("vision-a", "north", 1), ("Vision-b", "north", 2), ("speech", "south", 2)] * 2
    return [admin.submit(job(name=f"{name}-{'abcdef'[n]}", tenant=tenant, gpus=gpus, hold=True))[0]
            for n, (name, tenant, gpus) in enumerate(rows)]  # fmt: skip


def test_a_search_finds_names_in_any_case_tenants_and_ids(admin: Client, ids: list[int]):
    assert {each["id"] for each in listed(admin, "search=VISION")["jobs"]} == {*ids[:2], *ids[3:5]}
    assert {each["id"] for each in listed(admin, "search=south")["jobs"]} == {ids[2], ids[5]}
    assert [each["id"] for each in listed(admin, f"search={ids[4]}")["jobs"]] == [ids[4]]
    assert listed(admin, "search=nothing-is-called-so")["total"] == 0


def test_jobs_are_sorted_and_paged(admin: Client, ids: list[int]):
    assert [each["id"] for each in listed(admin, "sort=-id")["jobs"]] == ids[::-1]
    gpus = [each["gpus"] for each in listed(admin, "sort=gpus&tenant=north")["jobs"]]
    assert gpus == [1, 1, 2, 2]
    page = listed(admin, "sort=id&limit=2&offset=3")
    assert ([each["id"] for each in page["jobs"]], page["total"]) == (ids[3:5], 6)
    following = listed(admin, f"sort=id&limit=2&cursor={page['next']}")
    assert [each["id"] for each in following["jobs"]] == [ids[5]]


def test_an_order_that_there_is_not_is_refused(admin: Client, ids: list[int]):
    with pytest.raises(ApiError, match="cannot be sorted by 'colour'; choose from rank, id"):
        listed(admin, "sort=colour")


def test_a_list_names_the_event_at_which_it_is_valid(admin: Client, ids: list[int]):
    before = listed(admin, "limit=1")["seq"]
    [added] = admin.submit(job(name="later", hold=True))
    after = listed(admin, "limit=1")["seq"]
    missed = admin.requester.transport.request("GET", f"/api/v1/events?since={before}").value()["events"]
    assert added in {each["job_id"] for each in missed}
    assert admin.requester.transport.request("GET", f"/api/v1/events?since={after}").value()["events"] == []
    admin.cancel(added)


def test_ended_jobs_are_searched_too(admin: Client, ids: list[int]):
    found = listed(admin, "all=true&search=LATER&phase=cancelled")["jobs"]
    assert [each["name"] for each in found] == ["later"]


def test_large_answers_are_compressed_for_those_who_accept_it(server: Server, admin: Client, ids: list[int]):
    plain = admin.requester.transport.request("GET", "/api/v1/jobs?sort=id")
    packed = admin.requester.transport.request(
        "GET", "/api/v1/jobs?sort=id", None, {"Accept-Encoding": "gzip"}
    )
    assert plain.headers["Content-Encoding"] is None
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 2
    assert [each["id"] for each in json.loads(gzip.decompress(packed.body))["jobs"]] == ids
