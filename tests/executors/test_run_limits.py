"""Limits of memory and CPU time: set in the cgroup of a run, or refused with the reason.

The rules are driven with a directory tree that behaves as the kernel documents it for controllers. Where the
kernel has the controllers, real runs are limited as well.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.executors import cgroup_parent
from tiresias.executors.causes import Kind, classify
from tiresias.executors.cgroup_parent import CgroupParent, Limiting
from tiresias.executors.cgroups import MEMORY, Cgroup, CgroupFiles
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import PYTHON, Bench

FOUND = cgroup_parent.find()
LIMITING = FOUND.enable()
needs_memory = pytest.mark.skipif(bool(LIMITING.no_memory), reason=f"no memory limits: {LIMITING.no_memory}")
needs_cpu = pytest.mark.skipif(bool(LIMITING.no_cpus), reason=f"no CPU limits: {LIMITING.no_cpus}")
FILES_OF = {
    "cpu": ("cpu.max",),
    "memory": ("memory.max", "memory.oom.group", "memory.swap.max", "memory.events"),
}
MIB = 2**20


class Tree(CgroupFiles):
    """Directories whose files appear and refuse as those of cgroup v2 do. `top` is not the root."""

    def __init__(self, top: Path, controllers: str = "cpu memory"):
        self.top = top
        self._populate(str(top), controllers)

    def make(self, path: str) -> None:
        above = os.path.dirname(path)
        super().make(path)
        self._populate(path, self.read(above, "cgroup.subtree_control"))

    def _populate(self, path: str, controllers: str) -> None:
        names = ["cgroup.subtree_control", "cgroup.procs"]
        for name in controllers.split():
            names += FILES_OF[name]
        for name in names:
            (Path(path) / name).write_text("")
        (Path(path) / "cgroup.controllers").write_text(controllers)
        (Path(path) / "cgroup.type").write_text("domain\n")

    def write(self, path: str, name: str, text: str) -> None:
        if name == "cgroup.subtree_control":
            wanted = [each.removeprefix("+") for each in text.split()]
            if set(wanted) - set(self.read(path, "cgroup.controllers").split()):
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            if self.read(path, "cgroup.procs").split():
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            text = " ".join(dict.fromkeys([*self.read(path, name).split(), *wanted]))
        (Path(path) / name).write_text("")
        super().write(path, name, text)

    def parent(self) -> CgroupParent:
        return CgroupParent(self.top)

    def cgroup(self) -> Cgroup:
        return Cgroup(str(self.top / "tiresias-1" / "run-1"), self)


# --- in the cgroup of a run ----------------------------------------------------------------------------


def test_the_limits_are_in_the_cgroup_before_a_process_is(tmp_path):
    tree = Tree(tmp_path)
    assert tree.parent().enable(tree) == Limiting()
    cgroup = tree.cgroup()
    cgroup.make(cpus=3, memory_bytes=512 * MIB)
    assert tree.read(cgroup.path, "memory.max") == str(512 * MIB)
    assert tree.read(cgroup.path, "memory.oom.group") == "1"
    assert tree.read(cgroup.path, "memory.swap.max") == "0"
    assert tree.read(cgroup.path, "cpu.max") == "300000 100000"


def test_a_run_without_limits_enables_no_controller(tmp_path):
    tree = Tree(tmp_path)
    tree.parent().enable(tree)
    cgroup = tree.cgroup()
    cgroup.make()
    assert tree.read(os.path.dirname(cgroup.path), "cgroup.subtree_control") == ""
    assert not os.path.exists(f"{cgroup.path}/memory.max")


def test_a_limit_that_cannot_be_set_is_an_error(tmp_path):
    tree = Tree(tmp_path, "cpu")
    tree.parent().enable(tree)
    with pytest.raises(OSError, match="No such file"):
        tree.cgroup().make(memory_bytes=512 * MIB)


def test_the_cgroup_above_may_be_removed_while_a_run_begins(tmp_path):
    """The last supervisor of another run removes it, just after it was made."""

    class Removed(Tree):
        left = 3

        def write(self, path: str, name: str, text: str) -> None:
            if self.left and path.endswith("tiresias-1"):
                self.left -= 1
                for each in Path(path).iterdir():
                    each.unlink()
                os.rmdir(path)
                raise FileNotFoundError(path)
            super().write(path, name, text)

    tree = Removed(tmp_path)
    tree.parent().enable(tree)
    cgroup = tree.cgroup()
    cgroup.make(memory_bytes=512 * MIB)
    assert tree.read(cgroup.path, "memory.max") == str(512 * MIB)


@pytest.mark.parametrize(
    ("events", "is_over"),
    [
        ("low 0\nhigh 0\nmax 9\noom 1\noom_kill 4\noom_group_kill 1\n", True),
        ("low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n", False),  # the machine's memory
        ("low 0\nhigh 0\nmax 9\noom 0\noom_kill 0\noom_group_kill 0\n", False),  # memory was reclaimed
        ("", False),
    ],
    ids=["at-its-limit", "machine", "reclaimed", "no-controller"],
)
def test_the_kernel_says_whether_a_run_was_killed_at_its_own_limit(tmp_path, events, is_over):
    tree = Tree(tmp_path)
    tree.parent().enable(tree)
    cgroup = tree.cgroup()
    cgroup.make(memory_bytes=512 * MIB)
    (Path(cgroup.path) / "memory.events").write_text(events)
    assert cgroup.is_over_memory() is is_over


# --- what a machine can enforce ------------------------------------------------------------------------


def test_without_cgroups_every_limit_is_refused_with_the_reason():
    limiting = CgroupParent(None, "no cgroup v2 hierarchy is mounted").enable()
    assert limiting.refusal(None, None) == ""
    assert limiting.refusal(None, MIB) == (
        "--mem cannot be enforced: runs have no cgroups, because no cgroup v2 hierarchy is mounted"
    )
    assert limiting.refusal(2, MIB).count("cannot be enforced") == 2


@pytest.mark.parametrize(
    ("rows", "remedy"),
    [
        ("memory\t4\t33\t1\n", "the kernel has it in a cgroup v1 hierarchy: boot with cgroup_no_v1=memory"),
        ("memory\t0\t33\t1\n", "write +memory to {above}/cgroup.subtree_control"),
    ],
    ids=["v1", "not-passed-on"],
)
def test_a_missing_controller_is_named_with_what_an_admin_does(tmp_path, monkeypatch, rows, remedy):
    table = tmp_path / "cgroups"
    table.write_text("#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\n" + rows)
    monkeypatch.setattr(cgroup_parent, "V1_TABLE", table)
    top = tmp_path / "unit"
    top.mkdir()
    tree = Tree(top, "cpu")
    limiting = tree.parent().enable(tree)
    assert limiting.no_cpus == ""
    assert limiting.no_memory.startswith(f"{top} has no memory controller; ")
    assert remedy.format(above=tmp_path) in limiting.no_memory


def test_a_manager_among_the_runs_is_told_to_have_a_cgroup_of_its_own(tmp_path):
    tree = Tree(tmp_path)
    (tmp_path / "cgroup.procs").write_text("4711\n")
    for limiting in (tree.parent().limiting(tree), tree.parent().enable(tree)):
        assert "set DelegateSubgroup=manager in the systemd unit" in limiting.no_memory
        assert "set DelegateSubgroup=manager in the systemd unit" in limiting.no_cpus
    assert tree.read(str(tmp_path), "cgroup.subtree_control") == ""


def test_looking_for_limits_changes_nothing(tmp_path):
    tree = Tree(tmp_path)
    assert tree.parent().limiting(tree) == Limiting()
    assert tree.read(str(tmp_path), "cgroup.subtree_control") == ""


def test_a_controller_that_the_kernel_refuses_is_refused_with_its_error(tmp_path):
    class Refusing(Tree):
        def write(self, path: str, name: str, text: str) -> None:
            if text == f"+{MEMORY}":
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            super().write(path, name, text)

    tree = Refusing(tmp_path)
    limiting = tree.parent().enable(tree)
    assert limiting.no_cpus == ""
    assert (
        limiting.no_memory == f"cannot write +memory to {tmp_path}/cgroup.subtree_control: Permission denied"
    )


def test_a_manager_in_a_cgroup_named_manager_has_its_runs_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroup_parent, "SYSTEMD", tmp_path / "none")
    own = tmp_path / "lab" / "manager"
    own.mkdir(parents=True)
    (tmp_path / "lab" / "cgroup.procs").write_text("")
    monkeypatch.setattr(cgroup_parent, "_own", lambda process: own)
    assert cgroup_parent.find().path == tmp_path / "lab"


# --- real runs -----------------------------------------------------------------------------------------


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    executor = LocalExecutor(tmp_path / "executor", linger_s=0.2, cgroups=FOUND)
    bench = Bench(executor, tmp_path)
    yield bench
    for run_id in bench.specs:
        executor.stop(run_id, grace_s=0.0)
    executor.close()


def test_a_run_whose_limits_this_machine_cannot_enforce_is_not_started(tmp_path):
    executor = LocalExecutor(tmp_path / "executor", cgroups=CgroupParent(None, "this test wants none"))
    bench = Bench(executor, tmp_path)
    bench.shell("touch ran", memory_bytes=64 * MIB)
    gone = bench.gone()
    assert gone.error.startswith("cannot limit the run: --mem cannot be enforced")
    assert classify(gone).retry_can_cure
    assert not (tmp_path / "ran").exists()
    executor.close()


def test_a_supervisor_that_cannot_set_the_limits_starts_no_worker(tmp_path):
    executor = LocalExecutor(tmp_path / "executor", cgroups=CgroupParent(Path("/proc/none")))
    executor.limiting = Limiting()  # as it was a moment ago
    bench = Bench(executor, tmp_path)
    bench.shell("touch ran", memory_bytes=64 * MIB)
    assert bench.gone().error.startswith("cannot limit the run: cannot make the cgroup /proc/none/")
    assert not (tmp_path / "ran").exists()
    executor.close()


@needs_memory
def test_a_run_that_uses_more_memory_than_it_asked_for_is_killed_and_the_cause_is_named(bench):
    script = "import os; pid = os.fork(); data = bytearray(256 << 20); pid and os.wait()"
    bench.start(*PYTHON, script, memory_bytes=64 * MIB)
    gone = bench.gone()
    assert gone.over_memory_bytes == 64 * MIB
    assert classify(gone).kind is Kind.MEMORY_LIMIT


@needs_memory
def test_a_run_that_stays_below_its_limit_is_left_alone(bench):
    bench.start(*PYTHON, "data = bytearray(16 << 20)", memory_bytes=256 * MIB)
    gone = bench.gone()
    assert (gone.status, gone.over_memory_bytes) == (0, None)


@needs_cpu
def test_a_run_gets_no_more_cpu_time_than_it_asked_for(bench):
    """Two busy processes on one core's worth of time: the clock advances at least half as fast again."""
    script = (
        "import os, time; pid = os.fork(); t = time.monotonic();\n"
        "while time.process_time() < 1.5: pass\n"
        "pid and os.wait(); pid and print(time.monotonic() - t)"
    )
    bench.start(*PYTHON, script, cpus=1)
    assert bench.gone().status == 0
    assert float(bench.output()) > 2.5  # 3 s of processor time
