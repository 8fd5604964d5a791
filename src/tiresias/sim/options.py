"""Options of policies as users write them: `@FILE` stands for the text of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiresias.core.plugins import Policy, parse_options, policies
from tiresias.sim.errors import InputError


def read_options(policy: str, given: Mapping[str, Any]) -> Any:
    """The Options of the named policy, with the text of files in place of `@FILE`."""
    return parse_options(policies.get(policy), {key: _text(key, value) for key, value in given.items()})


def make_policy(name: str, given: Mapping[str, Any] | None = None) -> Policy:
    """The named policy with these options."""
    made: Policy = policies.get(name)(read_options(name, given or {}))
    return made


def _text(key: str, value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    path = Path(value[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"{key}={value}: cannot read {str(path)!r}: {reason}") from None
