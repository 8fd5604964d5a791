"""Notices about jobs: to whom, when, in which form; targets that hang, refuse or lead elsewhere."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from threading import Event, Thread
from typing import Any

import pytest

from tiresias.core.model import Priority
from tiresias.live import delivery as deliveries
from tiresias.live.courier import Parcel
from tiresias.live.delivery import deliver
from tiresias.live.errors import Invalid
from tiresias.live.notice_target import check_url, networks_of, refusal, target_of
from tiresias.live.submission import Caller
from tiresias.testing.live import ADMIN, SETTINGS, LiveLab

BOB = Caller("bob")
LOOPBACK = ["127.0.0.0/8"]


class Receiver(ThreadingHTTPServer):
    """A real target on loopback; `answers` are the statuses of its next answers, 200 after that."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[dict[str, str], Any]] = []
        self.answers: list[int] = []
        self.hangs = Event()
        self.goes_on = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"

    @property
    def events(self) -> list[str]:
        return [body["event"] for _, body in self.got]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.hangs.is_set():
            self.server.goes_on.wait(60)
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.server.got.append((dict(self.headers), json.loads(body)))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", self.server.url)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.goes_on.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def target() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


def a_lab(home: Path, **more: Any) -> LiveLab:
    return LiveLab(home, notify_allow=LOOPBACK, **more)


def test_a_job_that_ends_and_one_that_fails_are_told_signed(tmp_path: Path, target: Receiver) -> None:
    with a_lab(tmp_path) as lab:
        good = lab.submit("true", name="good", notify=target.url, by=BOB)
        bad = lab.submit("sh -c 'echo ValueError: no; exit 3'", retries=0, notify=target.url, by=BOB)
        lab.until(lambda: len(target.got) == 2)
        by_job = {body["job"]["id"]: (headers, body) for headers, body in target.got}
        assert by_job[good][1]["event"] == "ended"
        assert by_job[good][1]["text"] == f"Job {good} (good) of bob has succeeded."
        assert by_job[bad][1]["event"] == "failed"
        assert by_job[bad][1]["job"]["exit_code"] == 3
        assert f"tir logs {bad}" in by_job[bad][1]["text"]
        secret = lab.manager.notices.wish_of("bob")["secret"]
        for headers, body in target.got:
            at, digest = headers[deliveries.SIGNATURE].removeprefix("t=").split(",v1=")
            sent = f"{at}.{json.dumps(body)}".encode()
            assert hmac.new(secret.encode(), sent, hashlib.sha256).hexdigest() == digest
            assert headers["X-Tiresias-Notice"].endswith(body["id"])
        lab.until(lambda: lab.manager.notices.wish_of("bob")["waiting"] == 0)
        lab.restart()
        assert lab.manager.notices.wish_of("bob")["waiting"] == 0


def test_a_default_of_the_user_and_jobs_that_say_otherwise(tmp_path: Path, target: Receiver) -> None:
    with a_lab(tmp_path) as lab, receiver() as other:
        lab.manager.notices.set_wish("bob", target.url, ["ended"])
        lab.manager.flush()
        jobs = [
            lab.submit("true", by=BOB),
            lab.submit("true", notify="none", by=BOB),
            lab.submit("true", notify=other.url, by=BOB),
            lab.submit("true", notify_on="failed", by=BOB),
            lab.submit("true"),
        ]
        lab.until_ended(*jobs)
        lab.until(lambda: target.got and other.got)
        lab.until(lambda: lab.manager.notices.wish_of("bob")["waiting"] == 0)
        assert [body["job"]["id"] for _, body in target.got] == [jobs[0]]
        assert [body["job"]["id"] for _, body in other.got] == [jobs[2]]


def test_a_preemption_is_told_before_the_job_goes_on(tmp_path: Path, target: Receiver) -> None:
    with a_lab(tmp_path, gpus=1, policy="las") as lab:
        low = lab.submit(
            "sleep 600", priority=Priority.LOW, notify=target.url, notify_on="preempted", grace_s=0.0
        )
        lab.until_running(low)
        lab.submit("sleep 600", priority=Priority.HIGH)
        lab.until(lambda: target.got)
        assert target.events == ["preempted"]
        assert target.got[0][1]["job"]["id"] == low


