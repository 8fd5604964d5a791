"""Calls of functions on Ray nodes, as far as they come without Ray; tests/ray has the rest."""

from __future__ import annotations

import operator
import pickle
import sys
from pathlib import Path

import pytest

import tiresias
from tiresias.executors.ray_connection import NoRay
from tiresias.executors.ray_tasks import RayTasks, called

ADDED = (pickle.dumps(operator.add), pickle.dumps((1,)), pickle.dumps(2))


def test_a_function_is_called_with_its_arguments_and_the_shared_value():
    kind, result = called(tiresias.__version__, *ADDED)
    assert (kind, pickle.loads(result)) == ("done", 3)


def test_a_node_with_another_version_is_named_with_the_command_to_run():
    kind, says = called("9.9.9", *ADDED)
    assert kind == "other"
    assert f"has Tiresias {tiresias.__version__}, and this one has 9.9.9; run `pip install" in says


@pytest.mark.parametrize("ends", ["at once", "while it works"])
def test_the_end_of_the_process_that_calls_ray_is_told_with_what_it_said_last(tmp_path: Path, ends: str):
    """Ray ends the process that has called it when the node of its machine ends."""
    program = tmp_path / "carrier.py"
    connected = "s.sendall(frame(('connected', 0, None)))" if ends == "while it works" else ""
    program.write_text(
        "import os, socket, sys\n"
        "from tiresias.executors.ray_connection import frame, read_frame_now\n"
        f"s = socket.socket(fileno=os.dup(0))\nread_frame_now(s)\n{connected}\n"
        "print('the raylet has died', file=sys.stderr)\n"
    )
    tasks = RayTasks("alpha:6379", prefix=(sys.executable, str(program)))
    with pytest.raises(NoRay, match="the connection to Ray at alpha:6379 has ended") as found:
        list(tasks.run(operator.add, [((1,), "a")], {"a": 2}))
    assert found.value.code == 5
    if ends == "while it works":
        assert "the raylet has died" in str(found.value)
