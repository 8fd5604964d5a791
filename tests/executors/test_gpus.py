"""GPUs as a driver reports them: recorded answers, and on a machine with a GPU also the real ones."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tiresias.executors.base import Slot
from tiresias.executors.gpus import Gpu, GpuProcesses, NoDriver, Nvml, Reading, fake, find, parse_selection
from tiresias.executors.local import LocalExecutor
from tiresias.executors.topology import Topology
from tiresias.testing.executors import Bench

GIB = 2**30
FOUR = [
    Gpu(i, f"GPU-{i:08x}-1111-2222-3333-444444444444", "NVIDIA A100-SXM4-40GB", 40 * GIB) for i in range(4)
]


class Recorded:
    """A driver with recorded answers."""

    def __init__(self, gpus=FOUR, error="", processes=None):
        self._gpus, self._error, self.used = gpus, error, processes or {}

    def gpus(self):
        if self._error:
            raise NoDriver(self._error)
        return list(self._gpus)

    def processes(self, uuid):
        if self._error:
            raise NoDriver(self._error)
        answer = self.used.get(uuid, [])
        return answer.pop(0) if answer and isinstance(answer[0], list) else answer

    def topology(self):
        return Topology()


def test_all_gpus_are_found():
    survey = find(Recorded())
    assert [gpu.uuid for gpu in survey.gpus] == [gpu.uuid for gpu in FOUR]
    assert survey.problem == ""


def test_a_selection_restricts():
    assert [gpu.index for gpu in find(Recorded(), parse_selection("1,3")).gpus] == [1, 3]


def test_a_gpu_that_is_not_there_is_named():
    survey = find(Recorded(), [2, 7])
    assert (survey.gpus, survey.problem) == ((), "no GPU 7: this machine has 0-3")


@pytest.mark.parametrize("driver", [Recorded(error="no NVIDIA driver: Driver Not Loaded"), Recorded(gpus=[])])
def test_a_machine_without_a_driver_is_no_error(driver):
    survey = find(driver)
    assert survey.gpus == ()
    assert survey.problem.startswith("no GPUs found: ")
    assert "--fake-gpus" in survey.problem


def test_fake_gpus_have_no_uuid():
    assert [(gpu.index, gpu.uuid) for gpu in fake(3).gpus] == [(0, ""), (1, ""), (2, "")]


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("0", (0,)),
        ("0-3", (0, 1, 2, 3)),
        ("2,0", (0, 2)),
        ("0,2,5-7", (0, 2, 5, 6, 7)),
        (" 1 , 1-2 ", (1, 2)),
    ],
)
def test_selections(text, indices):
    assert parse_selection(text) == indices


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "''"),
        ("a", "'a'"),
        ("3-1", "ends before"),
        ("1-", "'1-'"),
        ("-1", "'-1'"),
        ("1,,2", "''"),
        ("0-99999999999", "no machine"),
    ],
)
def test_a_wrong_selection_is_named(text, says):
    with pytest.raises(ValueError, match=says):
        parse_selection(text)


def test_a_gpu_is_foreign_if_a_process_other_than_ours_uses_it():
    driver = Recorded(processes={"a": [10], "b": [20], "c": [10, 30], "d": [40]})
    watch = GpuProcesses(driver, is_ours=lambda pid: pid == 10, is_alive=lambda pid: pid != 40)
    assert watch.foreign("abcd") == {"b": [20], "c": [30]}


def test_a_gpu_is_in_use_while_it_shows_a_process_of_ours_or_one_that_has_ended():
    driver = Recorded(processes={"a": [10], "b": [20], "d": [40]})
    watch = GpuProcesses(driver, is_ours=lambda pid: pid == 10, is_alive=lambda pid: pid != 40)
    assert watch.in_use("abcd") == ("a", "d")


def test_a_driver_that_fails_later_blocks_no_gpu():
    watch = GpuProcesses(Recorded(error="gone"), is_ours=lambda pid: True)
    assert (watch.in_use("a"), watch.foreign("a")) == ((), {})


NOBODY = 2**22 + 1  # above the largest pid there can be


def test_a_run_is_gone_only_when_the_driver_has_released_its_gpu(tmp_path: Path):
    driver = Recorded(processes={"GPU-x": [[NOBODY], [NOBODY], [NOBODY], []]})
    executor = LocalExecutor(tmp_path / "executor", driver=driver)
    bench = Bench(executor, tmp_path)
    bench.shell("exit 0", slots=(Slot("n", 0, "GPU-x"),))
    assert bench.gone().busy_gpus == ()
    assert driver.used["GPU-x"] == []
    executor.close()


def test_the_executor_knows_its_own_processes(tmp_path: Path):
    driver = Recorded()
    executor = LocalExecutor(tmp_path / "executor", driver=driver)
    bench = Bench(executor, tmp_path)
    bench.shell("(echo $$; exec sleep 600) > $TIRESIAS_RUN_DIR/pid", slots=(Slot("n", 0, "GPU-x"),))
    pid = int(bench.file("runs/1/job/pid"))
    driver.used["GPU-x"] = [pid, os.getpid()]
    assert executor.owns(pid)
    assert executor.foreign(["GPU-x"]) == {"GPU-x": [os.getpid()]}
    driver.used["GPU-x"] = []
    executor.stop(bench.specs.popitem()[0])
    bench.gone()
    executor.close()


class Unsupported(Exception):
    pass


class RecordedLibrary:
    """pynvml on a machine with two GPUs: the first has rows to remap, the second has fallen off the bus."""

    NVMLError = Unsupported

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        if index:
            raise Unsupported("GPU is lost")
        return "handle"

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != FOUR[0].uuid:
            raise Unsupported("Not Found")
        return "handle"

    def nvmlDeviceGetUUID(self, handle):
        return FOUR[0].uuid

    def nvmlDeviceGetName(self, handle):
        return "NVIDIA A100-SXM4-40GB"

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=40 * GIB, used=30 * GIB)

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=87)

    NVML_TEMPERATURE_GPU = "the core"

    def nvmlDeviceGetTemperature(self, handle, sensor):
        if sensor != "the core":
            raise Unsupported("Not Supported")
        return 64

    def nvmlDeviceGetRemappedRows(self, handle):
        return (0, 1, 1, 0)

    def nvmlDeviceGetRetiredPagesPendingStatus(self, handle):
        raise Unsupported("Not Supported")

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=12), SimpleNamespace(pid=11)]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle):
        return [SimpleNamespace(pid=11)]


def test_a_gpu_that_is_faulty_or_off_the_bus_is_unhealthy_and_hides_no_other():
    first, second = find(Nvml(RecordedLibrary())).gpus
    assert (first.uuid, first.memory_bytes) == (FOUR[0].uuid, 40 * GIB)
    assert first.unhealthy == "memory rows are waiting to be remapped: reset the GPU"
    assert second == Gpu(1, "", "unknown", 0, unhealthy="the driver cannot reach it: GPU is lost")


def test_the_processes_on_a_gpu_are_those_that_compute_and_those_that_draw():
    driver = Nvml(RecordedLibrary())
    assert driver.processes(FOUR[0].uuid) == [11, 12]
    with pytest.raises(NoDriver, match="does not answer for GPU-none"):
        driver.processes("GPU-none")


def test_a_reading_has_what_the_driver_knows():
    library = RecordedLibrary()
    assert Nvml(library).reading(FOUR[0].uuid) == Reading(0.87, 30 * GIB, 64)
    library.NVML_TEMPERATURE_GPU = "no such sensor"
    assert Nvml(library).reading(FOUR[0].uuid) == Reading(0.87, 30 * GIB, None)
    with pytest.raises(NoDriver, match="does not answer for GPU-none"):
        Nvml(library).reading("GPU-none")


def test_the_real_driver():
    survey = find(Nvml())
    if not survey.gpus:
        pytest.skip(survey.problem)
    assert all(
        gpu.uuid.startswith("GPU-") and gpu.memory_bytes > GIB for gpu in survey.gpus if not gpu.unhealthy
    )
    assert isinstance(Nvml().processes(survey.gpus[0].uuid), list)


def test_a_run_on_a_gpu_that_it_was_not_given_is_noticed(tmp_path: Path):
    driver = Recorded()
    executor = LocalExecutor(tmp_path / "executor", driver=driver)
    bench = Bench(executor, tmp_path)
    bench.shell("(echo $$; exec sleep 600) > $TIRESIAS_RUN_DIR/pid", slots=(Slot("n", 0, "GPU-x"),))
    pid = int(bench.file("runs/1/job/pid"))
    driver.used |= {"GPU-x": [pid], "GPU-y": [pid, os.getpid()]}
    assert executor.misused(["GPU-x", "GPU-y"]) == {"GPU-y": [(1, pid)]}
    assert executor.foreign(["GPU-x", "GPU-y"]) == {"GPU-y": [os.getpid()]}
    driver.used.clear()
    executor.stop(bench.specs.popitem()[0])
    bench.gone()
    executor.close()
