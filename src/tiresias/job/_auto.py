"""The hook of `--auto`: patches frameworks when a training imports them.

Every Python process of a job with `--auto` calls `install()` when it starts, so this must be quick and must
never make the user's program fail. A module is patched right after it was imported; what is patched is in
the modules of this package that are named after the frameworks.
"""

from __future__ import annotations

import sys

from ._say import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Patch = Callable[[Any], None]


def shield_loader_workers(module: Any) -> None:
    """SIGTERM goes to the whole process group: without this it ends the processes that load data."""
    import functools

    loop = module._worker_loop

    @functools.wraps(loop)  # under the same name, so that it can be pickled for a process that is not forked
    def shielded(*args: Any, **named: Any) -> Any:
        from . import shield

        shield()
        return loop(*args, **named)

    module._worker_loop = shielded


def patch_hugging_face(module: Any) -> None:
    import transformers

    from ._versions import is_known

    if is_known("transformers", transformers.__version__):
        from .hf import wrap

        wrap(module.Trainer, for_all=True)


def patch_lightning(module: Any) -> None:
    package = module.__name__.partition(".")[0]
    from ._versions import is_known

    if is_known(package, sys.modules[package].__version__):
        from .lightning import wrap

        wrap(module.Trainer, for_all=True)


def patch_mlflow(module: Any) -> None:
    from ._trackers import patch_mlflow

    patch_mlflow(module)


def patch_tensorboard(module: Any) -> None:
    from ._trackers import patch_tensorboard

    patch_tensorboard(module)


PATCHES: dict[str, Patch] = {
    "lightning.pytorch.trainer.trainer": patch_lightning,
    "pytorch_lightning.trainer.trainer": patch_lightning,
    "mlflow.tracking.client": patch_mlflow,
    "torch.utils.tensorboard.writer": patch_tensorboard,
    "transformers.trainer": patch_hugging_face,
    "torch.utils.data._utils.worker": shield_loader_workers,
    "torchdata.stateful_dataloader.worker": shield_loader_workers,
}


def install() -> None:
    """Patch what is imported from now on, and what a `sitecustomize` of the user's has imported already."""
    for name, patch in PATCHES.items():
        if name in sys.modules:
            patched(sys.modules[name], patch)
    if not any(isinstance(each, Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def patched(module: ModuleType, patch: Patch) -> None:
    try:
        patch(module)
    except Exception as error:  # noqa: BLE001  (the training must not fail because of us)
        say(f"{module.__name__} is not patched: {type(error).__name__}: {error}")


class Finder:
    """Finds what is to be patched as the other finders do, and patches it once it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        patch = PATCHES.get(name)
        if patch is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                wrap(spec, patch)
                return spec
        return None


def wrap(spec: ModuleSpec, patch: Patch) -> None:
    """Let the loader patch the module after it has executed it."""
    loader: Any = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: ModuleType) -> None:
        execute(module)
        patched(module, patch)

    try:
        loader.exec_module = exec_module  # of this loader alone: it stays of the class that others expect
    except AttributeError as error:
        say(f"{spec.name} is not patched: {error}")
