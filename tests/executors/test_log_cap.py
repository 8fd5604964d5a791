"""A job that writes without end: its output keeps within the cap, and its beginning and end are kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.api.logtext import read_piece, read_text
from tiresias.core.model import RunId
from tiresias.executors import log_cap
from tiresias.executors.copied_output import CopiedOutput, make_pipe
from tiresias.executors.local import LocalExecutor
from tiresias.executors.log_cap import LogCap
from tiresias.testing.executors import Bench, processes_of, until

CAP = 8 << 20
R1 = RunId(1)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    executor = LocalExecutor(tmp_path / "executor", linger_s=0.2)
    bench = Bench(executor, tmp_path)
    yield bench
    for run_id in bench.specs:
        executor.stop(run_id, grace_s=0.0)
    until(lambda: not processes_of(tmp_path), "no process of any run is left")
    executor.close()


def taken(path: Path) -> int:
    return path.stat().st_blocks * 512


def everything(path: Path) -> bytes:
    """What a reader gets who reads piece by piece to the end."""
    parts, offset = [], 0
    while (piece := read_piece(path, offset, 1 << 20)).data:
        parts.append(piece.data)
        offset = piece.offset
    return b"".join(parts)


def test_a_chatty_run_keeps_within_its_cap_and_ends_with_its_last_line(bench: Bench) -> None:
    script = "echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last; exit 3"
    spec = bench.shell(script, log_bytes=CAP)
    gone = bench.gone()
    assert gone.status == 3
    assert gone.tail.endswith("last")
    log = spec.log(0)
    assert log.stat().st_size == 200000000 + len("first\n\nlast\n")  # offsets mean the same as before
    assert taken(log) <= CAP
    text = everything(log)
    assert text.startswith(b"first\nxxx")
    assert text.endswith(b"xxx\nlast\n")
    assert b"\0" not in text
    assert b"bytes of output were removed here" in text
    assert CAP // 4 < len(text) <= CAP + 200


def test_what_is_not_too_long_is_kept_as_it_is(bench: Bench) -> None:
    spec = bench.shell("seq 100000", log_bytes=CAP)
    bench.gone()
    assert everything(spec.log(0)) == b"".join(b"%d\n" % n for n in range(1, 100001))


def test_a_run_that_is_still_writing_is_kept_within_the_cap_too(bench: Bench) -> None:
    spec = bench.shell(
        "trap '' TERM; while :; do head -c 1000000 /dev/zero | tr '\\0' y; done", log_bytes=CAP
    )
    bench.up()
    until(lambda: spec.log(0).stat().st_size > 20 * CAP, "it has written much")
    until(lambda: taken(spec.log(0)) <= CAP, "its log is within the cap")
    bench.executor.stop(R1, grace_s=0.0)
    bench.gone()
    assert taken(spec.log(0)) <= CAP


def test_the_cap_is_that_of_all_runs_of_the_job(bench: Bench) -> None:
    much = "head -c 30000000 /dev/zero | tr '\\0' z"
    for number in (1, 2, 3):
        bench.shell(
            f"echo run {number}; {much}",
            run=number,
            number=number,
            log_bytes=CAP,
            run_dir=bench.top / "runs" / str(number),
        )
        bench.gone(RunId(number))
    logs = [spec.log(0) for spec in bench.specs.values()]
    assert sum(taken(log) for log in logs) <= CAP + 4 * log_cap.OLD_BYTES
    assert [everything(log)[:6] for log in logs] == [b"run 1\n", b"run 2\n", b"run 3\n"]
    assert taken(logs[0]) < taken(logs[2])  # the oldest gives way first


def test_a_disk_that_is_nearly_full_shortens_all_output(bench: Bench) -> None:
    disk = os.statvfs(bench.top)
    more_than_is_free = disk.f_blocks * disk.f_frsize * 2
    script = "head -c 30000000 /dev/zero | tr '\\0' z; echo; echo end"
    spec = bench.shell(script, log_bytes=1 << 30, reserve_bytes=more_than_is_free)
    bench.gone()
    assert taken(spec.log(0)) <= log_cap.LEAST_BYTES
    assert everything(spec.log(0)).endswith(b"\nend\n")


def test_without_a_cap_nothing_is_removed(bench: Bench) -> None:
    spec = bench.shell("head -c 30000000 /dev/zero | tr '\\0' z")
    bench.gone()
    assert taken(spec.log(0)) >= 30000000


def test_on_a_disk_without_holes_the_log_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cap, "_punch", lambda *_: False)
    path = tmp_path / "worker-0.log"
    path.write_bytes(b"a" * 1000000)
    fd = os.open(path, os.O_WRONLY)
    log_cap.remove_middle(fd, 4096, 4096)
    os.close(fd)
    assert path.read_bytes() == b"a" * path.stat().st_size
    assert 4096 <= path.stat().st_size <= 65536


def test_a_character_that_was_torn_by_a_removal_does_not_stop_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.log"
    path.write_bytes("é".encode() * 100000)
    fd = os.open(path, os.O_RDWR)
    with open(fd, "r+b") as file:
        file.seek(0)
        file.write(b"x")  # so that blocks end inside a character
        file.flush()
        log_cap.remove_middle(fd, 8192, 8192)
    text, offset = b"", 0
    while (piece := read_text(path, offset, whole=True)).data:
        text, offset = text + piece.data, piece.offset
    assert offset == 200000
    assert b"removed here" in text


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_program_that_writes_as_fast_as_it_can_never_fills_a_small_disk(
    bench: Bench, small_disk: Path
) -> None:
    spec = bench.start(
        "yes", log_bytes=256 << 20, reserve_bytes=1 << 30, run_dir=small_disk / "runs" / "1", grace_s=5.0
    )
    bench.up()
    journal = os.open(small_disk / "journal", os.O_WRONLY | os.O_CREAT)
    for _ in until(lambda: range(50) if spec.log(0).stat().st_size > 1 << 20 else (), "it writes"):
        size = spec.log(0).stat().st_size
        until(lambda size=size: spec.log(0).stat().st_size > size + (8 << 20), "it writes more")
        assert os.pwrite(journal, b"j" * 65536, 0) == 65536  # there is room for others all the time
        disk = os.statvfs(small_disk)
        assert disk.f_bavail * disk.f_frsize > 48 << 20
    os.close(journal)
    bench.executor.stop(R1, grace_s=5.0)
    bench.gone()
    assert spec.log(0).stat().st_size > 400 << 20
    assert taken(spec.log(0)) <= log_cap.LEAST_BYTES


def test_on_a_small_disk_no_output_is_lost_that_fits(bench: Bench, small_disk: Path) -> None:
    spec = bench.shell(
        "seq 50000; echo to stderr > /dev/stderr; exit 3",
        log_bytes=256 << 20,
        reserve_bytes=1 << 30,
        run_dir=small_disk / "runs" / "1",
    )
    gone = bench.gone()
    assert gone.status == 3
    assert spec.log(0).read_bytes() == b"".join(b"%d\n" % n for n in range(1, 50001)) + b"to stderr\n"


def test_what_a_full_disk_does_not_take_is_told_and_the_program_goes_on(
    bench: Bench, small_disk: Path
) -> None:
    filler = small_disk / "filler"
    script = f"head -c 100000000 /dev/zero > {filler}; seq 30000; rm {filler}; echo; echo end; exit 0"
    spec = bench.shell(script, log_bytes=256 << 20, reserve_bytes=1 << 30, run_dir=small_disk / "runs" / "1")
    assert bench.gone().status == 0
    text = spec.log(0).read_text(errors="replace")
    assert "bytes of output are lost" in text


def test_a_stranger_who_writes_for_ever_does_not_keep_the_run_from_ending(tmp_path: Path) -> None:
    """A run may hand its output to a process that is not of the run, such as one of its user's login."""
    source, output = make_pipe()
    log = os.open(tmp_path / "worker-0.log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    copies = []

    def write_more() -> None:
        copies.append(os.write(output, b"x" * 65536))
        assert len(copies) < 1000, "it copies what the stranger writes, and never comes to an end"

    os.write(output, b"the last words\n")
    copied = CopiedOutput(source, log, LogCap(str(tmp_path), 0, 0), on_copied=write_more)
    copied.copy_rest()
    assert os.pread(log, 15, 0) == b"the last words\n"
    for fd in (source, output, log):
        os.close(fd)
