"""Profiles of well-known models by name; their tensors are derived from widths and depths.

    from tiresias.profiles import zoo

    zoo.find("ResNet50").skew

Rules: a profile is built once, when it is first needed. Names are compared without case and punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from math import fsum

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import ModelProfile, Parallelism, Tensor
from tiresias.profiles.zoo import classic, costs, inception, language, recommend, senses
from tiresias.profiles.zoo.sheet import Sheet

__all__ = ["CNNS", "MODELS", "Entry", "find", "names"]


@dataclass(frozen=True, slots=True)
class Entry:
    """How to build a model, and how it is trained."""

    title: str
    build: Callable[[], Sheet]
    batch: int
    parallelism: Parallelism


def _llama(title: str, width: int, depth: int, *, batch: int = 1, **shape: int) -> Entry:
    build = partial(language.llama, width, depth, **shape)
    return Entry(title, build, batch, Parallelism.SHARDED)


def _inner(width: int, stretch: float = 1.0, multiple: int = 256) -> int:
    return language.inner_width(width, stretch, multiple)


def _plain(title: str, batch: int, build: Callable[..., Sheet], *shape: int) -> Entry:
    return Entry(title, partial(build, *shape), batch, Parallelism.ALLREDUCE)


def _cnn(title: str, build: Callable[..., Sheet], *shape: int, batch: int = 32) -> Entry:
    return Entry(title, partial(build, *shape), batch, Parallelism.PS)


CNNS: dict[str, Entry] = {
    "vgg19": _cnn("VGG-19", classic.vgg, 19),
    "vgg16": _cnn("VGG-16", classic.vgg, 16),
    "vgg11": _cnn("VGG-11", classic.vgg, 11),
    "alexnet": _cnn("AlexNet, one tower", classic.alexnet, batch=512),
    "resnet152": _cnn("ResNet-152", classic.resnet, 152),
    "resnet101": _cnn("ResNet-101", classic.resnet, 101),
    "resnet50": _cnn("ResNet-50", classic.resnet, 50),
    "inception4": _cnn("Inception v4", inception.inception4),
    "inception3": _cnn("Inception v3", inception.inception3),
    "googlenet": _cnn("GoogLeNet (Inception v1)", inception.googlenet),
}
"""The ten models of the paper, trained with parameter servers on a P100."""

MODELS: dict[str, Entry] = {
    **CNNS,
    "bert-base": _plain("BERT base, 512 tokens", 16, language.bert, 768, 12),
    "bert-large": _plain("BERT large, 512 tokens", 8, language.bert, 1024, 24),
    "gpt2": _plain("GPT-2 small, 1,024 tokens", 8, language.gpt2, 768, 12),
    "gpt2-medium": _plain("GPT-2 medium, 1,024 tokens", 4, language.gpt2, 1024, 24),
    "gpt2-large": _plain("GPT-2 large, 1,024 tokens", 2, language.gpt2, 1280, 36),
    "gpt2-xl": Entry("GPT-2 XL", partial(language.gpt2, 1600, 48), 2, Parallelism.SHARDED),
    "llama2-7b": _llama(
        "Llama 2 7B", 4096, 32, heads=32, shared_heads=32, vocabulary=32000, inner=_inner(4096)
    ),
    "llama2-13b": _llama(
        "Llama 2 13B", 5120, 40, heads=40, shared_heads=40, vocabulary=32000, inner=_inner(5120)
    ),
    "llama2-70b": _llama(
        "Llama 2 70B", 8192, 80, heads=64, shared_heads=8, vocabulary=32000, inner=_inner(8192, 1.3, 4096)
    ),
    "llama3-8b": _llama(
        "Llama 3 8B", 4096, 32, heads=32, shared_heads=8, vocabulary=128256, inner=_inner(4096, 1.3, 1024)
    ),
    "llama3-70b": _llama(
        "Llama 3 70B", 8192, 80, heads=64, shared_heads=8, vocabulary=128256, inner=_inner(8192, 1.3, 4096)
    ),
    "mixtral-8x7b": _llama(
        "Mixtral 8x7B, 2 of 8 experts per token",
        4096,
        32,
        heads=32,
        shared_heads=8,
        vocabulary=32000,
        inner=_inner(4096, 1.3, 1024),
        experts=8,
        used_experts=2,
    ),
    "vit-b": _plain("ViT-B/16", 64, senses.vit, 768, 12),
    "vit-l": _plain("ViT-L/16", 32, senses.vit, 1024, 24),
    "whisper-tiny": _plain("Whisper tiny", 16, senses.whisper, 384, 4),
    "whisper-base": _plain("Whisper base", 16, senses.whisper, 512, 6),
    "whisper-small": _plain("Whisper small", 16, senses.whisper, 768, 12),
    "whisper-medium": _plain("Whisper medium", 8, senses.whisper, 1024, 24),
    "whisper-large": _plain("Whisper large", 4, senses.whisper, 1280, 32),
    "dlrm": Entry("DLRM, Criteo Kaggle", recommend.dlrm, 2048, Parallelism.PS),
}

ALIASES = {
    "inceptionv3": "inception3",
    "inceptionv4": "inception4",
    "inceptionv1": "googlenet",
    "gpt2small": "gpt2",
    "mixtral": "mixtral-8x7b",
    "vitb16": "vit-b",
    "vitl16": "vit-l",
}


def names() -> list[str]:
    return list(MODELS)


def _plainly(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_KNOWN = {_plainly(name): name for name in MODELS} | ALIASES


def knows(name: str) -> bool:
    """Whether there is such a model."""
    return _plainly(name) in _KNOWN


def find(name: str) -> ModelProfile:
    """The profile of a model by any usual spelling of its name; ProfileError names a similar model."""
    known = _KNOWN.get(_plainly(name))
    if known is None:
        close = get_close_matches(_plainly(name), _KNOWN, n=1)
        hint = f"; did you mean {_KNOWN[close[0]]!r}?" if close else ""
        raise ProfileError(f"no model {name!r}{hint} (known: {', '.join(MODELS)})")
    return _build(known)


@cache
def _build(name: str) -> ModelProfile:
    entry = MODELS[name]
    sheet = entry.build()
    tensors = tuple(sheet.tensors)
    if name in CNNS:
        tensors += (Tensor("global_step", 8, sent=0),)
        compute_s, source = _p100(name, sheet)
        checkpoint_s, resume_s, gpu = costs.CHECKPOINT_S[name], costs.RESUME_S[name], "P100"
    else:
        compute_s = costs.estimated_s(sheet.flops, len(tensors), entry.batch)
        checkpoint_s = resume_s = costs.estimated_checkpoint_s(sheet.parameters)
        gpu = "A100"
        source = f"estimated: arithmetic at {costs.UTILISATION:.0%} of an A100's peak"
    return ModelProfile(
        name=name,
        tensors=tensors,
        compute_s=compute_s,
        gpu=gpu,
        batch=entry.batch,
        parallelism=entry.parallelism,
        checkpoint_s=checkpoint_s,
        resume_s=resume_s,
        layers=tuple(sheet.layers),
        source=source,
    )


def _p100(name: str, sheet: Sheet) -> tuple[float, str]:
    """Seconds of an iteration on a P100, and the source of the figure."""
    known = costs.P100.get(name)
    if known is not None:
        source = f"TensorFlow's published {known.images_per_s:g} images/s on a P100, batch {known.batch}"
        return known.batch / known.images_per_s, source
    relatives = costs.RELATIVES[name]
    rates = [MODELS[each].build().flops * costs.P100[each].images_per_s for each in relatives]
    source = f"estimated: the arithmetic rate of {' and '.join(relatives)} on a P100"
    return MODELS[name].batch * sheet.flops / (fsum(rates) / len(rates)), source
