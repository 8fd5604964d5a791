"""Profiles that jobs brought along can be read again, as a report needs them."""

from __future__ import annotations

from pathlib import Path

from api_server import Server, job

from tiresias.profiles import known, zoo
from tiresias.profiles.stored import as_dict


def test_a_profile_that_a_job_brought_along_is_answered_whole(tmp_path: Path) -> None:
    server = Server(tmp_path / "h").start()
    try:
        client = server.client()
        assert client.profiles() == {}
        body = as_dict(zoo.find("vgg16")) | {"name": "mine"}
        client.submit(job("true", profile=body))
        [(name, found)] = client.profiles().items()
        assert name.startswith("mine@")
        assert known.read(found, name).name == name  # the same content has the same digest
    finally:
        server.stop()
