"""`tir up --on ray` where it cannot work: what is refused before Ray is asked. The rest is in tests/ray."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

NOWHERE = "127.0.0.1:1"


def refused(tmp_path, *words: object, prefix: tuple[str, ...] = ()) -> str:
    """What `tir up --on ray` says when it exits with 2."""
    tir = Path(sys.executable).with_name("tir")
    done = subprocess.run(
        [*prefix, str(tir), "up", "--on", "ray", *map(str, words)],
        env={**os.environ, "TIRESIAS_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.skipif(any(each.name == "ray" for each in distributions()), reason="Ray is installed here")
def test_a_machine_without_ray_is_told_what_to_install(tmp_path):
    (tmp_path / "lab").mkdir()
    said = refused(tmp_path, "--address", NOWHERE, "--shared", tmp_path / "lab")
    assert "Ray is not installed here; run `pip install 'tiresias[ray]'`, then `tir up`" in said


def test_a_folder_is_asked_for(tmp_path):
    said = refused(tmp_path, "--address", NOWHERE)
    assert "--on ray needs --shared DIR, a folder that all nodes have at the same path" in said


def test_a_folder_that_is_not_there_is_named(tmp_path):
    said = refused(tmp_path, "--address", NOWHERE, "--shared", tmp_path / "lab")
    assert f"--shared {tmp_path / 'lab'}: there is no such folder on {os.uname().nodename}" in said


def test_a_folder_without_hard_links_is_refused(tmp_path):
    """The kernel refuses the calls, as it does on a FAT file system."""
    (tmp_path / "lab").mkdir()
    without = (sys.executable, "-m", "tiresias.testing.no_links")
    said = refused(tmp_path, "--address", NOWHERE, "--shared", tmp_path / "lab", prefix=without)
    assert f"--shared {tmp_path / 'lab'}: it has no hard links (Operation not permitted on" in said
    assert not list((tmp_path / "lab").iterdir())


def test_an_address_is_asked_for(tmp_path):
    (tmp_path / "lab").mkdir()
    assert "--on ray needs --address HOST:PORT" in refused(tmp_path, "--shared", tmp_path / "lab")
