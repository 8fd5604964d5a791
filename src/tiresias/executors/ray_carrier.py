"""`python -m tiresias.executors.ray_carrier`: the process that speaks with Ray, for one manager.

It is a process of its own because a manager must outlive the Ray node of its machine (ray_connection.py). The
first frame that it gets has the options, each further one a call with its number; the answers carry that
number. The process ends with its manager.

Nothing is remembered here that matters: agents are detached actors with names, found again by the next
carrier. The name contains the id of the Ray node and a digest of the settings, so that an agent of an earlier
version, or of a Ray node that was started anew, is replaced. Placement groups have the name of their run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tiresias import __version__
from tiresias.executors import ray_agent
from tiresias.executors.base import FoundNode
from tiresias.executors.gang_transport import Refused, Seen, Unreachable
from tiresias.executors.ray_connection import (
    NoRay,
    connect,
    first_line,
    frame,
    last_line,
    read_frame,
    read_frame_now,
)

NAMESPACE = "tiresias"
AGAIN = "`tir up`"
AGENT_S = 60.0  # for an actor to begin on a busy node
TEST_AGAIN_S = 5.0  # after a test that a node has not passed
LOOK_S = 10.0  # between two looks at the GPUs of a node
OTHER_S = 5.0  # another manager that has been silent for so long is over: it asks every second
RESERVE_S = 10.0  # for GPUs that others on Ray may just be giving back
THREADS = 32
ASKED = ("shared", "lease_s", "fake_gpus", "sdk", "uid", "user")  # the options that agents get

log = logging.getLogger("tiresias.ray")


@dataclass(slots=True)
class _Member:
    """A Ray node that is used under its name, or will be."""

    name: str
    id: str
    address: str
    gpus: int
    rack: str
    gpu_type: str
    actor: Any = None
    found: FoundNode | None = None
    problem: str = ""
    troubled: dict[int, str] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None
    is_tested: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: asyncio.Event = field(default_factory=asyncio.Event)  # its agent has just ended

    def lose(self) -> None:
        self.actor = None
        self.is_lost.set()


class Carrier:
    """Implements the calls of `gang_transport.Transport`, and `begin`."""

    def __init__(self, options: Mapping[str, Any]):
        self._options = options
        self._shared = Path(options["shared"])
        self._manager: Mapping[str, Any] = options["manager"]
        self._members: dict[str, _Member] = {}
        self._former: set[str] = set()  # ids of Ray nodes whose place another one has taken
        settings = [options[each] for each in ("shared", "lease_s", "fake_gpus", "sdk", "uid")]
        self._digest = sha256(json.dumps([*settings, __version__]).encode()).hexdigest()[:12]

    # --- the beginning ---------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect to Ray, or NoRay."""
        connect(str(self._options["address"]), NAMESPACE, AGAIN)

    async def begin(self) -> dict[str, Any]:
        """Find out whether another manager has these nodes, and test the nodes if that is wished."""
        await self._check_alone()
        if not self._options["tests_first"]:
            return {}
        await self._look_at_nodes()
        waiting = [member.is_tested.wait() for member in self._members.values() if member.task is not None]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*waiting), AGENT_S)
        return {"nodes": self._seen()}

    async def _check_alone(self) -> None:
        import ray

        found = await _in_thread(lambda: ray.util.list_named_actors(all_namespaces=True))
        names = [each["name"] for each in found if each["namespace"] == NAMESPACE]
        others = [name for name in names if self._is_other(await self._who(name))]
        if others:
            await asyncio.sleep(OTHER_S)  # it may just have ended
        for name in others:
            who = await self._who(name)
            if self._is_other(who):
                raise NoRay(
                    6,
                    f"the manager of {who['home']} on {who['host']} (pid {who['pid']}) uses node"
                    f" {name.split()[1]} of this Ray; end it with `tir down` there first",
                )

    def _is_other(self, who: dict[str, Any]) -> bool:
        """Whether another manager than ours has called this agent a moment ago."""
        return bool(who) and who["journal"] != self._manager["journal"] and who["age_s"] < OTHER_S

    async def _who(self, name: str) -> dict[str, Any]:
        import ray

        try:
            actor = await _in_thread(lambda: ray.get_actor(name, NAMESPACE))
            return dict(await asyncio.wait_for(_awaited(actor.who.remote()), 3.0))
        except (ValueError, TimeoutError, ray.exceptions.RayError):
            return {}

    # --- nodes -----------------------------------------------------------------------------------------

    async def nodes(self) -> list[Seen]:
        await self._look_at_nodes()
        return self._seen()

    def _seen(self) -> list[Seen]:
        seen = []
        for member in self._members.values():
            if member.problem:
                seen.append(Seen(FoundNode(member.name, address=member.address), member.problem))
            elif member.found is not None:
                seen.append(Seen(member.found, troubled=dict(member.troubled)))
        return seen

    async def _look_at_nodes(self) -> None:
        import ray

        listed = await _in_thread(ray.nodes)
        alive = [_member(each) for each in listed if each["Alive"]]
        by_name: dict[str, list[_Member]] = {}
        for each in alive:
            by_name.setdefault(each.name, []).append(each)
        for name, some in by_name.items():
            self._take(name, some)
        present = {each.id for each in alive}
        for name, member in list(self._members.items()):
            if member.id not in present:
                self._let_go(name)

    def _take(self, name: str, some: list[_Member]) -> None:
        """Choose the Ray node that has this name: of one machine the latest, of several the first."""
        now = self._members.get(name)
        fresh = [each for each in some if each.id not in self._former]
        if now is not None and (later := [e for e in fresh if e.address == now.address and e.id != now.id]):
            self._former.add(now.id)
            self._let_go(name)
            now = self._begin_with(later[0])
        if now is None or now.id not in {each.id for each in some}:
            if not fresh:
                return
            now = self._begin_with(min(fresh, key=lambda each: (each.address, each.id)))
        for each in fresh:
            if each.address != now.address:
                each.name = f"{name}-{each.address}".replace(":", "-")
                each.problem = (
                    f"the node at {now.address} has the name {name}, too; start Ray at {each.address} with"
                    " another --node-name"
                )
                self._members[each.name] = each

    def _begin_with(self, member: _Member) -> _Member:
        self._members[member.name] = member
        member.task = asyncio.get_running_loop().create_task(self._serve(member))
        return member

    def _let_go(self, name: str) -> None:
        member = self._members.pop(name)
        if member.task is not None:
            member.task.cancel()

    async def _serve(self, member: _Member) -> None:
        """Have an agent on the node, test the node until it may be used, and look after its GPUs."""
        import ray

        while True:
            if member.actor is None:
                await self._join(member)
                member.is_tested.set()
            else:
                try:
                    asked = _awaited(member.actor.troubles.remote())
                    member.troubled = dict(await asyncio.wait_for(asked, AGENT_S))
                except TimeoutError:
                    continue
                except ray.exceptions.RayError:
                    member.actor = None  # it has ended: another one takes its place at once
                    continue
            member.is_lost.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    member.is_lost.wait(), LOOK_S if member.actor is not None else TEST_AGAIN_S
                )

    async def _join(self, member: _Member) -> None:
        import ray

        token = f"{os.urandom(8).hex()}"
        try:
            await _in_thread(lambda: _leave(self._shared, token))
            await self._end_former(member)
            actor = await _in_thread(lambda: self._actor(member))
            asked = {
                **{key: self._options[key] for key in ASKED},
                "version": __version__,
                "manager": dict(self._manager),
                "token": token,
                "gpus": member.gpus,
                "gpu_type": member.gpu_type,
                "rack": member.rack,
                "address": member.address,
            }
            answer = await asyncio.wait_for(_awaited(actor.join.remote(asked)), AGENT_S)
        except TimeoutError:
            return  # it is silent, or very slow: what the agents tell decides
        except ray.exceptions.ActorUnavailableError:
            return
        except ray.exceptions.RayError as error:
            member.problem, member.actor = _agent_problem(str(error)), None
            return
        except OSError as error:
            log.error("cannot write in the shared folder %s: %s", self._shared, error)
            return
        finally:
            await _in_thread(lambda: _remove(self._shared, token))
        problem = str(answer["problem"])
        if not problem:
            problem = await _in_thread(lambda: ray_agent.answer_problem(self._shared, token, member.name))
        member.problem, member.actor = problem, None if problem else actor
        member.found = None if problem else pickle.loads(answer["found"])

    def _name_of(self, member: _Member) -> str:
        return f"agent {member.name} {member.id} {self._digest}"

    def _actor(self, member: _Member) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return (
            ray.remote(ray_agent.NodeAgent)
            .options(
                name=self._name_of(member),
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                num_gpus=0,
                max_restarts=0,
                max_concurrency=THREADS,
                scheduling_strategy=NodeAffinitySchedulingStrategy(member.id, soft=False),
            )
            .remote(member.name)
        )

    async def _end_former(self, member: _Member) -> None:
        """End the agents of this node that another version, other settings or another Ray node has left."""
        import ray

        found = await _in_thread(lambda: ray.util.list_named_actors(all_namespaces=True))
        for each in found:
            name = str(each["name"])
            ours = each["namespace"] == NAMESPACE and name.startswith(f"agent {member.name} ")
            if ours and name != self._name_of(member):
                with suppress(ValueError):
                    actor = ray.get_actor(name, NAMESPACE)
                    await _in_thread(lambda actor=actor: ray.kill(actor))  # type: ignore[misc]

    # --- calls to agents -------------------------------------------------------------------------------

    async def call(self, node: str, method: str, arguments: bytes, wait_s: float) -> bytes:
        import ray

        member = self._members.get(node)
        if member is None or member.actor is None:
            raise Unreachable(f"node {node} has no agent")
        try:
            reference = member.actor.call.remote(dict(self._manager), method, arguments)
            return bytes(await asyncio.wait_for(_awaited(reference), wait_s))
        except TimeoutError:
            raise Unreachable(f"node {node} did not answer in {wait_s:g} s") from None
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, OSError):
                raise cause from None
            member.lose()
            if isinstance(cause, LookupError):
                raise Unreachable(f"node {node} has to join again") from None
            raise
        except ray.exceptions.RayError as error:
            member.lose()
            raise Unreachable(f"the agent of node {node}: {first_line(str(error))}") from None

    # --- placement groups ------------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        return f"tiresias {str(self._manager['journal'])[:12]} run "

    async def reserve(self, run_id: int, gpus: Mapping[str, int]) -> None:
        members = {name: self._members.get(name) for name in gpus}
        if absent := [name for name, member in members.items() if member is None]:
            raise Unreachable(f"Ray does not list node {absent[0]}")
        bundles = [
            {"GPU": count, f"node:{member.address}": 0.001}
            for name, count in gpus.items()
            if (member := members[name]) is not None and member.gpus
        ]
        if bundles and not await _in_thread(lambda: self._reserved(f"{self._prefix}{run_id}", bundles)):
            await self.release(run_id)
            where = ", ".join(f"{count} on {name}" for name, count in gpus.items())
            raise Refused(
                f"Ray has not given the GPUs within {RESERVE_S:g} s ({where}): others use them, or a node was"
                " cut off a moment ago; `ray status` shows it"
            )

    def _reserved(self, name: str, bundles: list[dict[str, float]]) -> bool:
        from ray.util import get_placement_group, placement_group

        try:
            group = get_placement_group(name)
        except ValueError:
            group = placement_group(bundles, strategy="PACK", name=name, lifetime="detached")
        return bool(group.wait(RESERVE_S))

    async def release(self, run_id: int) -> None:
        from ray.util import get_placement_group, remove_placement_group

        def remove() -> None:
            with suppress(ValueError):
                remove_placement_group(get_placement_group(f"{self._prefix}{run_id}"))

        await _in_thread(remove)

    async def reserved(self) -> list[int]:
        """The runs for which GPUs are reserved."""
        from ray.util import placement_group_table

        table: dict[str, Any] = await _in_thread(placement_group_table)
        names = [str(each["name"]) for each in table.values() if each["state"] != "REMOVED"]
        return [int(name.removeprefix(self._prefix)) for name in names if name.startswith(self._prefix)]

    # --- the service -----------------------------------------------------------------------------------

    async def serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        tasks: set[asyncio.Task[None]] = set()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                number, method, arguments = await read_frame(reader)
                task = asyncio.get_running_loop().create_task(self._answer(writer, number, method, arguments))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    async def _answer(self, writer: asyncio.StreamWriter, number: int, method: str, arguments: Any) -> None:
        import ray

        try:
            kind, value = "ok", await getattr(self, method)(*arguments)
        except (Unreachable, Refused) as error:
            kind, value = type(error).__name__, str(error)
        except OSError as error:
            kind, value = "OSError", (error.errno, error.strerror or str(error))
        except ray.exceptions.RaySystemError as error:
            kind, value = "Unreachable", first_line(str(error))
        except Exception:  # noqa: BLE001  (the manager decides what becomes of it)
            kind, value = "failed", traceback.format_exc()
        writer.write(frame((number, kind, value)))


