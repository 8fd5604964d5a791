"""Why a run ended, judged by its exit and the last lines of its output, and whether a retry can help.

The first match counts, in this order: what the manager did itself, what the exit itself shows, a strong sign
anywhere in the last lines of output, and the last line that shows any sign (the program handled what it
printed before that). A retry can cure only causes that lie outside the program, because a program with a
mistake in it makes the mistake again. In doubt the job is retried: the number of retries is limited, whereas
a job that is failed wrongly stays failed.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from tiresias.executors.base import RunGone
from tiresias.executors.program_output import TRACEBACK, Output, program_output
from tiresias.spec.sizes import written

REQUEUE_CODES = frozenset({75, 143})  # EX_TEMPFAIL and "ended by SIGTERM": the job asks to run again
SIGKILL = 9
KILLED = 128 + SIGKILL  # the status of a process that SIGKILL ended, as a shell counts
HOST_FAULTS = {
    errno.ENOSPC: "no space or no inodes left on the disk of the manager's home",
    errno.EDQUOT: "no quota left on the disk of the manager's home",
    errno.EAGAIN: "no room for another process",
    errno.EMFILE: "no descriptor left for the manager",
    errno.ENFILE: "no descriptor left",
    errno.ENOMEM: "no memory left",
}
SYSTEM_ERROR = re.compile(r"\[Errno (\d+)\]")  # of a call of the executor itself
OWN_CALL = re.compile(
    r"(?:cannot start a process|cannot open the output file .*|"
    r"cannot reserve space for the exit record in .*|"
    r"the supervisor of the run could not begin in .*): ([^:]*?)(?: \(.*\))?$"
)
CURABLE = ("cannot start a process", "supervisor", "cannot limit the run")  # in errors of the executor
LOADER_KILLED = re.compile(r"DataLoader worker .* is killed by signal: Killed")
WARNING = re.compile(r"^\[W|(?i:warning)")  # a warning is not what ended the program


class Kind(StrEnum):
    FINISHED = "finished"
    PREEMPTED = "preempted"  # the manager stopped it, or it asked to run again
    NOT_STARTED = "not started"
    HOST = "fault of the machine"  # it kept the run from starting
    LOST = "lost"
    GPU_MEMORY = "out of GPU memory"
    HOST_MEMORY = "out of host memory"
    MEMORY_LIMIT = "over its memory limit"
    KILLED = "killed"
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
    evidence: str = ""  # the line of output that shows it
    blames_gpu: bool = False  # counts against the GPUs that the run held


@dataclass(slots=True, frozen=True)
class Sign:
    """One row of the tables below: a pattern in the output and what it means.

    The pattern is compiled when it is first needed, because a manager that starts needs none of them.
    """

    kind: Kind
    retry_can_cure: bool
    pattern: str
    sentence: str
    blames_gpu: bool = False


def _sign(kind: Kind, retry: bool, pattern: str, sentence: str, *, gpu: bool = False) -> Sign:
    return Sign(kind, retry, pattern, sentence, gpu)


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
        r"DataLoader worker .* is killed by signal: Bus error|insufficient shared memory \(shm\)",
        "A data loader ran out of (shared) memory; use fewer data workers.",
    ),
    _sign(
        Kind.DISK,
        False,
        r"(?i)no space left on device|disk quota exceeded",
        "A disk was full; free some space, then submit the job again.",
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
        r"^([\w.]+\.)?(ModuleNotFoundError|ImportError|PackageNotFoundError)\b|"
        r"error while loading shared libraries|No module named ",
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
        "The program has a mistake in it, which a retry does not correct.",
    ),
    _sign(
        Kind.CODE,
        False,
        r"^EOFError: EOF when reading a line",
        "The program asked for input, and standard input is closed in a run; give it arguments instead.",
    ),
    _sign(
        Kind.CODE,
        False,
        r"^([\w.]+\.)?(ValueError|KeyError|IndexError|LookupError|AssertionError|ZeroDivisionError|"
        r"FloatingPointError|ArithmeticError|Unicode(De|En)codeError|JSONDecodeError|StopIteration|"
        r"OverflowError|YAMLError|ConfigAttributeError)\b|^EOFError: Ran out of input",
        "The program ended with an error of its own.",
    ),
)
UNCAUGHT = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Failure)\b(:|$)")

OWN_MISTAKES = (Kind.CODE, Kind.IMPORT, Kind.FILE)

EXIT_SIGNS: tuple[tuple[Callable[[RunGone], bool], Cause], ...] = (
    (
        lambda gone: gone.stopped,
        Cause(Kind.PREEMPTED, True, "It was stopped."),
    ),
    (
        lambda gone: gone.lost,
        Cause(Kind.LOST, True, "Its exit is not known, because its supervisor ended before it."),
    ),
    (
        lambda gone: bool(host_fault(gone.error)),
        Cause(Kind.HOST, True, "The machine could not start it."),
    ),
    (
        lambda gone: bool(gone.error),
        Cause(Kind.NOT_STARTED, False, "It could not be started."),
    ),
    (lambda gone: gone.status == 0, Cause(Kind.FINISHED, False, "It finished.")),
    (
        lambda gone: gone.over_memory_bytes is not None,  # the kernel says so, whatever the output says
        Cause(Kind.MEMORY_LIMIT, False, "It used more memory than --mem allows."),
    ),
    (
        lambda gone: gone.status in REQUEUE_CODES,
        Cause(Kind.PREEMPTED, True, "It asked to be run again."),
    ),
)


def host_fault(error: str) -> str:
    """What the machine lacked, in words, if that is why a run could not be started; empty otherwise.

    Only messages about the manager's own calls and files count. What a user may choose, such as the name of a
    program, must not make other jobs wait.
    """
    if found := SYSTEM_ERROR.match(error):
        return HOST_FAULTS.get(int(found[1]), "")
    found = OWN_CALL.match(error)
    text = found[1].lower() if found else ""
    return next((words for code, words in HOST_FAULTS.items() if os.strerror(code).lower() == text), "")


def classify(gone: RunGone) -> Cause:
    """The cause of this exit that is shown to the user."""
    for applies, cause in EXIT_SIGNS:
        if applies(gone):
            return _with_error(gone, cause)
    output = program_output(gone.tail)
    lines = [line for line in reversed(output.lines) if not WARNING.search(line)]
    if found := _anywhere(lines):
        return _located(found, output)
    if _was_killed(gone, lines, output):
        return _killed(gone)
    if found := _last(lines) or _uncaught(lines):
        return _located(found, output)
    return _unknown(gone, output)


def _unknown(gone: RunGone, output: Output) -> Cause:
    """No sign is known. What was printed last is what a person would look at first."""
    last = next((line for line in reversed(output.lines) if line.strip()), "")
    if not last:
        return Cause(Kind.UNKNOWN, True, f"It ended with {_exit_words(gone)} and has printed nothing.")
    sentence = f"It ended with {_exit_words(gone)}; the cause is not known."
    return Cause(Kind.UNKNOWN, True, sentence, f"The last line of its output: {last[:300]}")


def _with_error(gone: RunGone, cause: Cause) -> Cause:
    """The error of the executor says more than the sentence of the table."""
    if cause.kind is Kind.HOST:
        return Cause(cause.kind, True, f"The machine has {host_fault(gone.error)}: {gone.error}.")
    if cause.kind is Kind.MEMORY_LIMIT and gone.over_memory_bytes is not None:
        limit = written(gone.over_memory_bytes)
        sentence = (
            f"It used more than the {limit} of memory that it asked for (--mem), and the kernel killed it."
        )
        evidence = f"memory.events of its cgroup: {gone.own_oom_kills} OOM kills at its own limit"
        return Cause(cause.kind, False, sentence, evidence)
    if not gone.error or cause.kind not in (Kind.NOT_STARTED, Kind.LOST):
        return cause
    retry = cause.retry_can_cure or any(each in gone.error for each in CURABLE)
    return Cause(cause.kind, retry, gone.error)


def _anywhere(lines: list[str]) -> Cause | None:
    for sign in STRONG_SIGNS:
        for line in lines:
            if re.search(sign.pattern, line):
                return _cause(sign, line)
    return None


def _last(lines: list[str]) -> Cause | None:
    """By the last line that shows a sign.

    A worker that lost another one says so after that one has failed: an error in the code that was printed
    among the last tracebacks, above such a line, is the cause.
    """
    lost: Cause | None = None
    for line in lines:
        for sign in LAST_SIGNS:
            if not re.search(sign.pattern, line):
                continue
            if sign.kind is not Kind.NETWORK:
                is_cause = lost is None or (TRACEBACK in lines and sign.kind in OWN_MISTAKES)
                return _cause(sign, line) if is_cause else lost
            lost = lost or _cause(sign, line)
            break
    return lost


def _uncaught(lines: list[str]) -> Cause | None:
    """An error that no sign knows, at the end of a traceback. Another run may not meet it."""
    if TRACEBACK not in lines:
        return None
    line = next((each for each in lines if UNCAUGHT.match(each)), None)
    return None if line is None else Cause(Kind.CODE, True, "The program ended with an error.", line[:300])


def _located(cause: Cause, output: Output) -> Cause:
    """Add to the line of an error where it was raised."""
    where = output.where(cause.evidence)
    return replace(cause, evidence=f"{cause.evidence} ({where})") if where else cause


def _cause(sign: Sign, line: str) -> Cause:
    return Cause(sign.kind, sign.retry_can_cure, sign.sentence, line[:300], sign.blames_gpu)


def _was_killed(gone: RunGone, lines: list[str], output: Output) -> bool:
    """Whether SIGKILL from elsewhere ended it, or a shell, a launcher or a data loader says so."""
    if gone.first_failed is None:
        return False
    says_so = bool(lines) and (lines[0].endswith("Killed") or bool(LOADER_KILLED.search(lines[0])))
    return gone.exits[gone.first_failed].status == KILLED or says_so or output.root_signal == SIGKILL


def _killed(gone: RunGone) -> Cause:
    """The kernel says whether it killed a process of this run, or one on this machine, for memory."""
    kills = gone.oom_kills if gone.own_oom_kills is None else gone.own_oom_kills
    if kills:
        sentence = "The machine ran out of memory and the kernel killed it; use less memory."
        whose = "on the node" if gone.own_oom_kills is None else "of processes of this run"
        # Other processes may have used the memory, so a retry can succeed.
        return Cause(Kind.HOST_MEMORY, True, sentence, f"{kills} OOM kills {whose}")
    sentence = "It was killed with SIGKILL, and not by the manager; the kernel reports no lack of memory."
    return Cause(Kind.KILLED, True, sentence)


def _exit_words(gone: RunGone) -> str:
    worker = gone.exits[gone.first_failed] if gone.first_failed is not None else None
    if worker is not None and worker.signal is not None:
        return _signal_words(worker.signal)
    return f"exit code {gone.status}"


def _signal_words(number: int) -> str:
    """`signal 11 (SIGSEGV: segmentation fault)`."""
    try:
        name, what = signal.Signals(number).name, signal.strsignal(number)
    except ValueError:  # a real-time signal
        return f"signal {number}"
    return f"signal {number} ({name}: {what.lower()})" if what else f"signal {number} ({name})"
