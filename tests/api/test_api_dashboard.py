"""`tir dashboard`: who is let in, what is passed on, and the attacks of other users and other sites."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from api_server import Server, python, until_ended

from tiresias.api import pages
from tiresias.api.client import Client
from tiresias.api.dashboard import Dashboard, Sessions
from tiresias.api.home import short_name
from tiresias.api.transport import Address

VENDOR = pages.WEB / "vendor"
PARTS = (
    "default-src 'none'",
    "script-src 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
)


class Process:
    """The dashboard as a user starts it."""

    def __init__(self, home: Path, *words: str):
        env = {
            name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")
        }
        command = [sys.executable, "-m", "tiresias.cli.main", "dashboard", "--no-open", *words]
        self.process = subprocess.Popen(
            command,
            env={**env, "TIRESIAS_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:(\d+))/#code=([\w-]+)", self.said)
        assert found, self.said
        self.url, self.port, self.code = found[1], int(found[2]), found[3]

    def sign_in(self, http: httpx.Client) -> dict[str, str]:
        answer = http.post(f"{self.url}/session", json={"code": self.code})
        assert answer.status_code == 200, answer.text
        return {"Authorization": f"Bearer {answer.json()['session']}"}

    def end(self) -> str:
        """Ctrl-C; returns the rest of what it said."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        with self.process.stdout as words:
            rest = words.read()
        self.process.wait(30)
        assert self.process.returncode == 0, rest
        return self.said + rest


@pytest.fixture
def dashboard(server: Server) -> Iterator[Process]:
    made = Process(server.home)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.end()


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client


def test_a_code_is_exchanged_for_a_session_which_has_the_rights_of_the_caller(
    dashboard: Process, http: httpx.Client
) -> None:
    assert http.get(f"{dashboard.url}/api/v1/whoami").status_code == 401
    session = dashboard.sign_in(http)
    assert http.get(f"{dashboard.url}/api/v1/whoami", headers=session).json()["role"] == "admin"
    assert (
        http.get(f"{dashboard.url}/api/v1/whoami", headers={"Authorization": "Bearer x"}).status_code == 401
    )


def test_a_code_is_good_once(dashboard: Process, http: httpx.Client) -> None:
    dashboard.sign_in(http)
    again = http.post(f"{dashboard.url}/session", json={"code": dashboard.code})
    assert (again.status_code, "session" in again.json()) == (403, False)
    assert "run `tir dashboard` again" in again.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'"code"', b"{", b'{"code": 1}', b'{"code": "\\ud800"}', b"[" * 4000, b"x" * 9000],
)
def test_a_wrong_code_is_refused_whatever_it_is(dashboard: Process, http: httpx.Client, body: bytes) -> None:
    assert http.post(f"{dashboard.url}/session", content=body).status_code in (403, 422)


class Clock:
    at = 1000.0

    def __call__(self) -> float:
        return self.at


def asked(app: Dashboard, method: str, path: str, **more: object) -> httpx.Response:
    """One request to the application itself, as it would come from its own page."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{app.port}") as client:
            return await client.request(method, path, **more)  # type: ignore[arg-type]

    return asyncio.run(ask())


def test_a_code_that_comes_late_is_refused(tmp_path: Path) -> None:
    clock = Clock()
    app = Dashboard(Address.of_home(tmp_path), Sessions(clock))
    app.port = 4711
    first, second = (app.url().partition("code=")[2] for _ in range(2))
    clock.at += 59.9
    assert asked(app, "POST", "/session", json={"code": first}).status_code == 200
    clock.at += 0.2
    assert asked(app, "POST", "/session", json={"code": second}).status_code == 403


def test_a_session_dies_with_its_dashboard(server: Server, dashboard: Process, http: httpx.Client) -> None:
    session = dashboard.sign_in(http)
    dashboard.end()
    next_one = Process(server.home, "--port", str(dashboard.port))
    try:
        assert next_one.port == dashboard.port
        assert http.get(f"{next_one.url}/api/v1/status", headers=session).status_code == 401
    finally:
        next_one.end()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "[::1]:{port}", ""]
)
def test_a_name_that_was_made_to_point_here_is_refused(
    dashboard: Process, http: httpx.Client, host: str
) -> None:
    """DNS rebinding: the browser believes that this is a site of the attacker's."""
    session = dashboard.sign_in(http)
    for path in ("/", "/session", "/api/v1/status"):
        found = http.get(dashboard.url + path, headers={**session, "Host": host.format(port=dashboard.port)})
        assert found.status_code == 421, path


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_other_sites_and_other_ports_may_ask_nothing(
    dashboard: Process, http: httpx.Client, headers: dict[str, str]
) -> None:
    sent = {name: value.format(port=dashboard.port) for name, value in headers.items()}
    body = {"code": dashboard.code}
    assert http.post(f"{dashboard.url}/session", json=body, headers=sent).status_code == 403
    session = dashboard.sign_in(http)
    for method in ("GET", "POST", "OPTIONS"):
        answer = http.request(method, f"{dashboard.url}/api/v1/status", headers={**session, **sent})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


