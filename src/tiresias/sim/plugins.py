"""Plug-ins of users: files or modules that register policies and placers when they are imported.

Their list is kept in the environment (TIRESIAS_PLUGINS), so that worker processes load the same ones.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tiresias.core.plugins import OptionError
from tiresias.sim.errors import InputError

VARIABLE = "TIRESIAS_PLUGINS"


def use_plugins(names: Sequence[str]) -> None:
    """Load these here and in every process that is started from now on; each is a .py file or a module."""
    given = [str(Path(name).resolve()) if name.endswith(".py") else name for name in names]
    known = plugin_names()
    os.environ[VARIABLE] = os.pathsep.join([*known, *(name for name in given if name not in known)])
    load_plugins()


def plugin_names() -> list[str]:
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


def load_plugins() -> None:
    """Import the plug-ins that the environment names, unless they are imported already."""
    for name in plugin_names():
        try:
            _load_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
        except (InputError, OptionError):
            raise
        except FileNotFoundError:
            raise InputError(f"plugin {name!r}: there is no such file") from None
        except ModuleNotFoundError as error:
            raise InputError(f"plugin {name!r}: {error}; give a .py file or an importable module") from None
        except Exception as error:  # noqa: BLE001  (code of the user, which may raise anything)
            raise InputError(f"plugin {name!r} does not load: {type(error).__name__}: {error}") from None


def _load_file(path: Path) -> None:
    module_name = f"tiresias_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if module_name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"plugin {str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise


def plugin_digests() -> list[str]:
    """What identifies the plug-ins in use: their names, and a digest of those that are files."""
    return [
        f"{name}:{hashlib.sha256(Path(name).read_bytes()).hexdigest()}" if name.endswith(".py") else name
        for name in plugin_names()
    ]
