"""From a home and its options to a manager on this machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.core.model import JobId, Node
from tiresias.core.plugin_failures import PluginRaised
from tiresias.core.plugins import OptionError, parse_options, placers, policies
from tiresias.executors import sdk
from tiresias.executors.base import Executor, NodeSource
from tiresias.executors.cgroup_parent import Limiting
from tiresias.executors.directories import insecure, make_passage
from tiresias.executors.gpus import (
    FAKE_NAME,
    Driver,
    Gpu,
    NoDriver,
    Nvml,
    Reading,
    Survey,
    fake,
    find,
    least_memory,
    parse_selection,
)
from tiresias.executors.local import LocalExecutor
from tiresias.live import run_directories, shared_folder
from tiresias.live.errors import Invalid
from tiresias.live.home_paths import HomePaths
from tiresias.live.machine import GPUS, Machine
from tiresias.live.manager import Manager
from tiresias.live.notice_target import networks_of
from tiresias.live.settings import Settings
from tiresias.live.shared_folder import SharedFolder
from tiresias.store import Chosen, Store, StoreError

DEFAULT_PLACER = "profile"  # of jobs that name no model, packed


@dataclass(slots=True)
class Options:
    """What `tir up` was given; kept in the home."""

    fake_gpus: int | None = None
    fake_groups: int = 1  # of neighbours among them
    gpus: str | None = None
    policy: str = DEFAULT_POLICY
    set: dict[str, Any] = field(default_factory=dict)
    placer: str = DEFAULT_PLACER
    placer_set: dict[str, Any] = field(default_factory=dict)
    listen: str | None = None
    allow_host: list[str] = field(default_factory=list)  # names that requests may use
    group: str | None = None
    notify_allow: list[str] = field(default_factory=list)  # networks that notices may be sent to
    plugins: list[str] = field(default_factory=list)  # loaded before the manager is opened
    auto: bool = False  # every job has --auto
    on: str | None = None  # the engine that has the nodes: ray; None: this machine alone
    address: str | None = None  # of that engine, HOST:PORT
    shared: str | None = None  # the folder that all its nodes share
    settings: dict[str, float] = field(default_factory=dict)
    default_policy: str = DEFAULT_POLICY  # of the version that wrote the options; for `tir up`

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        known = {each.name for each in fields(cls)}
        if odd := sorted(body.keys() - known):
            raise Invalid(f"options.json: {odd[0]!r} is not known (known: {', '.join(sorted(known))})")
        return cls(**body)


class _Watch:
    """What the driver and the executor know of the GPUs."""

    def __init__(self, driver: Driver, executor: LocalExecutor):
        self._driver, self._executor = driver, executor

    def foreign(self, uuids: list[str]) -> Mapping[str, list[int]]:
        return self._executor.foreign(uuids)

    def misused(self, uuids: list[str]) -> Mapping[str, list[tuple[JobId, int]]]:
        return self._executor.misused(uuids)

    def unhealthy(self, uuids: list[str]) -> Mapping[str, str]:
        try:
            found = {gpu.uuid: gpu.unhealthy for gpu in self._driver.gpus()}
        except NoDriver as error:
            return dict.fromkeys(uuids, str(error))
        illnesses = {uuid: found.get(uuid, "the driver does not show it any more") for uuid in uuids}
        return {uuid: illness for uuid, illness in illnesses.items() if illness}

    def reading(self, uuid: str) -> Reading:
        try:
            return self._driver.reading(uuid)
        except NoDriver:
            return Reading()


def open_manager(
    home: Path,
    options: Options | Mapping[str, Any],
    *,
    driver: Driver | None = None,
    source: NodeSource | None = None,
) -> Manager:
    """The manager of this home; refuses what it cannot do, in words (Invalid, StoreError).

    With a `source`, the nodes are those of which it tells, all of them on this machine.
    """
    if not isinstance(options, Options):
        options = Options.from_json(options)
    driver = driver or Nvml()
    is_local = source is None and options.on is None
    survey = _survey(options, driver) if is_local else Survey(())
    chosen = _chosen(options)
    settings = _settings(options)
    notify_allow = networks_of(options.notify_allow)
    paths = HomePaths(home, _shared(options))
    make_passage(home)
    if os.geteuid() == 0 and (problem := insecure(home)):
        raise Invalid(
            f"the home {home} is not safe for a manager that runs as root: {problem}, or choose another home"
        )
    store = Store.open(paths.journal, home=home)
    try:
        folder = None if paths.shared is None else _take(paths, store)
        if problem := run_directories.problem(paths, store):
            raise StoreError(problem)
        run_directories.take(paths, store)
        executor, machine = (
            _on_this_machine(paths, options, store, survey, driver, source)
            if folder is None
            else _on_ray(paths, folder, options, store, settings)
        )
        return Manager.open(
            home, store, executor, machine, chosen, settings=settings, notify_allow=notify_allow, paths=paths
        )
    except PluginRaised as error:  # in a new journal; otherwise another plug-in takes over
        store.close()
        raise Invalid(f"{error}; correct it, or choose another one") from None
    except OptionError as error:  # a plug-in that the journal's policy comes from, most of all
        store.close()
        raise Invalid(f"{paths.journal}: {error}; start the manager with what it was used with") from None
    except BaseException:
        store.close()
        raise


def _on_this_machine(
    paths: HomePaths,
    options: Options,
    store: Store,
    survey: Survey,
    driver: Driver,
    source: NodeSource | None,
) -> tuple[Executor, Machine]:
    is_fake = options.fake_gpus is not None or source is not None
    executor = LocalExecutor(paths.executor, driver=None if is_fake else driver, sdk=sdk.publish(paths.sdk))
    machine = _machine(survey, store) if source is None else machine_of_nodes(store, source)
    machine.limiting = executor.limiting
    machine.watch = None if is_fake else _Watch(driver, executor)
    return executor, machine


def _take(paths: HomePaths, store: Store) -> SharedFolder:
    """Take the shared folder for the manager of this journal; Conflict if it is another's."""
    assert paths.shared is not None, "no shared folder"
    about = {
        "journal": run_directories.latest_id(store),
        "home": str(paths.home),
        "host": platform.node(),
        "pid": os.getpid(),
    }
    return SharedFolder(paths.shared, about, store.journal_ids().values())


