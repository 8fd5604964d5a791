"""When a job starts and ends, and how far off such estimates have been here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_server import Server, eventually, phase, python
from taught_home import teach

from tiresias.live.eta import LEAST_HISTORY


@pytest.fixture
def taught(tmp_path: Path) -> Iterator[Server]:
    teach(tmp_path / "h")
    server = Server(tmp_path / "h", fake_gpus=1, policy="fifo").start()
    try:
        yield server
    finally:
        server.stop()


def test_estimates_that_were_wrong_here_are_shown_with_how_far_off_they_were(taught: Server) -> None:
    with taught.client() as client:
        [runs, waits] = client.submit([python("import time; time.sleep(600)") for _ in range(2)])
        eventually(lambda: phase(client, runs) == "RUNNING")
        found = client.requester.value("GET", f"/api/v1/jobs/{waits}/eta")
        assert 0 < found["starts_p50_s"] <= found["starts_p90_s"]
        assert found["ends_p50_s"] >= found["starts_p50_s"]
        assert found["history"] >= LEAST_HISTORY
        assert "0% of the jobs started within the time that was given" in found["measured"]
        assert "take them with care, they are off by 90%" in found["measured"]
        running = client.requester.value("GET", f"/api/v1/jobs/{runs}/eta")
        assert (running["starts_p50_s"], running["measured"]) == (None, "")


def test_nothing_is_estimated_before_enough_jobs_have_ended(server: Server) -> None:
    with server.client() as client:
        [_, waits] = client.submit([python("import time; time.sleep(600)", gpus=2) for _ in range(2)])
        found = client.requester.value("GET", f"/api/v1/jobs/{waits}/eta")
        assert (found["starts_p50_s"], found["ends_p50_s"]) == (None, None)
        assert f"{LEAST_HISTORY} are needed" in found["unknown"]
