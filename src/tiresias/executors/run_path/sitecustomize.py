"""The hook of `--auto`: every Python process of such a job imports this when it starts.

It lets a `sitecustomize` of the user's own run first, and then prepares the patches. Nothing here may make
the user's program fail, and any version of Python must be able to read this file.
"""

import os
import sys


def _chain():
    # type: () -> None
    """Run the module that would have been imported without this one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    spec = PathFinder.find_spec(__name__, path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    ours = sys.modules[__name__]
    sys.modules[__name__] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules[__name__] = ours  # site reports what is wrong with it, as it always does
        raise


def _prepare():
    # type: () -> None
    if sys.version_info < (3, 8) or os.environ.get("TIRESIAS_AUTO") != "1":
        return
    if not os.environ.get("TIRESIAS_RUN_DIR"):
        return
    try:
        from tiresias.job import _auto
    except Exception as error:  # noqa: BLE001
        where = getattr(sys.modules.get("tiresias"), "__file__", "?")
        sys.stderr.write(
            "tiresias: --auto does nothing: the tiresias of this environment (%s) has no part for it (%s);"
            " upgrade or remove it\n" % (where, error)
        )
        return
    _auto.install()


if "_tiresias_hook" not in sys.modules:  # else a job was submitted from inside another, and has two of these
    sys.modules["_tiresias_hook"] = sys.modules[__name__]
    try:
        if sys.version_info >= (3, 4):
            _chain()
    finally:
        _prepare()
