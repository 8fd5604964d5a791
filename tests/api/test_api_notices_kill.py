"""Each notice is delivered at least once, however often the manager is killed, and whatever the target does.

A real manager, real kills (SIGKILL) at random moments, and a real receiver on loopback, which refuses, breaks
off and forgets. The receiver counts a notice only when it has answered 200.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Lock, Thread
from typing import Any

from api_server import Server, eventually, job

from tiresias.api.client import ApiError, Unreachable

KILLS = int(os.environ.get("TIRESIAS_NOTICE_KILLS", "6"))
SEED = int(os.environ.get("TIRESIAS_SEED", "11"))


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, rng: Random):
        super().__init__(("127.0.0.1", 0), Handler)
        self.rng, self.lock = rng, Lock()
        self.delivered: dict[tuple[str, int], int] = {}  # (event, job): how often it was accepted
        self.raw: list[tuple[str, bytes]] = []
        self.tries = 0


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        with server.lock:
            server.tries += 1
            fate = server.rng.random()
        if fate < 0.1:
            return  # the connection breaks without an answer
        if fate < 0.2:
            self.send_response(503)
            self.end_headers()
            return
        if fate < 0.3:
            time.sleep(fate)  # it takes its time: this is what the kills hit
        notice = json.loads(body)
        with server.lock:
            key = notice["event"], notice["job"]["id"]
            server.delivered[key] = server.delivered.get(key, 0) + 1
            server.raw.append((self.headers["X-Tiresias-Signature"], body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:  # the manager was killed meanwhile
            self.close_connection = True


def submitted(server: Server, url: str, number: int, *, fails: bool) -> list[int]:
    """The ids, or nothing while no manager answers."""
    command = ("sh", "-c", f"exit 3 # {number}") if fails else ("true",)
    asked = job(*command, notify=url, notify_on="ended,failed", retries=0)
    try:
        return server.client().submit(asked, key=f"{number}")
    except Unreachable:
        return []
    except ApiError as error:
        if error.status != 503:
            raise
        return []


def test_each_notice_is_delivered_at_least_once_over_kills(tmp_path: Path) -> None:
    rng = Random(SEED)
    receiver = Receiver(rng)
    Thread(target=receiver.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{receiver.server_port}/hook"
    server = Server(tmp_path / "h", notify_allow=["127.0.0.0/8"], fake_gpus=4).start()
    accepted: list[int] = []
    try:
        for number in range(KILLS):
            for each in (3 * number, 3 * number + 1, 3 * number + 2):
                ask = partial(submitted, server, url, each, fails=each % 3 == 2)
                accepted += eventually(ask)
            time.sleep(rng.random() * 0.5)  # the moment of the kill
            server.kill()
            server.start()
        client = server.client()
        eventually(lambda: not list(client.jobs()), 300.0)
        told = lambda: {id for _, id in receiver.delivered}  # noqa: E731
        eventually(lambda: set(accepted) <= told(), 300.0)
        ended = {each["id"]: each["phase"] for each in client.jobs(all=True)}
        for event, id in receiver.delivered:
            assert event == {"SUCCEEDED": "ended", "FAILED": "failed"}[ended[id]]
        wish = eventually(lambda: (found := client.notify())["waiting"] == 0 and found)
        for signature, body in receiver.raw:
            at, digest = signature.removeprefix("t=").split(",v1=")
            sent = f"{at}.".encode() + body
            assert hmac.new(wish["secret"].encode(), sent, hashlib.sha256).hexdigest() == digest
    finally:
        server.stop()
        receiver.shutdown()
        receiver.server_close()
    again = sum(receiver.delivered.values()) - len(receiver.delivered)
    print(f"{KILLS} kills, {len(accepted)} jobs, {receiver.tries} deliveries tried, {again} repeated")