def test_a_run_that_is_silent_is_told_once(tmp_path: Path, target: Receiver) -> None:
    with a_lab(tmp_path, settings={**SETTINGS, "idle_notice_s": 0.5}) as lab:
        job = lab.submit("sleep 600", notify=target.url, notify_on="idle")
        lab.until(lambda: target.got)
        assert target.events == ["idle"]
        until_at = lab.manager.now() + 2.0
        lab.until(lambda: lab.manager.now() > until_at)
        assert [body["job"]["id"] for _, body in target.got] == [job]


def test_what_is_not_delivered_is_tried_again_in_order(tmp_path: Path, target: Receiver) -> None:
    target.answers = [500, 302, 200]
    with a_lab(tmp_path, gpus=1) as lab:
        first, second = (lab.submit("true", notify=target.url) for _ in range(2))
        lab.until(lambda: len(target.got) == 4)
        assert [body["job"]["id"] for _, body in target.got] == [first, first, first, second]
        ids = [body["id"] for _, body in target.got]
        assert ids[0] == ids[1] == ids[2] != ids[3]  # a receiver knows a repetition


def test_a_target_that_hangs_delays_no_decision_and_no_other_target(tmp_path: Path, target: Receiver) -> None:
    target.hangs.set()
    with a_lab(tmp_path) as lab, receiver() as other:
        lab.until_ended(lab.submit("true", notify=target.url))
        lab.turn()
        for _ in range(5):
            lab.until_ended(lab.submit("true", notify=target.url))
        lab.until_ended(lab.submit("true", notify=other.url))
        lab.until(lambda: other.got)
        assert target.got == []
        target.hangs.clear()
        target.goes_on.set()
        lab.until(lambda: len(target.got) >= 6)


def test_a_target_that_is_down_is_named_and_gets_it_later(tmp_path: Path) -> None:
    with receiver() as gone:
        url, port = gone.url, gone.server_port
    with a_lab(tmp_path) as lab:
        lab.until_ended(lab.submit("true", notify=url))
        lab.until(lambda: "refused" in lab.manager.notices.wish_of("ann")["problem"])
        lab.restart()
        assert lab.manager.notices.wish_of("ann")["waiting"] == 1
        server = Receiver.__new__(Receiver)
        ThreadingHTTPServer.__init__(server, ("127.0.0.1", port), Handler)
        server.got, server.answers, server.hangs, server.goes_on = [], [], Event(), Event()
        Thread(target=server.serve_forever, daemon=True).start()
        lab.until(lambda: server.got)
        server.shutdown()
        server.server_close()


def test_the_form_of_slack_is_text_alone(tmp_path: Path, target: Receiver) -> None:
    with a_lab(tmp_path) as lab:
        job = lab.submit("true", notify="slack+" + target.url)
        lab.until(lambda: target.got)
        assert target.got[0][1] == {"text": f"Job {job} of ann has succeeded."}
    assert target_of("https://hooks.slack.com/services/x").is_slack


def test_nothing_is_sent_before_it_is_durable(tmp_path: Path, target: Receiver, monkeypatch: Any) -> None:
    from tiresias.store import StoreError

    def no_space(*_: Any) -> None:
        raise StoreError("the disk is full")

    with a_lab(tmp_path) as lab:
        job = lab.submit("sleep 600", notify=target.url)
        lab.until_running(job)
        commit = lab.manager.store.commit
        monkeypatch.setattr(lab.manager.store, "commit", no_space)
        lab.manager.executor.stop(lab.manager.state.jobs[job].run.id, 0.0)
        lab.manager.requests.cancel(ADMIN, job)
        for _ in range(20):
            with pytest.raises(StoreError):
                lab.turn()
        assert target.got == []
        monkeypatch.setattr(lab.manager.store, "commit", commit)
        lab.until(lambda: target.got)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "192.168.1.1", "172.16.0.9", "169.254.169.254", "0.0.0.0", "224.0.0.1",
        "100.64.0.1", "::1", "fe80::1", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert refusal(ipaddress.ip_address(address), ())
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(Invalid, match="notify-allow"):
        check_url(f"https://{host}/x", ())


