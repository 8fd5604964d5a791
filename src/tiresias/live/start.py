"""From a home and its options to a manager on this machine."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core.model import Node
from tiresias.core.plugins import OptionError, placers, policies
from tiresias.executors.gpus import Driver, Gpu, NoDriver, Nvml, Survey, fake, find, parse_selection
from tiresias.executors.local import LocalExecutor
from tiresias.live.errors import Invalid
from tiresias.live.machine import Machine
from tiresias.live.manager import Manager
from tiresias.live.places import Places
from tiresias.live.settings import Settings
from tiresias.store import Chosen, Store

DEFAULT_POLICY = "tiresias-l"
DEFAULT_PLACER = "packed"
GPUS = "gpus"  # the setting: which slot is which GPU


@dataclass(slots=True)
class Options:
    """What `tir up` was given; kept in the home."""

    fake_gpus: int | None = None
    gpus: str | None = None
    policy: str = DEFAULT_POLICY
    set: dict[str, Any] = field(default_factory=dict)
    placer: str = DEFAULT_PLACER
    listen: str | None = None
    group: str | None = None
    plugins: list[str] = field(default_factory=list)  # loaded before the manager is opened
    settings: dict[str, float] = field(default_factory=dict)

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

    def unhealthy(self) -> Mapping[str, str]:
        try:
            return {gpu.uuid: gpu.unhealthy for gpu in self._driver.gpus() if gpu.unhealthy and gpu.uuid}
        except NoDriver:
            return {}


def open_manager(
    home: Path, options: Options | Mapping[str, Any], *, driver: Driver | None = None
) -> Manager:
    """The manager of this home; refuses what it cannot do, in words (Invalid, StoreError)."""
    if not isinstance(options, Options):
        options = Options.from_json(options)
    driver = driver or Nvml()
    survey = _survey(options, driver)
    chosen = _chosen(options)
    settings = _settings(options)
    places = Places(home)
    home.mkdir(parents=True, exist_ok=True, mode=0o711)
    store = Store.open(places.journal, home=home)
    try:
        is_fake = options.fake_gpus is not None
        executor = LocalExecutor(places.executor, driver=None if is_fake else driver)
        machine = _machine(survey, store)
        machine.watch = None if is_fake else _Watch(driver, executor)
        return Manager.open(home, store, executor, machine, chosen, settings=settings)
    except BaseException:
        store.close()
        raise


def _survey(options: Options, driver: Driver) -> Survey:
    if options.fake_gpus is not None:
        if options.gpus is not None:
            raise Invalid("give --gpus or --fake-gpus, not both")
        if not 1 <= options.fake_gpus <= 1024:
            raise Invalid(f"--fake-gpus {options.fake_gpus}: give a number from 1 to 1024")
        return fake(options.fake_gpus)
    try:
        only = None if options.gpus is None else parse_selection(options.gpus)
    except ValueError as error:
        raise Invalid(str(error)) from None
    survey = find(driver, only)
    if survey.problem:
        raise Invalid(survey.problem)
    return survey


def _chosen(options: Options) -> Chosen:
    chosen = Chosen(options.policy, dict(options.set), options.placer)
    try:
        policies.make(chosen.policy, chosen.options)
        placers.make(chosen.placer)
    except OptionError as error:
        raise Invalid(str(error)) from None
    return chosen


def _settings(options: Options) -> Settings:
    known = {each.name for each in fields(Settings)}
    if odd := sorted(options.settings.keys() - known):
        raise Invalid(f"options.json: no setting {odd[0]!r} (known: {', '.join(sorted(known))})")
    return Settings(**options.settings)  # type: ignore[arg-type]


def _machine(survey: Survey, store: Store) -> Machine:
    """Slots keep their GPUs over restarts: known by uuid, or, for fake ones, by index."""
    kept: dict[str, str] = store.setting(GPUS, {})  # slot: uuid, empty for a fake one
    node = next(iter(kept)).rpartition(":")[0] if kept else _node_name()
    by_uuid = {uuid: slot for slot, uuid in kept.items() if uuid}
    gpus: dict[str, Gpu] = {}
    fresh: list[Gpu] = []
    for gpu in survey.gpus:
        slot = by_uuid.get(gpu.uuid) if gpu.uuid else f"{node}:{gpu.index}"
        if slot is not None and (slot in kept or not kept):
            gpus[slot] = gpu
        else:
            fresh.append(gpu)
    if not kept:
        gpus, fresh = {f"{node}:{place}": gpu for place, gpu in enumerate(survey.gpus)}, []
    nodes = {slot.rpartition(":")[0] for slot in kept} or {node}
    if fresh:  # a node's slots are counted once for ever: what came later is a node of its own
        name = f"{node}-{len(nodes) + 1}"
        gpus |= {f"{name}:{place}": gpu for place, gpu in enumerate(fresh)}
        nodes.add(name)
    slots = {slot: gpu.uuid for slot, gpu in gpus.items()}
    if kept | slots != kept:
        store.set_setting(GPUS, kept | slots)
    everything = kept | slots
    counts = {name: sum(slot.rpartition(":")[0] == name for slot in everything) for name in sorted(nodes)}
    return Machine([Node(name, count) for name, count in counts.items()], gpus)


def _node_name() -> str:
    """This machine's own name, as far as it can be a node's."""
    name = platform.node().split(".")[0]
    return "".join(each for each in name if each.isalnum() or each in "-_") or "box"
