"""docs/howto/several-machines.md, run as it is written: three boxes, from nothing to the first gang.

The boxes of the test have no GPUs and one file system, so `ray start` and `tir up` are told of fake GPUs, and
the names of boxes and of the folder are replaced by what stands for them.
"""

from __future__ import annotations

import re
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from tiresias.testing.ray_bed import Bed

PAGE = Path(__file__).parents[2] / "docs/howto/several-machines.md"
BOXES = ("alpha", "beta", "gamma")
BLOCK = re.compile(r"^```sh on (\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def adapted(command: str, bed: Bed, box: str, shared: Path) -> str:
    command = command.replace("alpha:6379", f"{bed.boxes[0].address}:6379").replace("/mnt/lab", str(shared))
    if command.startswith("ray start"):
        command += f" --node-ip-address={bed.boxes[BOXES.index(box)].address} --num-gpus=2 --num-cpus=1"
        command += " --object-store-memory=80000000 --disable-usage-stats"
        command += f" --include-dashboard=false --temp-dir={bed.temp}" if "--head" in command else ""
    return f"{command} --fake-gpus 2" if command.startswith("tir up") else command


def test_three_boxes_from_nothing_to_the_first_gang(bed, tmp_path):
    """`bed` is not used: its being there says that nothing is missing for another one."""
    boxes = Bed(3, Path(mkdtemp(prefix="tir")), BOXES)  # sockets of Ray must have short paths
    shared, home = tmp_path / "lab", tmp_path / "home"
    shared.mkdir()
    said: dict[str, str] = {}
    try:
        boxes.make()
        for box, block in BLOCK.findall(PAGE.read_text()):
            for command in block.strip().splitlines():
                done = boxes.boxes[BOXES.index(box)].run(
                    "sh", "-c", adapted(command, boxes, box, shared), env={"TIRESIAS_HOME": str(home)}
                )
                assert done.returncode == 0, (command, done.stdout, done.stderr)
                said[command] = done.stdout
        assert all(name in said["tir nodes"] for name in BOXES), said
        assert re.search(r"^0 of 3 on (alpha|beta|gamma)$", said["tir logs first"], flags=re.MULTILINE), said
        boxes.boxes[0].run("tir", "down", env={"TIRESIAS_HOME": str(home)})
    finally:
        boxes.remove()
        rmtree(boxes.top, ignore_errors=True)
