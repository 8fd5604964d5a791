"""The cause of an exit is found in what real programs print and return."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.core.model import RunId
from tiresias.executors.base import RunGone, WorkerExit
from tiresias.executors.causes import Kind, classify


def a_gone(tail: str = "", code: int | None = 1, signal: int | None = None, **changes) -> RunGone:
    exits = (WorkerExit(code=None if signal else code, signal=signal),)
    given = {"exits": exits, "first_failed": 0 if signal or code else None, "tail": tail}
    return RunGone(RunId(1), **(given | changes))


OUTPUTS = {
    "cuda-oom": (
        """\
  File "train.py", line 88, in step
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of 23.6 GiB""",
        Kind.GPU_MEMORY,
        False,
    ),
    "cuda-oom-under-torchrun": (
        """\
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.
[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
train.py FAILED""",
        Kind.GPU_MEMORY,
        False,
    ),
    "jax-oom": (
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate",
        Kind.GPU_MEMORY,
        False,
    ),
    "numpy-memory": (
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 745. GiB for an array",
        Kind.HOST_MEMORY,
        False,
    ),
    "memory-error": ("Traceback (most recent call last):\n  ...\nMemoryError", Kind.HOST_MEMORY, False),
    "dataloader": (
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that"
        " dataloader's workers are out of shared memory.",
        Kind.HOST_MEMORY,
        False,
    ),
    "disk": ("OSError: [Errno 28] No space left on device: 'ckpt.pt'", Kind.DISK, False),
    "syntax": (
        '  File "train.py", line 3\n    def f(:\n          ^\nSyntaxError: invalid syntax',
        Kind.CODE,
        False,
    ),
    "import": ("ModuleNotFoundError: No module named 'torchvision'", Kind.IMPORT, False),
    "no-module": ("/usr/bin/python3: No module named train", Kind.IMPORT, False),
    "library": (
        "./a.out: error while loading shared libraries: libcudart.so.12: cannot open shared object file",
        Kind.IMPORT,
        False,
    ),
    "python-file": (
        "python: can't open file '/home/x/trian.py': [Errno 2] No such file or directory",
        Kind.FILE,
        False,
    ),
    "data-file": (
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/imagenet'",
        Kind.FILE,
        False,
    ),
    "shell": ("train.sh: 3: pyhton: not found", Kind.FILE, False),
    "nccl-timeout": (
        "[rank3]:[E ProcessGroupNCCL.cpp:629] Watchdog caught collective operation timeout: WorkNCCL",
        Kind.NETWORK,
        True,
    ),
    "gloo": (
        "RuntimeError: [gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]",
        Kind.NETWORK,
        True,
    ),
    "port": ("OSError: [Errno 98] Address already in use", Kind.NETWORK, True),
    "download": ("ConnectionResetError: [Errno 104] Connection reset by peer", Kind.NETWORK, True),
    "ecc": ("RuntimeError: CUDA error: uncorrectable ECC error encountered", Kind.GPU, True),
    "xid": ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", Kind.GPU, True),
    "no-device": ("RuntimeError: No CUDA GPUs are available", Kind.GPU, True),
    "mismatch": ("Failed to initialize NVML: Driver/library version mismatch", Kind.GPU, True),
    "launch-failure": ("RuntimeError: CUDA error: unspecified launch failure", Kind.GPU, True),
    "assert": ("RuntimeError: CUDA error: device-side assert triggered", Kind.CODE, False),
    "name": ("NameError: name 'modle' is not defined", Kind.CODE, False),
    "arguments": ("train.py: error: unrecognized arguments: --lrr 0.1", Kind.CODE, False),
    "shapes": ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 4x5)", Kind.CODE, False),
    "data": ("ValueError: could not convert string to float: 'x'", Kind.CODE, False),
    "input": ("EOFError: EOF when reading a line", Kind.CODE, False),
    "nothing": ("epoch 3 loss 0.1", Kind.UNKNOWN, True),
    "no-output": ("", Kind.UNKNOWN, True),
    "handled-before": (
        "FileNotFoundError: no cache, building it\nepoch 1\nConnectionResetError: Connection reset by peer",
        Kind.NETWORK,
        True,
    ),
    "warned-after": (
        "NameError: name 'x' is not defined\n"
        "[rank0]:[W ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed",
        Kind.CODE,
        False,
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_cause_is_read_from_the_output(name):
    tail, kind, retry = OUTPUTS[name]
    cause = classify(a_gone(tail))
    assert (cause.kind, cause.retry_can_cure) == (kind, retry)
    assert cause.sentence.endswith(".")
    if kind is not Kind.UNKNOWN:
        line = cause.evidence.rpartition(" (train.py, line ")[0] or cause.evidence
        assert line in tail
        assert line


EXITS = {
    "finished": (a_gone(code=0), Kind.FINISHED, False),
    "requeue-me": (a_gone(code=75), Kind.PREEMPTED, True),
    "143": (a_gone(code=143), Kind.PREEMPTED, True),
    "sigterm-from-elsewhere": (a_gone(signal=15), Kind.PREEMPTED, True),
    "0-after-our-signal": (a_gone(code=0, stopped=True), Kind.PREEMPTED, True),
    "1-after-our-signal": (a_gone("NameError: name 'x'", code=1, stopped=True), Kind.PREEMPTED, True),
    "killed-after-our-grace": (a_gone(signal=9, stopped=True, killed=True), Kind.PREEMPTED, True),
    "oom-killed": (a_gone(signal=9, oom_kills=1), Kind.HOST_MEMORY, True),
    "killed-by-a-person": (a_gone(signal=9), Kind.KILLED, True),
    "oom-killed-by-its-cgroup": (a_gone(signal=9, oom_kills=3, own_oom_kills=1), Kind.HOST_MEMORY, True),
    "killed-at-its-memory-limit": (
        a_gone("CUDA out of memory.", signal=9, own_oom_kills=2, over_memory_bytes=2**30),
        Kind.MEMORY_LIMIT,
        False,
    ),
    "others-were-oom-killed": (a_gone(signal=9, oom_kills=3, own_oom_kills=0), Kind.KILLED, True),
    "137-in-a-shell": (a_gone("train.sh: line 2: 4711 Killed", code=137), Kind.KILLED, True),
    "loader": (
        a_gone("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed."),
        Kind.KILLED,
        True,
    ),
    "oom-on-the-gpu-then-killed": (a_gone("CUDA out of memory.", signal=9), Kind.GPU_MEMORY, False),
    "segfault": (a_gone(signal=11), Kind.UNKNOWN, True),
    "lost": (
        a_gone(exits=(), first_failed=None, lost=True, error="the machine was restarted"),
        Kind.LOST,
        True,
    ),
    "never-started": (
        a_gone(exits=(WorkerExit(error="program 'x' not found"),), error="program 'x' not found"),
        Kind.NOT_STARTED,
        False,
    ),
    "no-process-to-be-had": (
        a_gone(exits=(), first_failed=None, error="cannot start a process: resource temporarily unavailable"),
        Kind.HOST,
        True,
    ),
}


@pytest.mark.parametrize("name", EXITS)
def test_a_cause_is_read_from_the_exit(name):
    gone, kind, retry = EXITS[name]
    cause = classify(gone)
    assert (cause.kind, cause.retry_can_cure) == (kind, retry)


def test_an_error_before_the_start_is_shown_as_it_is():
    assert classify(EXITS["never-started"][0]).sentence == "program 'x' not found"


@pytest.mark.parametrize(("name", "blamed"), [("ecc", True), ("no-device", True), ("cuda-oom", False)])
def test_only_failures_of_the_hardware_count_against_a_gpu(name, blamed):
    assert classify(a_gone(OUTPUTS[name][0])).blames_gpu is blamed


WAYS = [
    ({"signal": 11}, "signal 11 (SIGSEGV: segmentation fault)"),
    ({"signal": 40}, "signal 40"),
    ({"code": 3}, "exit code 3"),
]


@pytest.mark.parametrize(("how", "words"), WAYS)
def test_an_unknown_failure_names_the_signal_or_the_exit_code_and_what_was_printed_last(how, words):
    cause = classify(a_gone("epoch 1\nno directory /data\n", **how))
    assert cause.kind is Kind.UNKNOWN
    assert cause.sentence == f"It ended with {words}; the cause is not known."
    assert cause.evidence == "The last line of its output: no directory /data"
    silent = classify(a_gone(**how))
    assert (silent.sentence, silent.evidence) == (f"It ended with {words} and has printed nothing.", "")


# Recorded from torchrun of PyTorch 2.13.0 with two workers; only paths were changed.
UNDER_TORCHRUN = {
    "value": (Kind.CODE, False, "ValueError: bad learning rate in config.yaml (value.py, line 3, in load)"),
    "rec": (Kind.CODE, False, "KeyError: 'lr' (rec.py, line 6, in main)"),
    "imp": (Kind.IMPORT, False, "ModuleNotFoundError: No module named 'apexx' (imp.py, line 1)"),
    "inp": (Kind.CODE, False, "EOFError: EOF when reading a line (inp.py, line 1)"),
    "kill9": (Kind.KILLED, True, ""),
    "gloo": (
        Kind.GPU_MEMORY,
        False,
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"
        " 15.77 GiB (gloo.py, line 3)",
    ),
    "chained": (Kind.CODE, False, "KeyError: 'x' (chained.py, line 1, in a)"),
}


@pytest.mark.parametrize("name", UNDER_TORCHRUN)
def test_under_torchrun_the_error_of_the_program_is_found(name):
    """torchrun prints 40 lines after it, which end in an error of torchrun itself."""
    text = (Path(__file__).parent / "torchrun" / f"{name}.txt").read_text()
    cause = classify(a_gone(text))
    assert (cause.kind, cause.retry_can_cure, cause.evidence) == UNDER_TORCHRUN[name]


def test_a_worker_that_lost_another_one_is_not_the_cause():
    tail = (
        'Traceback (most recent call last):\n  File "train.py", line 3, in step\nValueError: nan\n'
        'Traceback (most recent call last):\n  File "train.py", line 9, in reduce\n'
        "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]"
    )
    cause = classify(a_gone(tail))
    assert (cause.kind, cause.evidence) == (Kind.CODE, "ValueError: nan (train.py, line 3, in step)")


def test_an_error_that_no_sign_knows_is_shown_by_its_own_line_and_tried_again():
    tail = 'Traceback (most recent call last):\n  File "/home/ann/a.py", line 3, in <module>\nmine.Odd: x'
    assert classify(a_gone(tail)).kind is Kind.UNKNOWN, "not an error by its name"
    cause = classify(a_gone(tail.replace("Odd", "OddError")))
    assert (cause.kind, cause.retry_can_cure) == (Kind.CODE, True)
    assert cause.evidence == "mine.OddError: x (a.py, line 3)"
