"""Long lists are made in slices: each at one instant or after an event, with turns for others in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.api.answers import Jobs, Nodes, answer
from tiresias.api.sliced import answer_in_slices
from tiresias.core.model import Node
from tiresias.executors.gpus import Gpu
from tiresias.live import node_list, queries
from tiresias.live.answers import JobSummary
from tiresias.live.machine import Machine
from tiresias.live.manager import Manager
from tiresias.live.submission import Caller, Submission
from tiresias.store import Chosen, Store
from tiresias.testing.still import NoProcesses, still_manager

ANN = Caller("ann", is_admin=True)


@pytest.fixture
def a_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Manager, NoProcesses]]:
    """Seven jobs, of which two run; lists come two at a time."""
    monkeypatch.setattr(queries, "SLICE", 2)
    with still_manager(tmp_path, gpus=2, policy="fifo") as (manager, executor):
        jobs = [Submission(("true",), str(tmp_path), {}, name=f"n{n}") for n in range(7)]
        manager.requests.submit(ANN, jobs)
        turn(manager)
        yield manager, executor


def turn(manager: Manager) -> None:
    manager.flush()
    manager.poll()
    manager.flush()


def test_others_have_their_turn_between_two_slices_and_the_answer_is_the_same(a_queue):
    manager, _ = a_queue
    page = manager.queries.page(ANN)
    rows = [*page.slices]
    assert [len(some) for some in rows] == [2, 2, 2, 1]
    happened: list[str] = []

    def noted() -> Iterator[list[JobSummary]]:
        for some in rows:
            happened.append("slice")
            yield some

    async def other() -> None:
        while happened.count("slice") < len(rows):
            happened.append("other")
            await asyncio.sleep(0)

    async def both() -> bytes:
        task = asyncio.ensure_future(other())
        found = await answer_in_slices(noted(), lambda some: Jobs(some, page.following, page.total, 5))
        await task
        return bytes(found.body)

    body = asyncio.run(both())
    assert body == answer(Jobs([each for some in rows for each in some], None, 7, 5)).body
    for number in range(len(rows) - 1):
        after = [at for at, what in enumerate(happened) if what == "slice"][number] + 1
        assert happened[after] == "other", happened


def test_an_empty_list_is_written_as_such():
    assert asyncio.run(answer_in_slices([], Nodes)).body == b'{"nodes":[]}'
    assert asyncio.run(answer_in_slices([[], []], Nodes)).body == b'{"nodes":[]}'


def test_a_job_that_ends_while_the_list_is_made_is_listed_once(a_queue):
    manager, executor = a_queue
    slices = manager.queries.page(ANN, ended=True).slices
    first = next(slices)
    ended = manager.state.jobs[first[0].id].run
    waiting = max(manager.state.jobs)
    assert ended is not None
    executor.finish(ended.id)
    manager.requests.cancel(ANN, waiting)
    turn(manager)
    rest = [each for some in slices for each in some]
    assert [each.id for each in rest].count(waiting) == 1
    assert next(each for each in rest if each.id == waiting).phase == "CANCELLED"
    assert next(each for each in rest if each.id == first[0].id).phase == "SUCCEEDED"


def test_pages_of_ended_jobs_follow_each_other_whatever_the_slices(a_queue):
    manager, executor = a_queue
    while manager.state.runs:
        executor.finish(min(manager.state.runs))
        turn(manager)
    whole = [each.id for each in manager.queries.summaries(ANN, ended=True)[0]]
    assert len(whole) == 7
    for limit in (1, 2, 3, 7):
        found, cursor = [], None
        while True:
            page, cursor, _ = manager.queries.summaries(ANN, ended=True, limit=limit, cursor=cursor)
            assert len(page) <= limit
            found += [each.id for each in page]
            if cursor is None:
                break
        assert found == whole, limit


def test_the_list_of_nodes_is_that_of_one_instant(tmp_path, monkeypatch):
    monkeypatch.setattr(node_list, "SLICE", 1)
    executor = NoProcesses()
    with Store.open(tmp_path / "journal.db", home=tmp_path) as store:
        gpus = {f"{name}:0": Gpu(0, "", "fake", 0) for name in "ab"}
        machine = Machine([Node("a", 1), Node("b", 1)], gpus)
        manager = Manager.open(tmp_path, store, executor, machine, Chosen("fifo"))
        manager.requests.submit(ANN, [Submission(("true",), str(tmp_path), {}) for _ in range(2)])
        turn(manager)
        slices = manager.queries.nodes.slices()
        found = next(slices)
        for run in [*manager.state.runs]:
            executor.finish(run)
        manager.requests.drain(ANN, "b", "fan", None)
        turn(manager)
        found += [each for some in slices for each in some]
        assert [(each.name, each.slots[0].state, each.is_drained) for each in found] == [
            ("a", "busy", False),
            ("b", "busy", False),
        ]
        now = {each.name: each.slots[0].state for each in manager.queries.nodes.all()}
        assert now == {"a": "free", "b": "drained"}
        assert dict(manager.queries.nodes.states()) == {"a": {"free": 1}, "b": {"drained": 1}}
    executor.close()
