"""The live manager under attack, on loopback: how soon it decides and answers an admin meanwhile.

All attackers are in one process of their own. They come over TCP from several loopback addresses, because a
peer may have a quarter of the connections only. Their number and their time are bounded.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

from benchmarks.managers import ManagerProcess, manager_process, share

HALF_OPEN, STUCK, ABANDONED, LARGE = 1000, 200, 100, 10
LARGEST_BODY_BYTES = 4 * 1024 * 1024 - 1024
LOG_BYTES = 100_000_000
SAMPLES = 400


def attack(samples: int = SAMPLES) -> None:
    """1,000 half-open requests, 200 readers that do not read, 100 abandoned followers, 10 large bodies."""
    with manager_process(gpus=1, listen="127.0.0.1:0") as manager:
        token = manager.client.create_token("attacker", "daemon")
        admin_token = manager.client.create_token("reader", "daemon", "admin")
        [id] = manager.client.submit(manager.job("sh", "-c", f"yes | head -c {LOG_BYTES}; exec sleep 86400"))
        while len(manager.client.logs(id, offset=LOG_BYTES - 1)) < 1:
            time.sleep(0.1)
        calm = _measure(manager, samples)
        port = manager.url.rpartition(":")[2]
        command = [sys.executable, "-m", "benchmarks.attack", port, token, admin_token, str(id)]
        attackers = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert attackers.stdout is not None
            while attackers.stdout.readline().strip() != "begun":
                assert attackers.poll() is None
            hot = _measure(manager, samples)
        finally:
            attackers.kill()
            attackers.wait()
            attackers.stdout.close()
        memory = manager.memory_bytes()
    for what in hot:
        values = hot[what]
        print(
            f"attack: {what}: p50 {share(values, 0.5) * 1e3:.1f} ms, p99 {share(values, 0.99) * 1e3:.1f} ms, "
            f"most {max(values) * 1e3:.1f} ms; without attack p99 {share(calm[what], 0.99) * 1e3:.1f} ms"
        )
    decide = share(hot["decision"], 0.99)
    print(f"attack: decision p99 {decide * 1e3:.1f} ms (less than 50 ms wanted)")
    print(f"attack: an admin was answered within {max(hot['admin']):.2f} s (less than 1 s wanted)")
    print(f"attack: memory {memory / 1e6:.0f} MB")


def _measure(manager: ManagerProcess, samples: int) -> dict[str, list[float]]:
    """Seconds of submissions, decided and durable, and of the status on a new connection to the socket."""
    took: dict[str, list[float]] = {"decision": [], "admin": []}
    for _ in range(samples):
        began = time.perf_counter()
        [id] = manager.client.submit(manager.job("true", hold=True))
        took["decision"].append(time.perf_counter() - began)
        manager.client.close()
        began = time.perf_counter()
        manager.client.status()
        took["admin"].append(time.perf_counter() - began)
        manager.client.cancel(id)
    return took


# --- the attackers -------------------------------------------------------------------------------------


def _connect(port: int, number: int) -> socket.socket:
    made = socket.socket()
    made.settimeout(30)
    made.bind((f"127.0.0.{2 + number % 8}", 0))
    made.connect(("127.0.0.1", port))
    return made


def _follow(port: int, number: int, token: str, id: str) -> socket.socket:
    made = _connect(port, number)
    target = f"/api/v1/jobs/{id}/logs?follow=true"
    made.sendall(
        f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    return made


def _large_bodies(token: str) -> list[bytes]:
    """As large, and as many values, as is allowed; one that is no job, and one that is."""
    brackets = b"[" + b"[]," * 74_000 + b"[]]"
    variables = b",".join(b'"K%d":"%s"' % (n, b"x" * 1000) for n in range(4000))
    job = b'{"command":["true"],"cwd":"/","begin_at":4e9,"env":{%s}}' % variables
    made = []
    for body in (brackets.ljust(LARGEST_BODY_BYTES), job.ljust(LARGEST_BODY_BYTES)):
        head = f"POST /api/v1/jobs/dry-run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        made.append((head + length).encode() + body)
    return made


def main(port: int, token: str, admin_token: str, id: str, lasts_s: float = 60.0) -> None:
    ends_at = time.monotonic() + lasts_s
    bodies = _large_bodies(token)
    with ExitStack() as stack:
        for number in range(STUCK):
            with suppress(OSError):
                stack.enter_context(_follow(port, number, admin_token, id))
        is_first = True
        while time.monotonic() < ends_at:
            opened = []
            for number in range(HALF_OPEN):
                with suppress(OSError):
                    opened.append(_connect(port, number))
                    opened[-1].sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n")
            for number in range(ABANDONED):
                with suppress(OSError), _follow(port, number, admin_token, id) as follower:
                    follower.recv(100)
            for number in range(LARGE):
                with suppress(OSError), _connect(port, number) as client:
                    client.sendall(bodies[number % len(bodies)])
                    client.recv(100)
            if is_first:
                print("begun", flush=True)
                is_first = False
            for each in opened:
                each.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:5])
