"""job.yaml: a job as a file. Its keys are the options of the command line, alone or in groups.

Rules: an unknown key is an error that names the nearest one, because a misspelt limit without effect is worse
than none. `params` gives `{name}` in the command a value; `--set` changes any key or parameter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tiresias.cli.errors import Stop
from tiresias.cli.live.job_options import Given, JobOptions, value_of
from tiresias.spec.job import BY_KEY
from tiresias.spec.options import Form

FILE_OPTIONS = {option.file_key: option for option in BY_KEY.values() if option.key != "set"}
GROUPED = {option.in_group: option.file_key for option in FILE_OPTIONS.values() if option.in_group}
GROUPS = tuple(dict.fromkeys(key.partition(".")[0] for key in GROUPED))
KEYS = ("command", *FILE_OPTIONS, "params")
_SHELL = re.compile(r"[\n|&;<>()$`*?\[\]~#!]")


@dataclass(slots=True)
class JobFile:
    """The job that a file describes."""

    command: list[str]
    options: JobOptions
    parameters: dict[str, str] = field(default_factory=dict)


def read(path: Path, overrides: Sequence[str]) -> JobFile:
    """The job in a YAML file, changed by every `--set`."""
    import yaml

    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise Stop(f"{path} is not text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise Stop(f"{path}{where}: {getattr(error, 'problem', None) or 'is not YAML'}") from None
    if not isinstance(body, dict):
        raise Stop(f"{path}: this is not a job; write keys such as `command:` and `gpus:`")
    flat = _flat(body, str(path))
    parameters = {key: _text(value) for key, value in _map(flat, "params", str(path)).items()}
    for text in overrides:
        _override(flat, parameters, text)
    return JobFile(_command(flat, str(path)), _options(flat, str(path)), parameters)


def _flat(body: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Every key under the name of its option, also those in groups."""
    flat: dict[str, Any] = {}
    for key, value in body.items():
        name = str(key).replace("-", "_")
        if name in GROUPS:
            if not isinstance(value, dict):
                raise Stop(f"{where}: {name}: this is a group of keys, for example {_example(name)}")
            for inner, each in value.items():
                _put(flat, f"{name}.{str(inner).replace('-', '_')}", each, where)
        else:
            _put(flat, name, value, where)
    return flat


def _put(flat: dict[str, Any], name: str, value: Any, where: str) -> None:
    known = GROUPED.get(name) or (name if name in KEYS else None)
    if known is None:
        every = [*KEYS, *GROUPED]
        close = get_close_matches(name, every, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"the keys are {', '.join(every)}"
        raise Stop(f"{where}: there is no key {name!r}; {hint}")
    if known in flat:
        raise Stop(f"{where}: {known} is given twice; keep one of them")
    flat[known] = value


def _example(group: str) -> str:
    return next(name for name in GROUPED if name.startswith(f"{group}."))


def _override(flat: dict[str, Any], parameters: dict[str, str], text: str) -> None:
    key, equals, value = text.partition("=")
    name = key.strip().replace("-", "_")
    if not equals or not name:
        raise Stop(f"--set {text!r} is not understood; write key=value")
    whole, _, inner = name.partition(".")
    if name in GROUPED or name in KEYS:
        flat[GROUPED.get(name, name)] = _yaml_value(value)
    elif whole in ("env", "params") and inner:
        inner = key.strip().partition(".")[2]
        if whole == "env":
            flat["env"] = {**_map(flat, "env", "--set"), inner: value}
        else:
            parameters[inner] = value
    elif key.strip() in parameters or f"{{{key.strip()}}}" in str(flat.get("command")):
        parameters[key.strip()] = value
    else:
        close = get_close_matches(name, [*KEYS, *GROUPED, *parameters], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise Stop(f"--set {text!r}: there is no key or parameter {key.strip()!r} in the file{hint}")


def _yaml_value(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _command(flat: dict[str, Any], where: str) -> list[str]:
    command = flat.pop("command", None)
    if isinstance(command, list) and command and all(isinstance(word, str | int | float) for word in command):
        return [_text(word) for word in command]
    if not isinstance(command, str) or not command.strip():
        raise Stop(f"{where}: `command:` is missing or empty; give it as text or as a list of words")
    if _SHELL.search(command.strip()):
        return ["bash", "-c", command]
    try:
        return shlex.split(command)
    except ValueError as error:
        raise Stop(f"{where}: command: {error}") from None


def _options(flat: dict[str, Any], where: str) -> JobOptions:
    given = {
        FILE_OPTIONS[name].key: _given(name, value, flat, where)
        for name, value in flat.items()
        if value is not None and name != "params"
    }
    return JobOptions.of(**given)


def _given(name: str, value: Any, flat: dict[str, Any], where: str) -> Given:
    """The value of a key as the command line would give it, checked where that is possible here."""
    option = FILE_OPTIONS[name]
    if option.form is Form.VALUES:
        return [f"{key}={_list(each)}" for key, each in _map(flat, name, where).items()]
    if option.is_switch:
        if not isinstance(value, bool):
            raise Stop(f"{where}: {name} {value!r}: give true or false")
        return value == option.flag_value
    if isinstance(value, dict | list) and name not in ("after", "afterany", "afternotok"):
        raise Stop(f"{where}: {name}: give one value, not several")
    text = _list(value)
    if not option.is_resolved:
        value_of(option, text, f"{where}: {name}")
    return text


def _map(flat: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = flat.get(name) or {}
    if not isinstance(found, dict):
        raise Stop(f"{where}: {name}: give names and values, as in `{name}: {{lr: 0.1}}`")
    return {str(key): value for key, value in found.items()}


def _list(value: Any) -> str:
    return ",".join(map(_text, value)) if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
