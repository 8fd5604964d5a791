"""Boxes for tests: network namespaces joined by a bridge, and a Ray node in each of them.

A box has a network, an address and a host name of its own; the file system is that of this machine, so every
directory is a shared one. Nothing listens outside of the namespaces. Whatever runs in a namespace was started
by the test, so that exactly these processes are ended at the end (never with `ray stop`, which ends every Ray
of the machine).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from tiresias.executors import procfs

PORT = 6390
NETWORK = "198.51.100"  # of a block that is reserved for documentation
GPUS = 4
START_S = 180.0  # a node may take a minute on a busy machine
TRIES = 3  # a raylet that is not up after 30 s is an error of `ray start`, which cannot be changed
WORDS = 'hostname "$0" && exec "$@"'


def missing() -> str:
    """What this machine lacks for a bed of boxes; empty if nothing."""
    if os.geteuid() != 0:
        return "not root, who alone can make network namespaces"
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            return f"no {program} (package iproute2 or util-linux)"
    name = f"tir{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"no network namespaces: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


@dataclass(slots=True)
class Box:
    """One box: a namespace, an address and a host name."""

    bed: Bed
    number: int
    hidden: Path | None = None  # a directory that is another one, and empty, in this box

    @property
    def name(self) -> str:
        return self.bed.names[self.number]

    @property
    def namespace(self) -> str:
        return f"{self.bed.prefix}-{self.number}"

    @property
    def address(self) -> str:
        return f"{NETWORK}.{self.number + 1}"

    @property
    def port(self) -> int:
        """Of the head, which is in the first box."""
        return PORT

    def command(self, words: Sequence[str], host: str = "") -> list[str]:
        """The command line that runs these words in this box."""
        hide = "" if self.hidden is None else f"mount -t tmpfs tmpfs {self.hidden} && "
        inside = ["unshare", "--uts", "sh", "-c", hide + WORDS, host or self.name, *words]
        return ["ip", "netns", "exec", self.namespace, *inside]

    def run(
        self, *words: str, env: Mapping[str, str] | None = None, within_s: float = START_S
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(words),
            env={**self.bed.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=within_s,
        )

    def hide(self, directory: Path) -> None:
        """Let whatever is started here from now on see an empty directory in the place of this one."""
        self.hidden = directory  # `ip netns exec` gives each command mounts of its own

    # --- Ray -------------------------------------------------------------------------------------------

    def start_node(
        self,
        *,
        gpus: int = GPUS,
        labels: str = "",
        name: str = "",
        env: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
    ) -> None:
        """Start a Ray node in this box that joins the head; what runs here already is left alone."""
        self.start_ray(gpus=gpus, labels=labels, name=name, is_head=False, env=env, through=through)

    def start_ray(
        self,
        *,
        gpus: int = GPUS,
        labels: str = "",
        name: str = "",
        is_head: bool | None = None,
        env: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
    ) -> None:
        """Start the Ray node of this box, by the program `through`; the first box has the head."""
        is_head = self.number == 0 if is_head is None else is_head
        before = set(self.pids())
        words = [*through, self.bed.ray, "start", f"--node-ip-address={self.address}"]
        words += [f"--node-name={name or self.name}"]
        words += [f"--num-gpus={gpus}", "--num-cpus=1", "--object-store-memory=80000000"]
        words += ["--disable-usage-stats", *([f"--labels={labels}"] if labels else [])]
        if is_head:
            words += ["--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={self.bed.temp}"]
        else:
            words += [f"--address={self.bed.address}"]
        said = ""
        for _ in range(TRIES):
            made = self.run(*words, env=env)
            if made.returncode == 0:
                return
            said = made.stdout + made.stderr
            for pid in set(self.pids()) - before:
                _kill(pid)
        raise AssertionError(f"`ray start` in {self.name} failed {TRIES} times: {said}")

    def pids(self, having: str = "") -> list[int]:
        """The processes of this box; with `having`, those whose first words contain it."""
        found = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=True
        )
        pids = [int(word) for word in found.stdout.split()]
        return [pid for pid in pids if having.encode() in b" ".join(procfs.command_line(pid)[:1])]

    def raylet(self) -> int:
        (pid,) = self.pids("/raylet/raylet")
        return pid

    def end_ray(self) -> None:
        """End everything that runs in this box."""
        deadline = monotonic() + 60
        while pids := [pid for pid in self.pids() if _is_alive(pid)]:
            assert monotonic() < deadline, f"processes of {self.name} do not end: {pids}"
            for pid in pids:
                _kill(pid)
            sleep(0.02)

    def kill_raylet(self) -> None:
        """End the raylet as a crash does; what the node ran goes on."""
        _kill(self.raylet())

    # --- disturbances ----------------------------------------------------------------------------------

    def cut(self) -> None:
        """Take the link of this box away."""
        _ip("-n", self.bed.switch, "link", "set", f"p{self.number}", "down")

    def mend(self) -> None:
        _ip("-n", self.bed.switch, "link", "set", f"p{self.number}", "up")

    def lose(self, directory: Path) -> None:
        """Let what runs in this box see an empty directory in the place of this one."""
        for pid in self._mounts():
            self._mount(pid, "mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(directory))

    def find(self, directory: Path) -> None:
        """Let it see the directory again."""
        for pid in self._mounts():
            self._mount(pid, "umount", str(directory))

    def _mounts(self) -> list[int]:
        """A process for each set of mounts in this box: each command there has its own."""
        found: dict[str, int] = {}
        for pid in self.pids():
            with suppress(OSError):
                found.setdefault(os.readlink(f"/proc/{pid}/ns/mnt"), pid)
        return list(found.values())

    def _mount(self, pid: int, *words: str) -> None:
        made = subprocess.run(["nsenter", "-m", "-t", str(pid), *words], capture_output=True, text=True)
        assert made.returncode == 0, (words, made.stderr)

    def pause(self) -> list[int]:
        """Stop every process of this box; returns those that `resume` must continue."""
        stopped: list[int] = []
        while fresh := [pid for pid in self.pids() if pid not in stopped]:
            for pid in fresh:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            stopped += fresh
        return stopped

    def resume(self, stopped: Sequence[int]) -> None:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class Bed:
    """`count` boxes; `top` is a directory for everything that is written."""

    def __init__(self, count: int, top: Path, names: Sequence[str] = ()):
        """`names` are those of the boxes; n0, n1 and so on where none are given."""
        self.names = list(names) or [f"n{number}" for number in range(count)]
        self.prefix = f"tir{os.getpid()}{''.join(names)[:4]}"
        self.switch = f"{self.prefix}-s"
        self.top, self.temp = top, top / "ray"
        self.python = sys.executable
        self.ray = str(Path(sys.executable).with_name("ray"))
        self.boxes = [Box(self, number) for number in range(count)]
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "TIRESIAS_"))}
        self.env = {**keep, "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_prestart_worker_first_driver": "0"}
        self.env["RAY_worker_niceness"] = "0"  # on a machine that is busy, workers of Ray's niceness starve
        # Ray gives up a worker that has not started in a minute, and starts another one, if need be for ever.
        self.env["RAY_worker_register_timeout_seconds"] = "240"
        self.env["PATH"] = f"{Path(sys.executable).parent}:{keep.get('PATH', os.defpath)}"

    @property
    def address(self) -> str:
        return f"{self.boxes[0].address}:{PORT}"

    def make(self) -> None:
        """Make the namespaces and the links between them."""
        _ip("netns", "add", self.switch)
        _ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "bridge", "up")
        for box in self.boxes:
            port = f"p{box.number}"
            _ip("netns", "add", box.namespace)
            _ip("-n", box.namespace, "link", "set", "lo", "up")
            peer = ["peer", "name", port, "netns", self.switch]
            _ip("link", "add", "eth0", "netns", box.namespace, "type", "veth", *peer)
            _ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", box.namespace, "addr", "add", f"{box.address}/24", "dev", "eth0")
            _ip("-n", box.namespace, "link", "set", "eth0", "up")

    def start_ray(self) -> None:
        """One after the other: raylets that start at the same time take longer than they may."""
        for box in self.boxes:
            box.start_ray(labels=f"rack=r{box.number // 2}")

    def remove(self) -> None:
        """End every process of the boxes, and remove them."""
        for box in self.boxes:
            with suppress(subprocess.CalledProcessError):  # it was never made
                box.end_ray()
        for name in (*(box.namespace for box in self.boxes), self.switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _is_alive(pid: int) -> bool:
    found = procfs.look(pid)
    return found is not None and found.alive


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _ip(*words: str) -> None:
    made = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert made.returncode == 0, f"ip {' '.join(words)}: {made.stderr}"
