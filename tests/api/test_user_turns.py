"""Requests that read or compute much take turns, and no user keeps the others waiting for long."""

from __future__ import annotations

import asyncio
from threading import Event, Lock

import httpx
from api_inside import answering
from api_server import DEADLINE_S

from tiresias.api import jobs
from tiresias.api.user_turns import UserTurns
from tiresias.live.curves import Curves
from tiresias.live.service import Service
from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import still_manager

ADMIN = Caller("ann", is_admin=True)


class Work:
    """Counts how many pieces are under way at once, and in which order they began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.now = self.most = 0
        self.may_end = Event()
        self._lock = Lock()

    def __call__(self, name: str) -> str:
        with self._lock:
            self.begun.append(name)
            self.now += 1
            self.most = max(self.most, self.now)
        self.may_end.wait(DEADLINE_S)
        with self._lock:
            self.now -= 1
        return name


async def begun(work: Work, pieces: int) -> None:
    while len(work.begun) < pieces:
        await asyncio.sleep(0.005)


def test_one_piece_is_under_way_and_each_user_has_a_turn() -> None:
    async def scenario() -> None:
        turns, work = UserTurns(), Work()
        asked = [asyncio.create_task(turns.work("ada", lambda: work("ada"))) for _ in range(5)]
        await begun(work, 1)
        asked.append(asyncio.create_task(turns.work("bob", lambda: work("bob"))))
        await asyncio.sleep(0)
        work.may_end.set()
        assert await asyncio.gather(*asked) == ["ada"] * 5 + ["bob"]
        assert work.most == 1
        assert work.begun.index("bob") <= 2, "behind one piece of ada that waited, at the most"

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def test_who_leaves_does_not_let_two_pieces_run_at_once() -> None:
    async def scenario() -> None:
        turns, work = UserTurns(), Work()
        gone = asyncio.create_task(turns.work("ada", lambda: work("gone")))
        await begun(work, 1)
        gone.cancel()
        stays = asyncio.create_task(turns.work("ada", lambda: work("stays")))
        for _ in range(20):
            await asyncio.sleep(0)
        work.may_end.set()
        assert await stays == "stays"
        assert work.most == 1

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def test_reports_of_jobs_are_read_one_after_the_other(tmp_path, monkeypatch) -> None:
    work = Work()

    def curves(folders: object) -> Curves:
        work("curves")
        return Curves()

    monkeypatch.setattr(jobs, "curves", curves)

    async def scenario() -> None:
        with still_manager(tmp_path, 1) as (manager, _):
            [id] = manager.requests.submit(ADMIN, [Submission(("true",), "/", {}, gpus=1)])
            manager.flush()
            async with answering(tmp_path, Service(manager)):
                transport = httpx.AsyncHTTPTransport(uds=str(tmp_path / "manager.sock"))
                async with httpx.AsyncClient(
                    transport=transport, base_url="http://localhost", timeout=DEADLINE_S
                ) as http:
                    asked = [asyncio.create_task(http.get(f"/api/v1/jobs/{id}/metrics")) for _ in range(6)]
                    await begun(work, 1)
                    assert (await http.get("/healthz")).status_code == 200
                    work.may_end.set()
                    assert {(await each).status_code for each in asked} == {200}
        assert (len(work.begun), work.most) == (6, 1)

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))