def _on_ray(
    paths: HomePaths, folder: SharedFolder, options: Options, store: Store, settings: Settings
) -> tuple[Executor, Machine]:
    from tiresias.live import start_ray  # here, because it takes a tenth of the start of any other manager

    executor = start_ray.executor(paths, folder, options.address, options.fake_gpus or 0, settings, store)
    machine = machine_of_nodes(store, executor)
    machine.limiting = Limiting("", "")  # the nodes limit what they can
    return executor, machine


def _shared(options: Options) -> Path | None:
    """The folder that the nodes share; None for a manager of this machine alone."""
    if options.on is None:
        return None
    if options.on != "ray":
        raise Invalid(f"--on {options.on}: give ray, or leave it out for this machine alone")
    if options.gpus is not None:
        raise Invalid("--gpus selects GPUs of this machine; with --on ray, `ray start --num-gpus` does that")
    return shared_folder.checked(options.shared)


def _survey(options: Options, driver: Driver) -> Survey:
    if options.fake_gpus is not None:
        if options.gpus is not None:
            raise Invalid("give --gpus or --fake-gpus, not both")
        if not 1 <= options.fake_gpus <= 1024:
            raise Invalid(f"--fake-gpus {options.fake_gpus}: give a number from 1 to 1024")
        if not 1 <= options.fake_groups <= options.fake_gpus:
            most = options.fake_gpus
            raise Invalid(f"--fake-groups {options.fake_groups}: give a number from 1 to {most}, the GPUs")
        memory_bytes = int(options.settings.get("fake_gpu_memory_bytes", 0))
        return fake(options.fake_gpus, options.fake_groups, memory_bytes)
    try:
        only = None if options.gpus is None else parse_selection(options.gpus)
    except ValueError as error:
        raise Invalid(str(error)) from None
    survey = find(driver, only)
    if survey.problem:
        raise Invalid(survey.problem)
    return survey


def _chosen(options: Options) -> Chosen:
    chosen = Chosen(options.policy, dict(options.set), options.placer, dict(options.placer_set))
    try:
        parse_options(policies.get(chosen.policy), chosen.options)
        parse_options(placers.get(chosen.placer), chosen.placer_options)
    except OptionError as error:
        raise Invalid(str(error)) from None
    return chosen


