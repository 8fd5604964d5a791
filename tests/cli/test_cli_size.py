"""`tiresias size` and `--map`, as people write them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

FOREIGN = "submit,num_gpu,run_s\n0,2,100\n5,1,50\n"
MAPPED = ("--map", "gpus=num_gpu", "--map", "submitted_at=submit,duration_s=run_s")


@pytest.fixture
def tir(tmp_path):
    (tmp_path / "foreign.csv").write_text(FOREIGN)

    def call(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tiresias.cli.main", *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return call


def test_the_answer_is_a_number_of_gpus(tir, tmp_path):
    done = tir("size", "foreign.csv", *MAPPED, "--wait-p95", "2m", "--gpus-per-node", "1", "--plot", "p.png")
    assert done.returncode == 0, done.stderr
    assert "2 GPUs (2 nodes x 1)" in done.stdout
    assert (tmp_path / "p.png").exists()


def test_and_as_json_nothing_else(tir):
    done = tir("size", "foreign.csv", *MAPPED, "--wait-p95", "0s", "--gpus-per-node", "1", "--json")
    found = json.loads(done.stdout)
    assert found["answer"]["gpus"] == 3
    assert [each["nodes"] for each in found["tried"]] == sorted(each["nodes"] for each in found["tried"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("size", "foreign.csv", "--wait-p95", "soon"), "--wait-p95 soon: give a span of time"),
        (("trace", "describe", "foreign.csv", "--map", "gpus"), "write NAME=COLUMN"),
        (("trace", "describe", "foreign.csv", "--map", "gpus=a,gpus=b"), "is mapped already"),
        (("trace", "describe", "builtin:example", "--map", "gpus=a"), "Leave out --map"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(tir, args, message):
    done = tir(*args)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
