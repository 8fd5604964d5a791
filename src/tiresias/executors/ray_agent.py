"""What a Ray actor does on its node: it tests whether the node can be used, and carries calls to the Agent.

There is one detached actor per node. Whoever calls it says for which journal, so that a second manager finds
out about the first one. The module does not import Ray.
"""

from __future__ import annotations

import os
import pickle
import platform
import pwd
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiresias import __version__
from tiresias.executors.agent import Agent, other_account
from tiresias.executors.base import FoundNode
from tiresias.executors.gpus import Driver, NoDriver, Nvml, Survey, fake, find
from tiresias.executors.local import LocalExecutor

CHECKS = "checks"  # the directory of the shared folder in which joining nodes are tested


class NodeAgent:
    """`name` is that of the node. Requests and answers of `call` are pickled values."""

    def __init__(self, name: str):
        self._name = name
        self._agent: Agent | None = None
        self._executor: LocalExecutor | None = None
        self._driver: Driver | None = None
        self._commander: dict[str, Any] = {}
        self._heard_at = 0.0
        _take_niceness(os.getppid())

    def who(self) -> dict[str, Any]:
        """The manager that has called last, and how many seconds ago; empty if none has."""
        if not self._commander:
            return {}
        return {**self._commander, "age_s": time.monotonic() - self._heard_at}

    def join(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Test the node and begin to serve; `problem` in the answer says why it cannot be used.

        The form of what is asked and answered stays the same in all versions, because they may differ.
        """
        if problem := self._problem(asked):
            return {"problem": problem, "version": __version__}
        self._heard(asked["manager"])
        survey = self._survey(asked)
        if survey.problem and not survey.gpus:
            lacks = f"Ray offers {asked['gpus']} GPUs there, and {survey.problem}"
            return {"problem": f"{lacks}; to try without GPUs: --fake-gpus 4", "version": __version__}
        if self._agent is None:
            self._driver = None if asked["fake_gpus"] else Nvml()
            self._executor = LocalExecutor(
                Path(asked["shared"]) / "agents" / self._name,
                driver=self._driver,
                sdk=Path(asked["sdk"]),
                detached=True,
                lease_s=float(asked["lease_s"]),
            )
            self._agent = Agent(self._name, self._executor)
        return {"problem": "", "version": __version__, "found": pickle.dumps(self._found(survey, asked))}

    def call(self, manager: Mapping[str, Any], method: str, arguments: bytes) -> bytes:
        """A method of the Agent."""
        self._heard(manager)
        if self._agent is None:
            raise LookupError("the node has not joined")
        return pickle.dumps(getattr(self._agent, method)(*pickle.loads(arguments)))

    def troubles(self) -> dict[int, str]:
        """The GPUs that must not be used at present, by index, with the reasons."""
        if self._driver is None or self._executor is None:
            return {}
        try:
            gpus = self._driver.gpus()
        except NoDriver as error:
            return {0: str(error)}
        wrong = {gpu.index: gpu.unhealthy for gpu in gpus if gpu.unhealthy}
        indices = {gpu.uuid: gpu.index for gpu in gpus}
        for uuid, pids in self._executor.foreign(list(indices)).items():
            wrong.setdefault(indices[uuid], "used by others: pid " + ", ".join(map(str, pids)))
        for uuid, uses in self._executor.misused(list(indices)).items():
            who = ", ".join(f"job {id} (pid {pid})" for id, pid in uses)
            wrong.setdefault(indices[uuid], f"used by others: {who}, to which it was not given")
        return wrong

    def _heard(self, manager: Mapping[str, Any]) -> None:
        self._commander, self._heard_at = dict(manager), time.monotonic()

    # --- tests -----------------------------------------------------------------------------------------

    def _problem(self, asked: Mapping[str, Any]) -> str:
        if asked["version"] != __version__:
            return (
                f"it has Tiresias {__version__}, and the manager has {asked['version']}; run"
                f" `pip install 'tiresias[ray]=={asked['version']}'` there, and start Ray there again"
            )
        if wrong := _account_problem(asked["user"], int(asked["uid"])):
            return wrong
        return folder_problem(Path(asked["shared"]), asked["token"], self._name)

    def _survey(self, asked: Mapping[str, Any]) -> Survey:
        """The GPUs, at most as many as Ray offers here."""
        offered = int(asked["gpus"])
        if not offered:
            return Survey(())
        if asked["fake_gpus"]:
            return fake(min(offered, int(asked["fake_gpus"])), 1)
        found = find(Nvml())
        return Survey(found.gpus[:offered], found.problem, found.topology)

    def _found(self, survey: Survey, asked: Mapping[str, Any]) -> FoundNode:
        types = {gpu.name for gpu in survey.gpus}
        is_fake = bool(asked["fake_gpus"])
        return FoundNode(
            self._name,
            survey.gpus,
            gpu_type=str(asked["gpu_type"]) or (types.pop() if len(types) == 1 and not is_fake else ""),
            cpus=len(os.sched_getaffinity(0)),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            rack=str(asked["rack"]),
            address=str(asked["address"]),
            sockets=tuple(tuple(group) for group in survey.topology.groups),
        )


def _take_niceness(raylet: int) -> None:
    """Have the niceness of the Ray node, which runs inherit; only root may.

    Ray gives its workers a niceness of 15 unless it is set otherwise. Trainings would then be slowed down by
    whatever else a machine does.
    """
    if "RAY_worker_niceness" not in os.environ:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, raylet))


def _account_problem(user: str, uid: int) -> str:
    """Why runs of the manager's user cannot be started by this process; empty if they can."""
    if wrong := other_account(user, uid):
        return wrong
    if os.geteuid() not in (0, uid):
        me = pwd.getpwuid(os.geteuid()).pw_name
        return (
            f"Ray runs there as {me} (uid {os.geteuid()}), and the manager as {user} (uid {uid}); start"
            f" Ray there as {user}"
        )
    return ""


def folder_problem(shared: Path, token: str, name: str) -> str:
    """Why the shared folder cannot be used from here; empty if it can.

    The manager has left a file that is named as the token. The answer is a file beside it, with a second
    name, which the manager reads.
    """
    directory = shared / CHECKS
    try:
        left = (directory / token).read_text()
    except OSError as error:
        here = platform.node()
        is_there = "is there, and not what the manager has" if shared.is_dir() else "does not exist"
        return (
            f"the folder {shared} is not shared: on {here} it {is_there} ({error.strerror}); mount the same"
            " folder at the same path"
        )
    if left != token:
        return f"the folder {shared} is not shared: what the manager has written there reads otherwise here"
    answer, second = directory / f"{token}.{name}", directory / f"{token}.{name}.link"
    try:
        with open(answer, "w") as file:
            file.write(token)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return f"the folder {shared} cannot be written there: {error.strerror}; allow it to the user of Ray"
    try:
        os.link(answer, second)
    except OSError as error:
        return f"the folder {shared} has no hard links ({error.strerror}); choose one that has"
    return ""


def answer_problem(shared: Path, token: str, name: str) -> str:
    """Why the manager cannot read what a node has answered in the folder; removes the answer."""
    answer, second = (shared / CHECKS / f"{token}.{name}{end}" for end in ("", ".link"))
    try:
        if second.read_text() != token or os.stat(answer).st_nlink != 2:
            return f"the folder {shared} is not shared: what the node has written there reads otherwise here"
    except OSError as error:
        return f"the folder {shared} is not shared: what the node has written is not here ({error.strerror})"
    for path in (answer, second):
        with suppress(OSError):
            path.unlink()
    return ""