def _settings(options: Options) -> Settings:
    known = {each.name for each in fields(Settings)} - {"auto"}
    if odd := sorted(options.settings.keys() - known):
        raise Invalid(f"options.json: no setting {odd[0]!r} (known: {', '.join(sorted(known))})")
    for name, value in options.settings.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise Invalid(f"options.json: the setting {name} is {value!r}; give a number from 0 on")
    return Settings(**options.settings, auto=options.auto)  # type: ignore[arg-type]


def _machine(survey: Survey, store: Store) -> Machine:
    """Slots keep their GPUs over restarts. A node's slots are counted once for ever: what comes later is a
    node of its own.
    """
    kept: dict[str, str] = store.setting(GPUS, {})  # slot: uuid, empty for a fake one or one never reached
    node = next(iter(kept)).rpartition(":")[0] if kept else _node_name()
    gpus = _places(survey, kept, node)
    nodes = {slot.rpartition(":")[0] for slot in kept}
    placed = {id(gpu) for gpu in gpus.values()}
    fresh = [gpu for gpu in survey.gpus if id(gpu) not in placed and (not kept or gpu.uuid or _is_fake(gpu))]
    if fresh:
        name = f"{node}-{len(nodes) + 1}" if nodes else node
        gpus |= {f"{name}:{place}": gpu for place, gpu in enumerate(fresh)}
        nodes.add(name)
    everything = kept | {slot: gpu.uuid for slot, gpu in gpus.items() if gpu.uuid or slot not in kept}
    if everything != kept:
        store.set_setting(GPUS, everything)
    counts = {name: sum(slot.rpartition(":")[0] == name for slot in everything) for name in sorted(nodes)}
    cores = {node: len(os.sched_getaffinity(0))}  # of the machine, so of its first node alone
    made = [
        Node(
            name,
            count,
            sockets=_near(name, gpus, survey),
            cpus=cores.get(name, 0),
            gpu_memory_bytes=least_memory(gpus[slot] for slot in gpus if slot.rpartition(":")[0] == name),
        )
        for name, count in counts.items()
    ]
    return Machine(made, gpus, topology=survey.topology)


def machine_of_nodes(store: Store, source: NodeSource) -> Machine:
    """What the journal knows of the slots of nodes of which a source will tell."""
    return Machine([], source=source, uuids=store.setting(GPUS, {}))


def _near(node: str, gpus: Mapping[str, Gpu], survey: Survey) -> tuple[tuple[int, ...], ...]:
    """The groups of GPUs as slots of this node; one group of all says nothing."""
    slots = {
        gpu.index: int(slot.rpartition(":")[2])
        for slot, gpu in gpus.items()
        if slot.rpartition(":")[0] == node
    }
    groups = [sorted(slots[index] for index in group if index in slots) for group in survey.topology.groups]
    found = tuple(tuple(group) for group in groups if len(group) > 1)
    return () if found and len(found[0]) == len(slots) else found


def _places(survey: Survey, kept: Mapping[str, str], node: str) -> dict[str, Gpu]:
    """The GPUs that have a slot: known by uuid, fake ones by their order, and one that cannot be reached, or
    could not be when it was first seen, by its index.
    """
    by_uuid = {uuid: slot for slot, uuid in kept.items() if uuid}
    gpus = {by_uuid[gpu.uuid]: gpu for gpu in survey.gpus if gpu.uuid in by_uuid}
    fakes = iter([slot for slot, uuid in kept.items() if not uuid])
    for gpu in survey.gpus:
        if _is_fake(gpu):
            slot = next(fakes, "")
        else:
            slot = f"{node}:{gpu.index}"
            if gpu.uuid in by_uuid or slot in gpus or (gpu.uuid and kept.get(slot)):
                continue
        if slot in kept:
            gpus[slot] = gpu
    return gpus


def _is_fake(gpu: Gpu) -> bool:
    return gpu.name == FAKE_NAME


def _node_name() -> str:
    """This machine's own name, as far as it can be a node's."""
    name = platform.node().split(".")[0]
    return "".join(each for each in name if each.isalnum() or each in "-_") or "box"
