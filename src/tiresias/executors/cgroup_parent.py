"""The cgroup below which those of runs are made: found if cgroup v2 is delegated to this process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

SYSTEMD = Path("/run/systemd/system")
DELEGATE = ("trusted.delegate", "user.delegate")  # systemd marks with these what it delegates


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


def find(pid: int | None = None) -> CgroupParent:
    """The cgroup of a process (None: of this one), or the one above it if systemd has delegated that one."""
    own = _own("self" if pid is None else str(pid))
    if own is None:
        return CgroupParent(None, "no cgroup v2 hierarchy is mounted")
    if not SYSTEMD.exists():
        return _writable(own)
    for each in (own, own.parent):
        if _is_delegated(each):
            return _writable(each)
    return CgroupParent(None, f"systemd has not delegated {own}; set Delegate=yes in the unit of the manager")


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
