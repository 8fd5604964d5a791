"""The process in which `module:function` runs: it builds the model on the meta device and lists its tensors.

    python -m tiresias.profiles.readers.function_child MODULE FUNCTION ANSWER

ANSWER is a JSON file with the tensors, or with an error. The function runs in its own process so that
whatever it does (print, exit, use up all memory) becomes an error and does no harm.
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

    def write_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Answer with the exception and the line of the user's code that raised it."""
        frames = [frame for frame in traceback.extract_tb(trace) if _is_theirs(frame.filename)]
        where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        text = " ".join(str(error).split()) or "no message"
        Path(answer).write_text(json.dumps({"error": f"{kind.__name__}: {text}{where}"}), encoding="utf-8")

    sys.excepthook = write_error
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
    """Whether it is a file of the user: neither this file nor a part of the interpreter."""
    return file != __file__ and not file.startswith("<")


def _tensors(torch: Any, model: Any) -> list[tuple[str, int, bool]]:
    """(name, bytes, whether it is trained) of each tensor."""
    if isinstance(model, torch.nn.Module):
        named = [*model.named_parameters(), *model.named_buffers()]
    elif isinstance(model, dict) and all(isinstance(each, torch.Tensor) for each in model.values()):
        named = list(model.items())
    else:
        raise TypeError(f"it returned {type(model).__name__}; return a torch.nn.Module or a state_dict")
    tensors = []
    for name, each in named:
        is_trained = each.is_floating_point() if isinstance(model, dict) else each.requires_grad
        tensors.append((str(name), each.numel() * each.element_size(), is_trained))
    return tensors


if __name__ == "__main__":
    main()
