"""`HOME/options.json`: the options with which the manager of a home is started.

Rules: `up` stores its options, and a later `up` without options uses them. Options that are not given keep
their values; another policy begins with its own defaults. Once there is a journal, it has the policy and the
placer, because they can be changed while the manager runs. A home keeps its policy when the default becomes
another one: `default_policy` is the default at the time when a policy was last chosen, or when the home was
made. The file is replaced as a whole, so that it is never incomplete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from tiresias.cli.errors import Stop
from tiresias.core.defaults import DEFAULT_POLICY, FIRST_DEFAULT

FILE = "options.json"
NONE = "none"
LIVE = frozenset({"policy", "set", "placer", "placer_set", "default_policy"})
"""What can be changed while the manager runs."""


@dataclass(slots=True, frozen=True)
class Settings:
    fake_gpus: int | None = None
    fake_groups: int = 1
    gpus: str | None = None  # None: all GPUs
    policy: str = DEFAULT_POLICY
    set: dict[str, str] = field(default_factory=dict)
    placer: str = "profile"
    placer_set: dict[str, str] = field(default_factory=dict)
    listen: str | None = None
    allow_host: list[str] = field(default_factory=list)
    group: str | None = None
    notify_allow: list[str] = field(default_factory=list)
    plugins: list[str] = field(default_factory=list)
    auto: bool = False
    on: str | None = None  # None: this machine alone
    address: str | None = None
    shared: str | None = None
    settings: dict[str, float] = field(default_factory=dict)  # written by administrators, kept as they are
    default_policy: str = DEFAULT_POLICY

    def differences(self, other: Settings) -> list[str]:
        """The names of the settings that differ."""
        return [each.name for each in fields(self) if getattr(self, each.name) != getattr(other, each.name)]

    def written(self, name: str) -> str:
        """A setting as it is written on the command line."""
        value = getattr(self, name)
        if name in ("set", "placer_set"):
            option = f"--{name.replace('_', '-')}"
            return " ".join(f"{option} {key}={text}" for key, text in value.items())
        if name == "plugins":
            return " ".join(f"(with --plugin {each})" for each in value) or "(without plugins)"
        if name == "auto":
            return "--auto" if value else "--no-auto"
        if name in ("allow_host", "notify_allow"):
            return " ".join(f"--{name.replace('_', '-')} {each}" for each in value or [NONE])
        if name == "settings":
            return f"(settings of {FILE}: {value})"
        return f"--{name.replace('_', '-')} {'all' if name == 'gpus' and value is None else value or NONE}"


@dataclass(slots=True, frozen=True)
class Given:
    """The options of one `up`; None means "not given"."""

    fake_gpus: int | None = None
    fake_groups: int | None = None
    gpus: str | None = None
    policy: str | None = None
    set: Mapping[str, str] = field(default_factory=dict)
    placer: str | None = None
    placer_set: Mapping[str, str] = field(default_factory=dict)
    listen: str | None = None
    group: str | None = None
    plugins: Sequence[str] = ()
    allow_host: Sequence[str] = ()
    notify_allow: Sequence[str] = ()
    auto: bool | None = None
    on: str | None = None
    address: str | None = None
    shared: str | None = None

    @property
    def asks_for_policy(self) -> bool:
        return bool(self.policy or self.set or self.placer or self.placer_set)

    def over(self, stored: Settings) -> Settings:
        """The stored settings, replaced by those that are given."""
        policy = self.policy or stored.policy
        kept = stored.set if policy == stored.policy else {}
        placer = self.placer or stored.placer
        kept_there = stored.placer_set if placer == stored.placer else {}
        merged = replace(
            stored,
            fake_groups=self.fake_groups or stored.fake_groups,
            policy=policy,
            default_policy=stored.default_policy if self.policy is None else DEFAULT_POLICY,
            set={**kept, **self.set},
            placer=placer,
            placer_set={**kept_there, **self.placer_set},
            listen=_or_none(self.listen, stored.listen),
            allow_host=_names(self.allow_host, stored.allow_host),
            notify_allow=_names(self.notify_allow, stored.notify_allow),
            group=_or_none(self.group, stored.group),
            on=_or_none(self.on, stored.on),
            address=None if self.on == NONE else self.address or stored.address,
            shared=None if self.on == NONE else self.shared or stored.shared,
            auto=stored.auto if self.auto is None else self.auto,
            plugins=[*stored.plugins, *(each for each in self.plugins if each not in stored.plugins)],
        )
        if self.fake_gpus is not None:
            groups = self.fake_groups or (stored.fake_groups if self.fake_gpus == stored.fake_gpus else 1)
            return replace(merged, fake_gpus=self.fake_gpus or None, fake_groups=groups, gpus=None)
        if self.gpus is not None:
            real = None if self.gpus == "all" else self.gpus
            return replace(merged, gpus=real, fake_gpus=None, fake_groups=1)
        return merged


def _or_none(given: str | None, stored: str | None) -> str | None:
    return stored if given is None else None if given == NONE else given


def _names(given: Sequence[str], stored: list[str]) -> list[str]:
    """The names that are given replace those that are stored; `none` stands for no name."""
    return [name for name in given if name != NONE] if given else stored


def read(home: Path) -> Settings | None:
    """The settings of an earlier `up`; None if there was none."""
    path = home / FILE
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        known = {each.name for each in fields(Settings)}
        body.setdefault("default_policy", FIRST_DEFAULT)
        return Settings(**{key: value for key, value in body.items() if key in known})
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, TypeError):
        raise Stop(f"{path} is damaged; remove it and give the options of `tir up` again") from None


def write(home: Path, settings: Settings) -> None:
    path = home / FILE
    fresh = path.with_name(f".{FILE}.{os.getpid()}")
    fresh.write_text(json.dumps(asdict(settings), indent=2) + "\n", encoding="utf-8")
    os.replace(fresh, path)


def put_back(home: Path, before: Settings | None) -> None:
    """Restore the settings after an `up` that failed, so that the next one does not fail on them."""
    if before is None:
        (home / FILE).unlink(missing_ok=True)
    else:
        write(home, before)


def use_plugins(stored: Settings | None) -> None:
    """Load the plug-ins that an earlier `up` was given."""
    if stored is not None and stored.plugins:
        from tiresias.sim.plugins import use_plugins

        use_plugins(stored.plugins)


def plugins() -> list[str]:
    """The plug-ins of this command, from --plugin or TIRESIAS_PLUGINS."""
    return [name for name in os.environ.get("TIRESIAS_PLUGINS", "").split(os.pathsep) if name]


def policy_options(texts: Sequence[str], policy: str) -> dict[str, str]:
    """`--set key=value` for one policy, checked before anything is started."""
    from tiresias.cli.settings import assign, parse_settings

    chosen = assign(parse_settings(texts), [policy]).single()[policy]
    return {key: _text(key, value) for key, value in chosen.items()}


def placer_options(texts: Sequence[str], placer: str) -> dict[str, str]:
    """`--placer-set key=value`, checked in the same way."""
    import tiresias.placers  # noqa: F401  (for what it registers)
    from tiresias.core.plugins import parse_options, placers

    chosen = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise Stop(f"--placer-set {text!r} is not understood; write key=value (tir placers lists keys)")
        chosen[key.strip()] = _text(key.strip(), value.strip())
    parse_options(placers.get(placer), chosen)
    return chosen


def _text(key: str, value: str) -> str:
    """`@FILE` is replaced by the file's text, because the manager has another working directory."""
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Stop(f"--set {key}={value}: the file is not text") from None


