"""A training resumes only from complete checkpoints that its own job has written."""

from __future__ import annotations

import os

import pytest

from tiresias.job import _saves
from tiresias.job._saves import Saves, claimed, owner_of, released


@pytest.fixture
def saves(tmp_path):
    return Saves({"TIRESIAS_CHECKPOINT_DIR": str(tmp_path / "ckpt"), "TIRESIAS_JOB_KEY": "3-18c"})


def checkpoint(tmp_path, step: int, text: str = "weights"):
    path = tmp_path / "out" / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model").write_text(text)
    (path / "optimizer").write_text(text)
    return path


def test_the_latest_complete_checkpoint_counts(saves, tmp_path):
    assert saves.last("hf", 1) is None
    for step in (10, 20):
        saves.add("hf", 1, step, str(checkpoint(tmp_path, step)))
    assert saves.last("hf", 1)["step"] == 20
    assert saves.last("hf", 2) is None  # another training of the same process
    assert saves.last("lightning", 1) is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "model").write_text("cut"), "model has 3 bytes and not 7"),
        (lambda path: (path / "optimizer").unlink(), "optimizer is missing"),
        (lambda path: os.utime(path / "model", (1, 1)), "model was changed after this job had written it"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(saves, tmp_path, capsys, damage, message):
    paths = [checkpoint(tmp_path, step) for step in (10, 20)]
    for step, path in zip((10, 20), paths, strict=True):
        saves.add("hf", 1, step, str(path))
    damage(paths[1])
    assert saves.last("hf", 1)["step"] == 10
    assert capsys.readouterr().err == f"tiresias: the checkpoint {paths[1]} is not used: {message}\n"


def test_a_checkpoint_that_was_never_complete_is_not_known(saves, tmp_path):
    saves.add("hf", 1, 10, str(checkpoint(tmp_path, 10)))
    checkpoint(tmp_path, 20)  # the process was killed while it wrote this one
    assert saves.last("hf", 1)["step"] == 10


def test_checkpoints_that_the_framework_has_removed_are_passed_over_in_silence(saves, tmp_path, capsys):
    for step in (10, 20):
        saves.add("hf", 1, step, str(checkpoint(tmp_path, step)))
    for path in (tmp_path / "out/checkpoint-20").iterdir():
        path.unlink()
    (tmp_path / "out/checkpoint-20").rmdir()
    assert saves.last("hf", 1)["step"] == 10
    assert capsys.readouterr().err == ""


def test_another_job_with_the_same_directory_has_its_own_list(saves, tmp_path):
    saves.add("hf", 1, 10, str(checkpoint(tmp_path, 10)))
    other = Saves({"TIRESIAS_CHECKPOINT_DIR": saves.directory, "TIRESIAS_JOB_KEY": "4-18d"})
    assert other.last("hf", 1) is None


def test_a_list_that_is_damaged_is_named_and_no_error(saves, capsys):
    os.makedirs(saves.directory)
    with open(saves.path, "w") as file:
        file.write("{")
    assert saves.last("hf", 1) is None
    assert f"the list of checkpoints {saves.path} cannot be read" in capsys.readouterr().err
    with open(saves.path, "w") as file:
        file.write('{"saves": [1, {"path": "x"}]}')
    assert saves.last("hf", 1) is None


def test_a_single_file_is_a_checkpoint_too(saves, tmp_path):
    (tmp_path / "last.ckpt").write_text("weights")
    saves.add("lightning", 1, 5, str(tmp_path / "last.ckpt"))
    assert saves.last("lightning", 1)["path"] == str(tmp_path / "last.ckpt")
    (tmp_path / "last.ckpt").write_text("")
    assert saves.last("lightning", 1) is None


def test_a_directory_belongs_to_the_first_job_until_that_gives_it_free(tmp_path, capsys):
    out = str(tmp_path / "out")
    assert claimed(out, "1") == out
    assert claimed(out, "1") == out
    assert capsys.readouterr().err == ""
    assert claimed(out, "2") == f"{out}/job-2"
    assert len(capsys.readouterr().err.splitlines()) == 1
    released(out, "2")
    assert owner_of(out) == "1"
    released(out, "1")
    assert claimed(out, "2") == out
    assert os.listdir(out) == [_saves.CLAIM]
