"""`from tiresias import job` inside a run, whatever environment the run uses; this package has the SDK alone.

If an installation of Tiresias is found elsewhere on the path (the whole, or `tiresias-job`), it takes the
place of this package with all its modules, so that no module of one version meets one of another. The files
and environment variables between a training and its manager are the same in all versions.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def _elsewhere() -> ModuleSpec | None:
    """The specification of another regular package of this name."""
    passed = [os.path.abspath(__file__)]
    path = sys.path[:]
    try:
        while True:
            skipped = [os.path.dirname(os.path.dirname(each)) for each in passed]
            sys.path[:] = [entry for entry in path if os.path.abspath(entry or os.curdir) not in skipped]
            spec = _find()
            if spec is None or spec.origin is None or os.path.abspath(spec.origin) in passed:
                return None
            if not _is_one_of_these(spec.origin):
                return spec
            passed.append(os.path.abspath(spec.origin))
    finally:
        sys.path[:] = path


def _find() -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(__name__, None) if find is not None else None
        if spec is not None and spec.loader is not None and spec.origin:  # not a directory of that name
            return spec
    return None


def _is_one_of_these(origin: str) -> bool:
    """Whether a manager has written this package too: a job may have been submitted from inside another."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(origin))))
    return os.path.isfile(os.path.join(top, "hook", "sitecustomize.py"))


def _step_aside(spec: ModuleSpec) -> None:
    """Let the other package be the one that is imported."""
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    before = sys.modules[__name__]
    sys.modules[__name__] = module
    assert spec.loader is not None
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules[__name__] = before
        raise


_found = _elsewhere()
if _found is not None:
    _step_aside(_found)
