"""A full disk: what cannot be made durable is not acknowledged, and nothing that was is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from api_server import Server, eventually, job, phase

from tiresias.api.client import ApiError


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tiresias-test", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler


def test_on_a_full_disk_nothing_is_acknowledged_and_nothing_is_lost(small_disk):
    made = Server(small_disk / "h").start()
    try:
        client = made.client()
        [before] = client.submit(job("sleep", "600"))
        eventually(lambda: phase(client, before) == "RUNNING")
        filler = fill(small_disk)
        refused = None
        for number in range(2000):  # until the journal's own room is used up
            try:
                client.submit(job(begin_at=4e9, env={"X": "x" * 4000}), key=f"k{number}")
            except ApiError as error:
                refused = error
                break
        assert refused is not None
        assert (refused.status, refused.code) == (503, "unavailable")
        assert "disk is full" in refused.message
        transport = httpx.HTTPTransport(uds=str(made.home / "manager.sock"))
        with httpx.Client(transport=transport, base_url="http://localhost") as http:
            assert http.get("/readyz").status_code == 503
            assert "disk is full" in http.get("/readyz").json()["error"]["message"]
            assert http.get("/healthz").status_code == 200
            filler.unlink()
            eventually(lambda: http.get("/readyz").status_code == 200)
        [again] = client.submit(job(begin_at=4e9, env={"X": "x" * 4000}), key=f"k{number}")
        accepted = number + 1
        ids = [each["id"] for each in client.jobs()]
        assert len(ids) == len(set(ids)) == 1 + accepted
        assert again in ids
        assert phase(client, before) == "RUNNING"
        made.kill()
        made.start()
        assert [each["id"] for each in made.client().jobs()] == ids
    finally:
        made.stop()
