"""Whose jobs a manager runs in a kill test: its own user, or, if it is root, other users of the machine."""

from __future__ import annotations

import os
import pwd
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tiresias.api.client import Client
from tiresias.store import Store

PYTHONS = (sys.executable, "/usr/bin/python3")


@dataclass(slots=True, frozen=True)
class Account:
    """How a user reaches the manager, and which Python their jobs can execute. No token: the Unix socket."""

    name: str
    python: str
    url: str | None = None
    token: str | None = None

    def client(self, home: Path) -> Client:
        if self.url is None:
            return Client(home, timeout_s=30.0)
        return Client(url=self.url, token=self.token, timeout_s=30.0)


def own_account() -> Account:
    return Account("", sys.executable)


def other_names() -> list[str]:
    """Users other than root for whom a manager of root can start Python; empty if this is not root."""
    if os.geteuid() != 0:
        return []
    return [name for name in ("nobody", "daemon", "games") if python_of(name)][:2]


def python_of(name: str) -> str:
    """A Python that this user may execute; empty if there is none."""
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return ""
    for path in PYTHONS:
        try:
            tried = subprocess.run(
                [path, "-S", "-c", "import tiresias.job"],
                user=account.pw_uid,
                group=account.pw_gid,
                extra_groups=[],
                cwd="/",
                env={"PYTHONPATH": str(Path(__file__).resolve().parents[3])},
                capture_output=True,
            )
        except OSError:
            continue
        if tried.returncode == 0:
            return path
    return ""


def admit(home: Path, names: Sequence[str]) -> tuple[list[Account], str]:
    """Give each user a token of the manager at this home, and say at which address it has to listen."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    accounts = []
    with Store.open(home / "journal.db", home=home) as store:
        for name in names:
            token = secrets.token_hex(16)
            store.add_token(token, name=f"kill-{name}", user=name, role="user", at=time.time())
            accounts.append(Account(name, python_of(name), f"http://{address}", token))
    return accounts, address