def check(settings: Settings) -> None:
    """Refuse unknown policies and placers, options that they do not have, and wrong GPUs."""
    import tiresias.placers
    import tiresias.policies  # noqa: F401  (both for what they register)
    from tiresias.core.plugins import parse_options, placers, policies
    from tiresias.executors.gpus import parse_selection

    parse_options(policies.get(settings.policy), settings.set)
    parse_options(placers.get(settings.placer), settings.placer_set)
    _check_engine(settings)
    if settings.fake_groups > max(1, settings.fake_gpus or 0):
        raise Stop(
            f"--fake-groups {settings.fake_groups}: there are only {settings.fake_gpus or 0} fake GPUs"
        )
    if settings.gpus is not None:
        try:
            parse_selection(settings.gpus)
        except ValueError as error:
            raise Stop(f"--gpus: {error}") from None


def _check_engine(settings: Settings) -> None:
    """Refuse a half of what a manager of many nodes needs."""
    if settings.on is None:
        for name in ("address", "shared"):
            if getattr(settings, name):
                raise Stop(f"--{name} is for a manager of many nodes; add --on ray, or leave it out")
        return
    if settings.on != "ray":
        raise Stop(f"--on {settings.on}: give ray, or none for this machine alone")
    if settings.gpus is not None:
        raise Stop("--gpus selects GPUs of this machine; with --on ray, `ray start --num-gpus` does that")
    if not settings.address:
        raise Stop("--on ray needs --address HOST:PORT, as `ray start --head` prints it")
    if not settings.shared:
        raise Stop("--on ray needs --shared DIR, a folder that all nodes have at the same path")
