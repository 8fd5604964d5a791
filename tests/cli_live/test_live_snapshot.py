"""A copy of the working tree."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from tiresias.cli.errors import REJECTED, Stop
from tiresias.cli.live import snapshot

MUCH = 2**30


def git(where: Path, *words: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", "-C", str(where), *named, *words], check=True, capture_output=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with everything that can be in one."""
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "src/train.py").write_text("committed")
    (top / "src/gone.py").write_text("will be removed")
    (top / ".gitignore").write_text("data/\n")
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    git(tmp_path, "init", "-q", str(top))
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first")
    (top / "src/train.py").write_text("changed since")
    (top / "src/new.py").write_text("not tracked")
    (top / "src/gone.py").unlink()
    (top / "data").mkdir()
    (top / "data/big").write_text("ignored")
    (top / "link").symlink_to("src/train.py")
    return top


def contents(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*") if path.is_file() and path.name != snapshot.ABOUT]
    return {str(path.relative_to(root)): path.read_text() for path in files}


def test_the_copy_of_a_repository_has_what_is_tracked_as_it_is_now_and_what_is_new(project, home):
    taken = snapshot.take(project / "src", home, MUCH)
    assert contents(taken.root) == {
        ".gitignore": "data/\n",
        "run.sh": "#!/bin/sh\n",
        "src/train.py": "changed since",
        "src/new.py": "not tracked",
        "link": "changed since",
    }
    assert taken.cwd == taken.root / "src"
    assert os.readlink(taken.root / "link") == "src/train.py"
    assert os.access(taken.root / "run.sh", os.X_OK)
    assert taken.root.parent == home / "snapshots"
    assert taken.root.stat().st_mode & 0o077 == 0  # nobody else may read it
    about = json.loads((taken.root / snapshot.ABOUT).read_text())
    assert about["source"] == str(project)
    assert len(about["commit"]) == 40


def test_submodules_are_copied_too(project, home, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    git(tmp_path, "init", "-q", str(inner))
    (inner / "lib.py").write_text("library")
    git(inner, "add", ".")
    git(inner, "commit", "-q", "-m", "first")
    git(project, "submodule", "add", "-q", str(inner), "vendor")
    assert contents(snapshot.take(project, home, MUCH).root)["vendor/lib.py"] == "library"


def test_without_git_the_whole_directory_is_copied(tmp_path, home):
    place = tmp_path / "plain"
    (place / "deep/er").mkdir(parents=True)
    (place / "deep/er/a.txt").write_text("a")
    (place / "broken").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(place / "sock"))
    taken = snapshot.take(place, home, MUCH)
    assert contents(taken.root) == {"deep/er/a.txt": "a"}
    assert os.readlink(taken.root / "broken") == "nowhere"
    assert (taken.cwd, taken.commit) == (taken.root, "")
    taken.remove()
    assert not taken.root.exists()


def test_a_tree_that_is_too_large_is_refused_before_anything_is_copied(tmp_path, home):
    place = tmp_path / "plain"
    (place / "checkpoints").mkdir(parents=True)
    (place / "checkpoints/last.pt").write_bytes(b"x" * 5000)
    (place / "train.py").write_text("small")
    with pytest.raises(Stop) as stopped:
        snapshot.take(place, home, 4096)
    assert stopped.value.code == REJECTED
    assert "checkpoints (4.9 KiB)" in str(stopped.value)
    assert "--snapshot-limit" in str(stopped.value)
    assert not (home / "snapshots").exists()


def test_a_copy_holds_no_copies_and_no_state_of_a_manager(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "code.py").write_text("code")
    (tmp_path / "lab").mkdir()
    for folder in (".tiresias/snapshots/x", "lab/home/jobs"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "state").write_text("not code")
    assert contents(snapshot.take(tmp_path, tmp_path / "lab/home", MUCH).root) == {"code.py": "code"}


def test_copies_of_ones_own_go_when_their_jobs_have_ended(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "plain").mkdir()
    home = tmp_path / "not-mine"
    taken = [snapshot.take(tmp_path / "plain", home, MUCH) for _ in range(3)]
    taken[0].note_jobs(home, [1, 2])
    taken[1].note_jobs(tmp_path / "another manager's", [1])
    taken[2].note_jobs(home, [2, 3])
    snapshot.tidy(snapshot.own(), home, lambda id: id != 3)
    assert [each.root.exists() for each in taken] == [False, True, True]


def test_a_home_that_may_not_be_written_leaves_the_copy_in_ones_own(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    place = tmp_path / "plain"
    place.mkdir()
    (place / "a").write_text("a")
    taken = snapshot.take(place, tmp_path / "nobody's", MUCH)
    assert taken.root.parent == tmp_path / "me/.tiresias/snapshots"
