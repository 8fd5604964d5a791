"""The cgroup below which those of runs are made: found if cgroup v2 is delegated to this process.

To limit runs, its controllers must be enabled for the cgroups below it. The kernel allows that only while no
process is in the cgroup itself (the root of the hierarchy excepted), so the manager must be in another one: a
cgroup of its own beside those of the runs, which systemd makes (`DelegateSubgroup=`) or the admin.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from tiresias.executors.cgroups import CPU, FILES, MEMORY, SUBTREE, CgroupFiles, controllers_for

V1_TABLE = Path("/proc/cgroups")  # which controllers are in hierarchies of cgroup v1
SYSTEMD = Path("/run/systemd/system")
DELEGATE = ("trusted.delegate", "user.delegate")  # systemd marks with these what it delegates
SUBGROUP = "manager"  # the name of a cgroup that a manager has beside those of its runs
FLAGS = {CPU: "--cpus", MEMORY: "--mem"}


@dataclass(slots=True, frozen=True)
class Limiting:
    """Why runs cannot be limited, and what an admin does about it; empty where they can."""

    no_cpus: str = ""
    no_memory: str = ""

    def refusal(self, cpus: int | None, memory_bytes: int | None) -> str:
        """Why a run with these limits cannot be started here; empty if it can."""
        reasons = {CPU: self.no_cpus, MEMORY: self.no_memory}
        found = ((FLAGS[each], reasons[each]) for each in controllers_for(cpus, memory_bytes))
        return "; ".join(f"{flag} cannot be enforced: {reason}" for flag, reason in found if reason)


@dataclass(slots=True, frozen=True)
class CgroupParent:
    """`path` is None if the runs cannot have cgroups; `reason` then says why."""

    path: Path | None
    reason: str = ""

    def choose(self, root: Path, run_id: int) -> str:
        """A new directory for the cgroup of a run; empty if it cannot have one. Its supervisor makes it."""
        if self.path is None:
            return ""
        manager = f"tiresias-{crc32(os.fsencode(root)):08x}"
        return str(self.path / manager / f"run-{run_id}-{os.urandom(4).hex()}")

    def limiting(self, files: CgroupFiles = FILES) -> Limiting:
        """Which limits the runs of a manager that is started here can have; changes nothing."""
        return Limiting(*(self._lack(each, files) for each in (CPU, MEMORY)))

    def enable(self, files: CgroupFiles = FILES) -> Limiting:
        """Enable the controllers that limit runs, as far as possible, and say which limits they can have."""
        problems: dict[str, str] = {}
        for each in (CPU, MEMORY):
            if self.path is None or self._is_busy(files) or not self._has(each, "cgroup.controllers", files):
                continue  # the kernel may let a busy cgroup pass on some, and systemd then cannot restart it
            try:
                files.write(str(self.path), SUBTREE, f"+{each}")
            except OSError as error:
                problems[each] = f"cannot write +{each} to {self.path / SUBTREE}: {error.strerror}"
        return Limiting(*(self._lack(each, files, problems.get(each, "")) for each in (CPU, MEMORY)))

    def _has(self, controller: str, name: str, files: CgroupFiles) -> bool:
        try:
            return controller in files.read(str(self.path), name).split()
        except OSError:
            return False

    def _is_busy(self, files: CgroupFiles) -> bool:
        """Whether processes are in the cgroup itself. In the root of the hierarchy they may be."""
        try:
            files.read(str(self.path), "cgroup.type")  # which the root alone does not have
            return bool(files.read(str(self.path), "cgroup.procs").split())
        except OSError:
            return False

    def _lack(self, controller: str, files: CgroupFiles, problem: str = "") -> str:
        """Why the cgroups of runs do not have this controller, and the next step."""
        if self.path is None:
            return f"runs have no cgroups, because {self.reason}"
        if not self._has(controller, "cgroup.controllers", files):
            return f"{self.path} has no {controller} controller; {_remedy(controller, self.path)}"
        if self._is_busy(files) and not self._has(controller, SUBTREE, files):
            return (
                f"processes are in {self.path} itself, so its {controller} controller cannot be passed on;"
                f" set DelegateSubgroup={SUBGROUP} in the systemd unit of the manager (systemd 254 or later),"
                f" or start the manager in a cgroup named {SUBGROUP} below it"
            )
        return problem


def find(pid: int | None = None) -> CgroupParent:
    """The cgroup of a process (None: of this one), or the one above it.

    The one above is used if systemd has delegated that one, or if the process is in a cgroup named SUBGROUP.
    """
    own = _own("self" if pid is None else str(pid))
    if own is None:
        return CgroupParent(None, "no cgroup v2 hierarchy is mounted")
    if not SYSTEMD.exists():
        return _writable(own.parent if own.name == SUBGROUP else own)
    for each in (own, own.parent):
        if _is_delegated(each):
            return _writable(each)
    return CgroupParent(None, f"systemd has not delegated {own}; set Delegate=yes in the unit of the manager")


def _remedy(controller: str, path: Path) -> str:
    """What an admin does so that a cgroup gets a controller."""
    try:
        rows = [line.split() for line in V1_TABLE.read_text().splitlines()]
    except OSError:
        rows = []
    if any(row[0] == controller and row[1] != "0" for row in rows):
        return f"the kernel has it in a cgroup v1 hierarchy: boot with cgroup_no_v1={controller}"
    return f"write +{controller} to {path.parent / SUBTREE}, or set Delegate=yes in the unit of the manager"


def _writable(path: Path) -> CgroupParent:
    if os.access(path, os.W_OK) and os.access(path / "cgroup.procs", os.W_OK) and not _is_read_only(path):
        return CgroupParent(path)
    return CgroupParent(None, f"{path} cannot be written")


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _is_delegated(path: Path) -> bool:
    for name in DELEGATE:
        try:
            if os.getxattr(path, name) == b"1":
                return True
        except OSError:
            continue
    return False


def _own(process: str) -> Path | None:
    """The directory of the cgroup v2 of a process."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        groups = Path(f"/proc/{process}/cgroup").read_text().splitlines()
    except OSError:
        return None
    name = next((line[3:] for line in groups if line.startswith("0::")), None)
    for line in mounts:
        fields, _, kind = line.partition(" - ")
        if name is not None and kind.startswith("cgroup2 "):
            top, where = fields.split()[3:5]
            if name == top or name.startswith(top.rstrip("/") + "/"):
                return Path(where) / os.path.relpath(name, top)
    return None
