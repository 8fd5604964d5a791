"""One real manager for each file of tests; two users that are known by their tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from api_server import Server

from tiresias.api.client import Client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two fake GPUs, a Unix socket and TCP."""
    made = Server(tmp_path_factory.mktemp("h"), listen="127.0.0.1:0")
    try:
        yield made.start()
    finally:
        assert made.stop() == 0


@pytest.fixture(scope="module")
def admin(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


@dataclass
class People:
    """Two users; both are accounts that every machine has, because a manager of root's asks for one."""

    ada: Client
    bob: Client
    ada_token: str
    bob_token: str


@pytest.fixture(scope="module")
def people(server: Server, admin: Client) -> Iterator[People]:
    ada_token = admin.create_token("ada", "daemon")
    bob_token = admin.create_token("bob", "nobody")
    with server.client(ada_token) as ada, server.client(bob_token) as bob:
        yield People(ada, bob, ada_token, bob_token)
