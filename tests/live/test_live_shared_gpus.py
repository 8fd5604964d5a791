"""Jobs share a GPU as far as its memory goes: what they state, and what the machine tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.core.model import Node, Phase
from tiresias.executors.gpus import Gpu, Reading
from tiresias.executors.topology import Topology
from tiresias.live.answers import JobSummary
from tiresias.live.errors import Impossible
from tiresias.live.start import Options, open_manager
from tiresias.testing.live import ADMIN, SETTINGS, LiveLab

GIB = 1 << 30
FOR_LONG = "sleep 600"


def a_lab(home: Path, gib: int = 16) -> LiveLab:
    settings = SETTINGS | {"fake_gpu_memory_bytes": gib * GIB}
    options = {"slice_s": "0.2", "packing": "off"}
    return LiveLab(home, gpus=1, policy="gandiva", set=options, settings=settings)


def why(lab: LiveLab, job: JobSummary) -> str:
    return lab.manager.queries.why(ADMIN, job.id).text


def test_jobs_share_a_gpu_as_far_as_its_memory_goes(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab:
        one, two = (lab.submit(FOR_LONG, gpus=1, gpu_memory_bytes=6 * GIB) for _ in range(2))
        lab.until_running(one, two)
        three = lab.submit(FOR_LONG, gpus=1, gpu_memory_bytes=6 * GIB)
        small = lab.submit(FOR_LONG, gpus=1, gpu_memory_bytes=4 * GIB)
        lab.until_running(small)
        assert lab.of(three).phase == Phase.PENDING
        assert "enough memory for it" in why(lab, lab.of(three))
        lab.manager.requests.cancel(ADMIN, one)
        lab.until_running(three)


def test_a_gpu_names_all_jobs_that_share_it(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab:
        one, two = (lab.submit(FOR_LONG, gpus=1, gpu_memory_bytes=6 * GIB) for _ in range(2))
        lab.until_running(one, two)
        [[slot]] = [node.slots for node in lab.manager.queries.nodes.all()]
        assert (slot.state, slot.job_id, slot.job_ids) == ("busy", one, [one, two])
        lab.manager.requests.cancel(ADMIN, one)
        lab.until_ended(one)
        [[slot]] = [node.slots for node in lab.manager.queries.nodes.all()]
        assert (slot.job_id, slot.job_ids) == (two, [two])


def test_a_job_that_does_not_state_its_memory_shares_no_gpu_and_is_told_so(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab:
        stated = lab.submit(FOR_LONG, gpus=1, gpu_memory_bytes=2 * GIB)
        lab.until_running(stated)
        silent = lab.submit(FOR_LONG, gpus=1)
        lab.turn()
        assert lab.of(silent).phase == Phase.PENDING
        assert "it shares none: it does not state how much memory of a GPU it needs" in why(
            lab, lab.of(silent)
        )
        lab.manager.requests.cancel(ADMIN, stated)
        lab.until_running(silent)
        late = lab.submit(FOR_LONG, gpus=1, gpu_memory_bytes=2 * GIB)
        lab.turn()
        assert lab.of(late).phase == Phase.PENDING, "nobody joins a job that may need all of the memory"


def test_a_restarted_manager_shares_as_before(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab:
        one, two = (lab.submit(FOR_LONG, gpus=1, gpu_memory_bytes=8 * GIB) for _ in range(2))
        lab.until_running(one, two)
        lab.restart()
        three = lab.submit(FOR_LONG, gpus=1, gpu_memory_bytes=1 * GIB)
        lab.turn()
        assert lab.of(three).phase == Phase.PENDING
        lab.until_running(one, two)


def test_a_job_that_needs_more_than_any_gpu_has_is_refused(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab, pytest.raises(Impossible, match=r"no GPU has more than 16 GiB"):
        lab.submit("true", gpus=1, gpu_memory_bytes=40 * GIB)


class TwoGpus:
    """A driver as of a machine with two GPUs, which may tell their memory."""

    def __init__(self, *gib: int):
        self._gib = gib

    def gpus(self) -> list[Gpu]:
        return [Gpu(index, f"GPU-{index}", "A100", gib * GIB) for index, gib in enumerate(self._gib)]

    def processes(self, uuid: str) -> list[int]:
        return []

    def topology(self) -> Topology:
        return Topology()

    def reading(self, uuid: str) -> Reading:
        return Reading()


def test_a_node_has_the_memory_of_its_smallest_gpu_once_it_is_told(
    tmp_path: Path,
) -> None:
    def opened(*gib: int) -> Node:
        manager = open_manager(tmp_path, Options(policy="fifo"), driver=TwoGpus(*gib))
        manager.flush()
        [node] = manager.state.ledger.nodes
        manager.executor.close()
        manager.store.close()
        return node

    before = opened(0, 0)
    assert before.gpu_memory_bytes == 0
    assert opened(80, 40) == replace(before, gpu_memory_bytes=40 * GIB)
    assert opened(0, 0).gpu_memory_bytes == 40 * GIB, "what is known stays known"
