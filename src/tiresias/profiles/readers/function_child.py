"""The process that `module:function` runs in: builds the model on the meta device and writes what it is.

    python -m tiresias.profiles.readers.function_child MODULE FUNCTION ANSWER

The answer is a file of JSON: tensors, or what went wrong. It is a process of its own so that whatever the
function does (prints, exits, takes all memory) is told as an error and harms nobody.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any


def main() -> None:
    module, name, answer = sys.argv[1:]

    def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """An exception is an answer too; where it was raised helps to find it."""
        frames = [frame for frame in traceback.extract_tb(trace) if _is_theirs(frame.filename)]
        where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        text = " ".join(str(error).split()) or "no message"
        Path(answer).write_text(json.dumps({"error": f"{kind.__name__}: {text}{where}"}), encoding="utf-8")

    sys.excepthook = told
    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError("PyTorch is not installed; pip install torch")
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    torch = importlib.import_module("torch")
    with torch.device("meta"):
        model = function()
    Path(answer).write_text(json.dumps({"tensors": _tensors(torch, model)}), encoding="utf-8")


def _is_theirs(file: str) -> bool:
    """Not this file, nor the inside of the interpreter."""
    return file != __file__ and not file.startswith("<")


def _tensors(torch: Any, model: Any) -> list[tuple[str, int, bool]]:
    """Names, bytes, and whether they are trained."""
    if isinstance(model, torch.nn.Module):
        named = [*model.named_parameters(), *model.named_buffers()]
    elif isinstance(model, dict) and all(isinstance(each, torch.Tensor) for each in model.values()):
        named = list(model.items())
    else:
        raise TypeError(f"it returned {type(model).__name__}; return a torch.nn.Module or a state_dict")
    told = []
    for name, each in named:
        is_trained = each.is_floating_point() if isinstance(model, dict) else each.requires_grad
        told.append((str(name), each.numel() * each.element_size(), is_trained))
    return told


if __name__ == "__main__":
    main()
