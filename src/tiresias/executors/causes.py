"""Why a run ended, as far as its exit and its last lines tell, and whether running it again can help.

Tables, first match wins: what we did ourselves, then what the exit itself says, then strong signs anywhere
in the last lines of output, then the last line that shows any sign (what comes before it was handled).
Only causes that lie outside the program can be cured by a retry: a program with a mistake in it makes it
again. In doubt we retry, because the number of retries is limited and a wrongly failed job is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tiresias.executors.base import RunGone

REQUEUE_CODES = frozenset({75, 143})  # EX_TEMPFAIL and "ended by SIGTERM": run me again
KILLED = 128 + 9  # ended by SIGKILL, as a shell counts
WARNING = re.compile(r"^\[W|(?i:warning)")  # what a program only warned of did not end it


class Kind(StrEnum):
    FINISHED = "finished"
    PREEMPTED = "preempted"  # we said so, or it asked to be run again
    NOT_STARTED = "not started"
    LOST = "lost"
    GPU_MEMORY = "out of GPU memory"
    HOST_MEMORY = "out of host memory"
    DISK = "disk full"
    CODE = "error in the code"
    IMPORT = "import error"
    FILE = "file error"
    NETWORK = "network"
    GPU = "GPU or driver"
    UNKNOWN = "unknown"


@dataclass(slots=True, frozen=True)
class Cause:
    kind: Kind
    retry_can_cure: bool
    sentence: str  # for the user
    evidence: str = ""  # the line of output that says so
    blames_gpu: bool = False  # counts against the GPUs it ran on


@dataclass(slots=True, frozen=True)
class Sign:
    """One line of the table: a pattern in the output and what it means."""

    kind: Kind
    retry_can_cure: bool
    pattern: re.Pattern[str]
    sentence: str
    blames_gpu: bool = False


def _sign(kind: Kind, retry: bool, pattern: str, sentence: str, *, gpu: bool = False) -> Sign:
    return Sign(kind, retry, re.compile(pattern), sentence, gpu)


STRONG_SIGNS = (
    _sign(
        Kind.GPU,
        True,
        r"(?i)uncorrectable ECC|ECC error|\bXid\b|device-side hardware|GPU has fallen off the bus|"
        r"CUDA_ERROR_(ECC_UNCORRECTABLE|HARDWARE_STACK_ERROR|DEVICE_UNAVAILABLE|SYSTEM_NOT_READY)|"
        r"cudaErrorECCUncorrectable|hardware stack error|Unable to determine the device handle",
        "The GPU reported a hardware error.",
        gpu=True,
    ),
    _sign(
        Kind.GPU,
        True,
        r"CUDA driver (initialization failed|is a stub)|driver/library version mismatch|"
        r"CUDA-capable device\(s\) is/are busy or unavailable|no CUDA-capable device is detected|"
        r"CUDA unknown error|NVML: (Driver|GPU is lost|Unknown)|No CUDA GPUs are available",
        "The GPU or its driver was not available.",
        gpu=True,
    ),
    _sign(
        Kind.GPU_MEMORY,
        False,
        r"CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|"
        r"cudaErrorMemoryAllocation|HIP out of memory|RESOURCE_EXHAUSTED|CUDNN_STATUS_ALLOC_FAILED",
        "The job needs more memory than the GPU has; use a smaller batch, or more GPUs.",
    ),
    _sign(
        Kind.HOST_MEMORY,
        False,
        r"^(MemoryError|numpy\..*_ArrayMemoryError)\b|Cannot allocate memory|std::bad_alloc|"
        r"DefaultCPUAllocator: (can't|not enough)|oom-kill|Out of memory: Killed process",
        "The machine ran out of memory; use fewer data workers or less memory.",
    ),
    _sign(
        Kind.HOST_MEMORY,
        False,
        r"DataLoader worker .* is killed by signal: (Killed|Bus error)|insufficient shared memory \(shm\)",
        "A data loader ran out of (shared) memory; use fewer data workers.",
    ),
    _sign(
        Kind.DISK,
        False,
        r"(?i)no space left on device|disk quota exceeded",
        "A disk was full; make room, then requeue the job.",
    ),
)
LAST_SIGNS = (
    _sign(
        Kind.CODE,
        False,
        r"^(\w+: )?(SyntaxError|IndentationError|TabError)\b",
        "The program has a syntax error.",
    ),
    _sign(
        Kind.IMPORT,
        False,
        r"^(ModuleNotFoundError|ImportError)\b|error while loading shared libraries|No module named ",
        "The program could not import what it needs; check its environment.",
    ),
    _sign(
        Kind.FILE,
        False,
        r"^(FileNotFoundError|IsADirectoryError|NotADirectoryError|PermissionError)\b|"
        r"can't open file '|: No such file or directory$|: Permission denied$|: (command )?not found$",
        "A file that the program needs is not there or may not be read.",
    ),
    _sign(
        Kind.NETWORK,
        True,
        r"NCCL [Ee]rror|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError|"
        r"ProcessGroupNCCL|Watchdog caught collective operation timeout|DistBackendError|DistNetworkError|"
        r"[Gg]loo.*([Cc]onnect|timed? ?out)|TCPStore|Connection (closed by peer|reset|refused|timed out)|"
        r"^(ConnectionError|ConnectionResetError|ConnectionRefusedError|BrokenPipeError|TimeoutError)\b|"
        r"Temporary failure in name resolution|EADDRINUSE|Address already in use|MaxRetryError|"
        r"(Read|Connect)Timeout(Error)?\b|503 Service|urlopen error",
        "Workers lost each other or the network failed.",
    ),
    _sign(
        Kind.CODE,
        False,
        r"device-side assert triggered|an illegal memory access was encountered|CUDA error: invalid|"
        r"CUBLAS_STATUS_NOT_SUPPORTED|no kernel image is available",
        "The program made a mistake on the GPU (an index out of range, or code not built for it).",
    ),
    _sign(
        Kind.GPU,
        True,
        r"CUDA error: (?!out of memory)|CUDNN_STATUS_|CUBLAS_STATUS_|cudaError\w+|CUDA_ERROR_\w+",
        "A call to the GPU failed.",
        gpu=True,
    ),
    _sign(
        Kind.CODE,
        False,
        r"^(NameError|TypeError|AttributeError|UnboundLocalError|NotImplementedError|RecursionError)\b|"
        r": error: (unrecognized arguments|the following arguments are required|argument )|"
        r"shapes cannot be multiplied|size mismatch|Error\(s\) in loading state_dict|"
        r"Expected all tensors to be on the same device",
        "The program has a mistake in it that running it again does not mend.",
    ),
    _sign(
        Kind.CODE,
        True,  # these may depend on the data that came along
        r"^([\w.]+\.)?(ValueError|KeyError|IndexError|AssertionError|ZeroDivisionError|FloatingPointError|"
        r"UnicodeDecodeError|JSONDecodeError|StopIteration|OverflowError)\b",
        "The program ended with an error of its own.",
    ),
)

HOW: tuple[tuple[Callable[[RunGone], bool], Cause], ...] = (
    (
        lambda gone: gone.stopped,
        Cause(Kind.PREEMPTED, True, "It was told to stop; it goes on where it was."),
    ),
    (
        lambda gone: gone.lost,
        Cause(Kind.LOST, True, "What became of it is not known: its supervisor was gone before it."),
    ),
    (
        lambda gone: bool(gone.error),
        Cause(Kind.NOT_STARTED, False, "It could not be started."),
    ),
    (lambda gone: gone.status == 0, Cause(Kind.FINISHED, False, "It finished.")),
    (
        lambda gone: gone.status in REQUEUE_CODES,
        Cause(Kind.PREEMPTED, True, "It asked to be run again."),
    ),
)


def classify(gone: RunGone) -> Cause:
    """The one cause of this exit that we would tell a person."""
    for holds, cause in HOW:
        if holds(gone):
            return _with_words(gone, cause)
    lines = [_unprefixed(line.strip()) for line in gone.tail.splitlines()]
    lines = [line for line in reversed(lines) if line and not WARNING.search(line)]
    if found := _anywhere(lines):
        return found
    if _was_killed(gone, lines):
        return _killed(gone)
    if found := _last(lines):
        return found
    return Cause(Kind.UNKNOWN, True, f"It ended with {_exit_words(gone)}; its output does not say why.")


def _with_words(gone: RunGone, cause: Cause) -> Cause:
    """What the executor knows is better than what the table says."""
    if not gone.error or cause.kind not in (Kind.NOT_STARTED, Kind.LOST):
        return cause
    retry = cause.retry_can_cure or "cannot start a process" in gone.error or "supervisor" in gone.error
    return Cause(cause.kind, retry, gone.error)


def _anywhere(lines: list[str]) -> Cause | None:
    for sign in STRONG_SIGNS:
        for line in lines:
            if sign.pattern.search(line):
                return _cause(sign, line)
    return None


def _last(lines: list[str]) -> Cause | None:
    for line in lines:
        for sign in LAST_SIGNS:
            if sign.pattern.search(line):
                return _cause(sign, line)
    return None


def _cause(sign: Sign, line: str) -> Cause:
    return Cause(sign.kind, sign.retry_can_cure, sign.sentence, line[:300], sign.blames_gpu)


def _unprefixed(line: str) -> str:
    """Without the `[rank3]:` or `3:` that launchers put before a worker's lines."""
    return re.sub(r"^(\[?(rank)?\d+\]?:\s*)+", "", line)


def _was_killed(gone: RunGone, lines: list[str]) -> bool:
    """By a SIGKILL that was not ours, or by a shell's word for one."""
    if gone.first_failed is None:
        return False
    says_so = bool(lines) and lines[0].endswith("Killed")
    return gone.exits[gone.first_failed].status == KILLED or says_so


def _killed(gone: RunGone) -> Cause:
    if gone.oom_kills:
        sentence = "The machine ran out of memory and the kernel killed it; use less memory."
        # Others may have used the memory, so that it can be better the next time.
        return Cause(Kind.HOST_MEMORY, True, sentence, f"{gone.oom_kills} OOM kills on the node")
    sentence = "It was killed (SIGKILL) by somebody else, most often because the machine ran out of memory."
    return Cause(Kind.HOST_MEMORY, True, sentence)


def _exit_words(gone: RunGone) -> str:
    worker = gone.exits[gone.first_failed] if gone.first_failed is not None else None
    if worker is not None and worker.signal is not None:
        return f"signal {worker.signal}"
    return f"exit code {gone.status}"