def test_every_answer_says_what_a_page_may_do_and_sets_no_cookie(
    dashboard: Process, http: httpx.Client
) -> None:
    session = dashboard.sign_in(http)
    for path in ("/", "/web/main.js", "/api/v1/status", "/nothing"):
        found = http.get(dashboard.url + path, headers=session)
        assert all(part in found.headers["Content-Security-Policy"] for part in PARTS), path
        assert found.headers["Referrer-Policy"] == "no-referrer"
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert "set-cookie" not in found.headers


def test_a_file_that_has_not_changed_is_not_sent_again(dashboard: Process, http: httpx.Client) -> None:
    first = http.get(f"{dashboard.url}/web/main.js")
    again = http.get(f"{dashboard.url}/web/main.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (first.status_code, first.headers["Content-Encoding"], again.status_code) == (200, "gzip", 304)


@pytest.mark.parametrize(
    "path",
    [
        "/web/../dashboard.py",
        "/web/%2e%2e/dashboard.py",
        "/web/vendor/vendored.json",
        "/web//main.js",
        "/metrics",
    ],
)
def test_nothing_but_the_pages_and_the_api_is_served(
    dashboard: Process, http: httpx.Client, path: str
) -> None:
    session = dashboard.sign_in(http)
    assert http.get(dashboard.url + path, headers=session).status_code == 404


def test_a_token_cannot_be_had_through_a_session(dashboard: Process, http: httpx.Client) -> None:
    session = dashboard.sign_in(http)
    body = {"name": "mine", "user": "root", "role": "admin"}
    assert http.post(f"{dashboard.url}/api/v1/tokens", json=body, headers=session).status_code == 403
    assert http.get(f"{dashboard.url}/api/v1/tokens", headers=session).status_code == 403


def test_changes_and_refusals_pass_through(dashboard: Process, http: httpx.Client, admin: Client) -> None:
    session = dashboard.sign_in(http)
    [id] = admin.submit(python("pass", hold=True))
    answer = http.post(f"{dashboard.url}/api/v1/jobs/{id}/cancel", headers=session)
    assert (answer.status_code, answer.json()["phase"]) == (200, "CANCELLED")
    again = http.post(f"{dashboard.url}/api/v1/jobs/{id}/cancel", headers=session)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
    changed = http.patch(f"{dashboard.url}/api/v1/jobs/{id}", json={"priority": "odd"}, headers=session)
    assert changed.status_code == 422
    large = http.post(f"{dashboard.url}/api/v1/jobs", content=b"x" * (5 << 20), headers=session)
    assert large.status_code == 413


def test_streams_pass_through_as_they_come_and_can_be_resumed(
    dashboard: Process, http: httpx.Client, admin: Client
) -> None:
    session = dashboard.sign_in(http)
    [id] = admin.submit(python("print('first'); print('second')"))
    until_ended(admin, id)
    url = f"{dashboard.url}/api/v1/jobs/{id}/logs?follow=true"
    with http.stream("GET", url, headers=session) as answer:
        lines = list(answer.iter_lines())
    assert any("first" in line for line in lines)
    last = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")][-1]
    with http.stream("GET", url, headers={**session, "Last-Event-ID": last}) as answer:
        assert not any("first" in line for line in answer.iter_lines())


def test_a_manager_that_is_down_is_named_and_found_again(tmp_path: Path, http: httpx.Client) -> None:
    server = Server(tmp_path / "h").start()
    dashboard = Process(server.home)
    try:
        session = dashboard.sign_in(http)
        server.terminate()
        down = http.get(f"{dashboard.url}/api/v1/status", headers=session)
        assert (down.status_code, down.json()["error"]["code"]) == (502, "unreachable")
        server.start()
        assert http.get(f"{dashboard.url}/api/v1/status", headers=session).status_code == 200
    finally:
        dashboard.end()
        server.stop()


def test_neither_code_nor_session_nor_token_is_in_a_log_or_in_the_process_list(
    server: Server, dashboard: Process, http: httpx.Client
) -> None:
    session = dashboard.sign_in(http)
    http.get(f"{dashboard.url}/api/v1/status", headers=session)
    http.get(f"{dashboard.url}/api/v1/nothing", headers=session)
    shown = Path(f"/proc/{dashboard.process.pid}/cmdline").read_text()
    said = dashboard.end()
    secret = session["Authorization"].split()[1]
    assert said.count(dashboard.code) == 1, "only in the address that it prints"
    assert secret not in said
    for text in (shown, server.log()):
        assert dashboard.code not in text
        assert secret not in text


def test_without_a_manager_there_is_no_dashboard(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tiresias.cli.main", "dashboard", "--no-open"]
    env = {**os.environ, "TIRESIAS_HOME": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 5
    assert "tir up" in done.stderr


def test_a_manager_that_listens_serves_the_same_pages_to_tokens(server: Server, http: httpx.Client) -> None:
    about = server.about
    assert about is not None
    page = http.get(about["url"] + "/")
    assert page.status_code == 200
    assert 'name="tiresias-sign-in" content="token"' in page.text
    assert all(part in page.headers["Content-Security-Policy"] for part in PARTS)
    script, library = "/web/main.js", "/web/vendor/preact-htm.js"
    assert http.get(about["url"] + script).content == pages.files()[script].body
    assert http.get(about["url"] + library).content == (VENDOR / "preact-htm.js").read_bytes()
    assert http.get(f"{about['url']}/api/v1/status").status_code == 401


def test_vendored_files_are_the_unchanged_release_files() -> None:
    about = json.loads((VENDOR / "vendored.json").read_text())
    found = {path.name for path in VENDOR.iterdir() if path.suffix in pages.KINDS}
    assert found == set(about)
    for name, each in about.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == each["sha256"], name
        for package in each["licences"]:
            assert (VENDOR / "licences" / f"{package}.txt").exists()


def test_all_files_together_are_small() -> None:
    found = pages.files().values()
    assert sum(len(each.body) for each in found) < 150_000
    assert sum(len(each.compressed) for each in found) < 60_000


def test_a_dashboard_ends_at_once_though_a_stream_is_open(dashboard: Process, http: httpx.Client) -> None:
    session = dashboard.sign_in(http)
    with http.stream("GET", f"{dashboard.url}/api/v1/events?follow=true", headers=session) as answer:
        assert next(answer.iter_lines()).startswith("id:")
        said = dashboard.end()
    assert len(said.splitlines()) == 2, "it says where it is, how long the address is good, and nothing else"


def test_a_dashboard_ends_at_once_though_its_manager_has_not_answered(
    server: Server, dashboard: Process, http: httpx.Client
) -> None:
    session = dashboard.sign_in(http)
    server.terminate()
    path = server.home / "manager.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as silent:
        with short_name(path) as name:
            silent.bind(name)
        silent.listen()
        with socket.create_connection(("127.0.0.1", dashboard.port)) as asks:
            head = f"GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:{dashboard.port}\r\n"
            asks.sendall(f"{head}Authorization: {session['Authorization']}\r\n\r\n".encode())
            asked, _ = silent.accept()
            with asked:
                assert asked.recv(1)
                said = dashboard.end()
    server.start()
    assert len(said.splitlines()) == 2, "the request that ends with it is no error"
