"""What must not be used: another version of Ray, of Tiresias, and what does not answer as Ray does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import mkdtemp

import pytest
from training_lab import TrainingLab

import tiresias
from tiresias.testing.executors import until
from tiresias.testing.ray_bed import Bed

OTHER_RAY = os.environ.get("TIRESIAS_OTHER_RAY", "")
MUTE = """
import socket, sys
server = socket.create_server((sys.argv[1], 7777))
print("listens", flush=True)
taken = []
while True:
    taken.append(server.accept())
"""


@contextmanager
def boxes(*names: str) -> Iterator[Bed]:
    made = Bed(len(names), Path(mkdtemp(prefix="tir")), names)  # sockets of Ray must have short paths
    try:
        made.make()
        yield made
    finally:
        made.remove()
        rmtree(made.top, ignore_errors=True)


@pytest.mark.skipif(not OTHER_RAY, reason="no other version of Ray: `make test-ray` installs one")
def test_another_version_of_ray_is_refused_with_both_versions_and_the_command_to_run(bed, tmp_path):
    """`bed` is not used: its being there says that nothing is missing for another one."""
    with boxes("v0") as other:
        other.ray = OTHER_RAY
        other.boxes[0].start_ray()
        refused = TrainingLab(other, tmp_path).up(code=2)
    there = subprocess.run([OTHER_RAY, "--version"], capture_output=True, text=True).stdout.split()[-1]
    here = version("ray")
    assert there != here
    assert f"Ray: {there} there, {here} here" in refused.stderr
    assert f"use `pip install 'ray=={there}'`, then `tir up`" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_what_does_not_answer_is_refused_after_ten_seconds(bed, tmp_path):
    box = bed.boxes[0]
    server = subprocess.Popen(
        box.command([sys.executable, "-c", MUTE, box.address]), stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "listens\n"
        lab = TrainingLab(bed, tmp_path)
        where = ("--address", f"{box.address}:7777", "--shared", str(lab.shared))
        refused = lab.tir("up", "--on", "ray", *where, code=5)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert f"Ray at {box.address}:7777 has not answered in 10 s" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_first_up_is_refused_where_nodes_cannot_be_used_and_names_each(bed, tmp_path):
    """A folder that is not shared or has no hard links, another version. A node that is cured joins."""
    with boxes("w0", "w1", "w2", "w3") as made:
        lab = TrainingLab(made, tmp_path)
        first, newer, fat, alone = made.boxes
        first.start_ray()
        alone.hide(lab.shared)
        alone.start_node()
        changed = tmp_path / "newer"
        copytree(Path(tiresias.__file__).parent, changed / "tiresias")
        file = changed / "tiresias" / "__init__.py"
        file.write_text(file.read_text() + '\n__version__ = "9.9.9"\n')
        newer.start_node(env={"PYTHONPATH": str(changed)})
        fat.start_node(through=(sys.executable, "-m", "tiresias.testing.no_links"))
        refused = lab.up(code=2)
        here = tiresias.__version__
        assert (
            f"node w1: it has Tiresias 9.9.9, and the manager has {here}; run"
            f" `pip install 'tiresias[ray]=={here}'` there, and start Ray there again" in refused.stderr
        )
        links = f"the folder {lab.shared} has no hard links (Operation not permitted)"
        assert f"node w2: {links}" in refused.stderr
        assert f"node w3: the folder {lab.shared} is not shared" in refused.stderr
        assert "Traceback" not in refused.stderr
        for box in (newer, fat, alone):
            box.end_ray()
        # Ray takes a while to notice; until then, the first `tir up` is still refused.
        until(lambda: lab.up(code=None).returncode == 0, "the manager starts", within_s=180)
        until(lambda: "w0" in lab.nodes(), "the first node has joined", within_s=60)
        fat.start_node(gpus=0, labels="rack=r7")
        until(lambda: "w2" in lab.nodes() and not lab.why_not("w2"), "it joins", within_s=120)
        found = lab.nodes()["w2"]
        assert (found["rack"], found["cpus"] > 0) == ("r7", True)
        # It has no GPUs, and serves jobs that may run on CPUs while the GPUs are full.
        holder = lab.submit("-g", "4", "--priority", "high", "--", "sleep", "600")
        lab.until_phase(holder, "RUNNING")
        small = lab.submit("-g", "1", "--cpu-speed", "0.5", "--", "hostname")
        lab.until_ended([small])
        assert lab.logs(small).strip() == "w2"
        lab.end()
