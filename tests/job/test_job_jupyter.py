"""`tir jupyter`: the token of a notebook server goes to that server, and its URL is a URL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiresias.cli.errors import Stop
from tiresias.cli.live.jupyter import read_url
from tiresias.job import _jupyter

SERVER = """
import encodings.idna, http.server, json, os, sys
os.setuid(int(sys.argv[1]))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.headers["Authorization"]).encode())
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def server(user: int) -> Iterator[int]:
    """A server of this user at a port of the loopback address; it answers with the token that it gets."""
    with subprocess.Popen([sys.executable, "-c", SERVER, str(user)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def test_the_token_is_sent_to_a_server_of_the_same_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_TOKEN", "secret")
    with server(os.geteuid()) as port:
        assert _jupyter.asked(port, "status") == "token secret"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_who_takes_the_port_does_not_get_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is free between its choice and the start of the server, which takes seconds."""
    monkeypatch.setenv("JUPYTER_TOKEN", "secret")
    with server(65534) as port:
        assert _jupyter.asked(port, "status") is None


@pytest.fixture
def url_file(tmp_path: Path) -> Path:
    return tmp_path / "jupyter.url"


def test_the_url_of_a_server_is_read(url_file: Path) -> None:
    url = "http://127.0.0.1:8888/lab?token=abc-_1"
    url_file.write_text(url + "\n")
    assert read_url(url_file) == url


@pytest.mark.parametrize(
    "text",
    ["", "\x1b]52;c;ZWNobyBoaQ==\x07", "http://127.0.0.1:1/\x1b[2J", "http://example.org/lab", "x" * 10_000],
)
def test_what_is_no_url_of_a_server_is_not_shown(url_file: Path, text: str) -> None:
    url_file.write_text(text)
    with pytest.raises(Stop, match="no URL of a notebook server"):
        read_url(url_file)


def test_a_link_or_a_pipe_in_the_place_of_the_url_is_neither_followed_nor_waited_for(url_file: Path) -> None:
    os.mkfifo(url_file)
    with pytest.raises(Stop, match="no URL"):
        read_url(url_file)
    url_file.unlink()
    url_file.symlink_to("/etc/shadow")
    with pytest.raises(Stop, match="no URL"):
        read_url(url_file)