def test_an_administrator_may_allow_a_network() -> None:
    assert not refusal(ipaddress.ip_address("10.1.2.3"), networks_of(["10.0.0.0/8"]))
    assert not refusal(ipaddress.ip_address("::ffff:10.0.0.1"), networks_of(["10.0.0.0/8"]))
    assert refusal(ipaddress.ip_address("192.168.1.1"), networks_of(["10.0.0.0/8"]))
    assert not refusal(ipaddress.ip_address("8.8.8.8"), ())
    with pytest.raises(Invalid, match="give a network"):
        networks_of(["everything"])


def test_a_name_that_leads_to_a_private_address_is_refused_at_the_connection(target: Receiver) -> None:
    """The name is not refused when it is given, because it may have another address by then."""
    url = f"http://localhost:{target.server_port}/hook"
    assert check_url(url, ()).host == "localhost"
    result = deliver(Parcel("notice:1", target_of(url), b"{}", "s"), ())
    assert "not a public address" in result.error
    assert target.got == []
    assert deliver(Parcel("notice:1", target_of(url), b"{}", "s"), networks_of(LOOPBACK)).error == ""


def test_a_redirect_is_not_followed(target: Receiver) -> None:
    target.answers = [302]
    result = deliver(Parcel("notice:1", target_of(target.url), b"{}", "s"), networks_of(LOOPBACK))
    assert "302 (redirects are not followed)" in result.error
    assert len(target.got) == 1


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/x", "example.org", "https://", "https://user:word@example.org/", "https://a b/",
        "https://example.org:99999/", "file:///etc/passwd", "https://[::1", "http://ex\u00e4mple.org/",
    ],
)  # fmt: skip
def test_what_is_no_target_is_refused_in_words(url: str) -> None:
    with pytest.raises(Invalid, match="the URL"):
        check_url(url, ())


def test_a_job_with_a_private_target_is_refused_where_it_is_not_allowed(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab, pytest.raises(Invalid, match="not a public address"):
        lab.submit("true", notify="http://127.0.0.1:9/x")


@contextmanager
def answering(*pieces: bytes) -> Iterator[str]:
    """A target that answers with these pieces, and then with the last one again and again; its URL."""

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                for piece in pieces:
                    connection.sendall(piece)
                while not is_over.wait(0.01):
                    connection.sendall(pieces[-1])

    is_over = Event()
    with create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        is_over.set()
    thread.join()


def error_of(url: str) -> str:
    return deliver(Parcel("notice:1", target_of(url), b"{}", "s"), networks_of(LOOPBACK)).error


@pytest.mark.parametrize(
    "pieces",
    [[b"HTTP/1.1 ", b"2"], [b"HTTP/1.1 200", b" "], [b"HTTP/1.1 100 Continue\r\n\r\n"]],
    ids=["in the number", "behind it", "always another beginning"],
)
def test_a_target_that_answers_byte_by_byte_for_ever_keeps_no_thread(
    pieces: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiresias.live.delivery.TIMEOUT_S", 0.5)
    with answering(*pieces) as url:
        assert error_of(url), "it is tried again later"


def test_an_answer_may_come_in_pieces_and_after_another_one(tmp_path: Path) -> None:
    with answering(b"HTTP/1.1 103 Early Hints\r\nA: b\r\n", b"\r\nHTTP/1.", b"1 204 No Content\r\n") as url:
        assert error_of(url) == ""
    with answering(b"SSH-2.0-OpenSSH_9.6\r\n") as url:
        assert "SSH" in error_of(url)


def test_a_silent_run_is_found_whatever_its_user_puts_beside_its_reports(
    tmp_path: Path, target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is the user's: to look at each file of a million would delay everybody."""
    looked_at = []
    scandir, listdir = os.scandir, os.listdir
    monkeypatch.setattr(os, "scandir", lambda path: looked_at.append(str(path)) or scandir(path))
    monkeypatch.setattr(os, "listdir", lambda path: looked_at.append(str(path)) or listdir(path))
    with a_lab(tmp_path, settings={**SETTINGS, "idle_notice_s": 0.5}) as lab:
        command = ("/bin/sh", "-c", "touch $TIRESIAS_RUN_DIR/own.log; exec sleep 600")
        lab.submit(command, notify=target.url, notify_on="idle")
        lab.until(lambda: target.got)
        assert target.events == ["idle"]
    assert any(path.endswith("/runs/1") for path in looked_at)
    assert not any(path.endswith("/runs/1/job") for path in looked_at)
