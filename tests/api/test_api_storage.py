"""The disk of the home: a job that writes without end stops nobody, and old output can be removed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_server import Server, eventually, job, phase

from tiresias.api.client import ApiError

MIB = 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128m", "tiresias-test", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_job_that_writes_without_end_does_not_stop_submissions(small_disk: Path) -> None:
    """It writes some ten MB per second: without a cap the disk would be full within seconds."""
    settings = {"most_log_bytes": 8 * MIB, "reserve_bytes": 16 * MIB}
    server = Server(small_disk / "h", settings=settings).start()
    try:
        client = server.client()
        [chatty] = client.submit(job("sh", "-c", "while :; do seq 1000000; done"))
        log = small_disk / "h" / "jobs" / str(chatty) / "runs" / "1" / "worker-0.log"
        eventually(lambda: log.exists() and log.stat().st_size > 150 * MIB)
        for _ in range(20):
            client.submit(job("true"))
        eventually(lambda: all(each["id"] == chatty for each in client.jobs()))
        eventually(lambda: phase(client, chatty) == "RUNNING")  # the short jobs may have preempted it
        eventually(lambda: log.stat().st_blocks * 512 <= 8 * MIB)
        assert client.logs(chatty).startswith(b"1\n2\n")
        client.cancel(chatty, now=True)
        eventually(lambda: not list(client.jobs()))
    finally:
        server.stop()


def test_output_is_removed_on_request(tmp_path: Path) -> None:
    server = Server(tmp_path / "h").start()
    try:
        client = server.client()
        [done] = client.submit(job("echo", "hello"))
        eventually(lambda: phase(client, done) == "SUCCEEDED")
        assert client.prune(3600.0)["jobs"] == 0  # it has ended just now
        assert client.prune(0.0, dry_run=True)["jobs"] == 1
        assert client.logs(done) == b"hello\n"
        found = client.prune(0.0, all_users=True)
        assert found["jobs"] == 1
        assert not found["is_dry_run"]
        with pytest.raises(ApiError, match="was removed"):
            client.logs(done)
    finally:
        server.stop()
