"""`--set key=value` and `--set policy.key=value`: which policy takes which option.

Rules: a plain key applies to every policy that has it, and a note lists these policies; a key that no policy
has is an error, and so is one for a policy that is not among those given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches

Spans = dict[str, dict[str, list[str]]]
"""The values of each option of each policy, in the order given."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One `--set`; `policy` is empty if the key stands alone."""

    policy: str
    key: str
    value: str


@dataclass(slots=True)
class Assigned:
    """The options of each policy, and notes for the user."""

    spans: Spans
    notes: list[str] = field(default_factory=list)

    def say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def single(self) -> dict[str, dict[str, str]]:
        """The options of each policy, if each has one value only."""
        from tiresias.core.plugins import OptionError

        for name, spans in self.spans.items():
            for key, values in spans.items():
                if len(values) > 1:
                    raise OptionError(
                        f"--set gives {name} {len(values)} values of {key} ({' and '.join(values)}); "
                        "keep one, or try them all with tiresias sweep"
                    )
        return {name: {key: values[0] for key, values in spans.items()} for name, spans in self.spans.items()}


def parse_settings(texts: Sequence[str]) -> list[Setting]:
    """The settings of each --set."""
    from tiresias.core.plugins import OptionError

    settings = []
    for text in texts:
        name, equals, value = text.partition("=")
        policy, _, key = name.strip().rpartition(".")
        if not equals or not key.strip() or not value.strip():
            raise OptionError(
                f"--set {text!r} is not understood; write key=value or policy.key=value "
                "(tiresias policies lists the keys)"
            )
        settings.append(Setting(policy.strip(), key.strip(), value.strip()))
    return settings


def assign(settings: Sequence[Setting], names: Sequence[str]) -> Assigned:
    """Give every policy of `names` its own options, checked."""
    import tiresias.policies  # noqa: F401  (for what it registers)
    from tiresias.core.plugins import OptionError, policies
    from tiresias.sim.options import read_options

    known = {name: [each.name for each in fields(policies.get(name).Options)] for name in names}
    assigned = Assigned({name: {} for name in names})
    for setting in settings:
        if setting.policy and setting.policy not in known:
            raise OptionError(
                f"--set {setting.policy}.{setting.key}: {setting.policy!r} is not among the policies "
                f"given ({', '.join(names)}); add it, or correct the name"
            )
        takers = [setting.policy] if setting.policy else [n for n in names if setting.key in known[n]]
        if not takers:
            raise OptionError(_unknown(setting.key, known))
        for name in takers:
            read_options(name, {setting.key: setting.value})
            values = assigned.spans[name].setdefault(setting.key, [])
            if setting.value not in values:
                values.append(setting.value)
        without = [name for name in names if name not in takers]
        if without and not setting.policy:
            assigned.say(
                f"{setting.key} applies to {', '.join(takers)}; "
                f"{', '.join(without)} {'has' if len(without) == 1 else 'have'} no such option"
            )
    return assigned


def _unknown(key: str, known: Mapping[str, Sequence[str]]) -> str:
    every = sorted({option for options in known.values() for option in options})
    close = get_close_matches(key, every, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    who = "policy " + next(iter(known)) if len(known) == 1 else f"none of {', '.join(known)}"
    verb = "has no option" if len(known) == 1 else "has an option"
    options = f"(options: {', '.join(every)})" if every else "(it takes none)"
    return f"--set {key}: {who} {verb} {key!r}{hint} {options}"


def names_in(text: str, option: str) -> list[str]:
    """The names in a list separated by commas, each once."""
    from tiresias.sim.errors import InputError

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} {text!r} names nothing; separate names by commas")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{option} names {', '.join(twice)} twice; name each once")
    return names