def _member(node: Mapping[str, Any]) -> _Member:
    labels, resources = node.get("Labels") or {}, node["Resources"]
    address = str(node["NodeManagerAddress"])
    name = str(node.get("NodeName") or "")
    if not name or name == address:
        name = str(node["NodeManagerHostname"]).split(".")[0]
    types = [key.partition(":")[2] for key in resources if key.startswith("accelerator_type:")]
    gpu_type = labels.get("gpu-type") or labels.get("ray.io/accelerator-type") or "".join(types[:1])
    return _Member(
        name, node["NodeID"], address, int(resources.get("GPU", 0)), labels.get("rack", ""), gpu_type
    )


def _agent_problem(said: str) -> str:
    if "No module named" in said:
        return (
            f"its Python has no Tiresias; run `pip install 'tiresias[ray]=={__version__}'` there, and start"
            " Ray there again"
        )
    return f"its agent cannot be started: {last_line(said)}"


def _leave(shared: Path, token: str) -> None:
    (shared / ray_agent.CHECKS).mkdir(exist_ok=True)
    (shared / ray_agent.CHECKS / token).write_text(token)


def _remove(shared: Path, token: str) -> None:
    with suppress(OSError):
        (shared / ray_agent.CHECKS / token).unlink()


async def _in_thread(do: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, do)


async def _awaited(reference: Any) -> Any:
    return await reference


async def _main(connection: socket.socket, carrier: Carrier) -> None:
    from concurrent.futures import ThreadPoolExecutor

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    try:
        begun = await carrier.begin()
    except NoRay as error:
        connection.sendall(frame(("failed", error.code, str(error))))
        return
    connection.sendall(frame(("begun", 0, begun)))
    connection.setblocking(False)
    await carrier.serve(connection)


def main() -> None:
    connection = socket.socket(fileno=os.dup(0))
    try:
        carrier = Carrier(read_frame_now(connection))
        try:
            carrier.connect()
        except NoRay as error:
            connection.sendall(frame(("failed", error.code, str(error))))
            return
        connection.sendall(frame(("connected", 0, None)))
        asyncio.run(_main(connection, carrier))
    except (EOFError, BrokenPipeError):  # the manager has ended
        pass
    finally:
        sys.stdout.flush()
        os._exit(0)  # at once: Ray would wait for what it has under way


if __name__ == "__main__":
    main()
