"""A profile as JSON text, as `tiresias profile --save` writes it and `submit --profile` reads it.

Rules: what is not known is left out. An unknown key, a missing key and an impossible value are errors that
name the file and the key. `skew` is written for people who look at the file, and ignored when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import Cut, Layer, ModelProfile, Parallelism, Tensor

FORMAT = 1
OPTIONAL = ("compute_s", "gpu", "batch", "checkpoint_s", "resume_s", "unseen_bytes", "source")
KEYS = ("format", "name", "parallelism", "tensors", "layers", "cut", *OPTIONAL, "total_bytes", "skew")
TENSOR_KEYS = ("name", "bytes", "sent")
LAYER_KEYS = ("name", "kind", "tensors", "output_bytes", "flops")
MOST = 1 << 60
"""The largest size, count or time that is accepted, so that later arithmetic cannot overflow."""
T = TypeVar("T")
Maker = Callable[[dict[str, Any], str], T]
CUT_KEYS = ("layer", "tensors", "activation_bytes", "tail_share")


def as_dict(profile: ModelProfile) -> dict[str, Any]:
    """The profile as the JSON object that is stored."""
    fields: dict[str, Any] = {
        "format": FORMAT,
        "name": profile.name,
        "parallelism": profile.parallelism.value,
        "total_bytes": profile.total_bytes,
        "skew": profile.skew,
    }
    for key in OPTIONAL:
        value = getattr(profile, key)
        if value not in (None, "", 0):
            fields[key] = value
    fields["tensors"] = [
        {"name": each.name, "bytes": each.bytes} | ({} if each.sent is None else {"sent": each.sent})
        for each in profile.tensors
    ]
    if profile.layers:
        fields["layers"] = [asdict(each) for each in profile.layers]
    if profile.cut:
        fields["cut"] = asdict(profile.cut)
    return fields


def to_json(profile: ModelProfile) -> str:
    return json.dumps(as_dict(profile), indent=1) + "\n"


def from_json(text: str, place: str) -> ModelProfile:
    """The profile in the text of a file; `place` is its name in errors."""
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise ProfileError(f"{place}: not JSON: {error}") from None
    except RecursionError:
        raise ProfileError(f"{place}: not a profile: nested too deeply") from None
    top = _mapping(tree, place, KEYS)
    if top.get("format") != FORMAT:
        raise ProfileError(f"{place}: format {top.get('format')!r} is not known; this version reads {FORMAT}")
    known: dict[str, Any] = {key: top[key] for key in OPTIONAL if key in top}
    for key in ("compute_s", "checkpoint_s", "resume_s"):
        if key in known:
            known[key] = _number(known[key], f"{place}: {key}")
    for key in ("batch", "unseen_bytes"):
        if key in known:
            known[key] = _whole(known[key], f"{place}: {key}")
    for key in ("gpu", "source"):
        if key in known:
            known[key] = _text(known[key], f"{place}: {key}")
    cut = _made(top["cut"], f"{place}: cut", CUT_KEYS, _cut) if "cut" in top else None
    try:
        profile = ModelProfile(
            name=_text(_get(top, "name", place), f"{place}: name"),
            tensors=tuple(_all(top.get("tensors", []), f"{place}: tensors", TENSOR_KEYS, _tensor)),
            parallelism=_parallelism(_get(top, "parallelism", place), f"{place}: parallelism"),
            layers=tuple(_all(top.get("layers", []), f"{place}: layers", LAYER_KEYS, _layer)),
            cut=cut,
            **known,
        )
    except ProfileError as error:
        message = str(error)
        raise ProfileError(message if message.startswith(place) else f"{place}: {message}") from None
    return _checked(profile, top, place)


def _checked(profile: ModelProfile, top: dict[str, Any], place: str) -> ModelProfile:
    total = top.get("total_bytes", profile.total_bytes)
    if total != profile.total_bytes:
        raise ProfileError(
            f"{place}: total_bytes is {total!r}, but the sum of its tensors is {profile.total_bytes}; "
            f"correct one of them, or leave total_bytes out"
        )
    cut = profile.cut
    if cut and not (0 < cut.layer < len(profile.layers) and 0 <= cut.tensors <= len(profile.tensors)):
        raise ProfileError(f"{place}: cut: layer {cut.layer} and {cut.tensors} tensors are not in the model")
    return profile


def _tensor(item: dict[str, Any], place: str) -> Tensor:
    sent = _whole(item["sent"], f"{place}.sent") if "sent" in item else None
    return Tensor(_text(_get(item, "name", place), f"{place}.name"), _count(item, "bytes", place), sent)


def _layer(item: dict[str, Any], place: str) -> Layer:
    return Layer(
        _text(_get(item, "name", place), f"{place}.name"),
        _text(_get(item, "kind", place), f"{place}.kind"),
        _count(item, "tensors", place),
        _count(item, "output_bytes", place),
        _number(_get(item, "flops", place), f"{place}.flops"),
    )


def _cut(item: dict[str, Any], place: str) -> Cut:
    share = _number(_get(item, "tail_share", place), f"{place}.tail_share")
    if share > 1:
        raise ProfileError(f"{place}.tail_share: {share} is more than all of the compute time")
    layer, tensors, crossing = (_count(item, key, place) for key in ("layer", "tensors", "activation_bytes"))
    return Cut(layer, tensors, crossing, share)


def _all(value: Any, place: str, keys: tuple[str, ...], make: Maker[T]) -> list[T]:
    if not isinstance(value, list):
        raise ProfileError(f"{place}: must be a list, not {_shown(value)}")
    return [_made(item, f"{place}[{number}]", keys, make) for number, item in enumerate(value)]


def _made(value: Any, place: str, keys: tuple[str, ...], make: Maker[T]) -> T:
    return make(_mapping(value, place, keys), place)


def _mapping(value: Any, place: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        keys = ", ".join(known)
        raise ProfileError(f"{place}: must be an object with the keys {keys}, not {_shown(value)}")
    for key in value:
        if key not in known:
            raise ProfileError(f"{place}: unknown key {key!r}; known keys: {', '.join(known)}")
    return value


def _get(item: dict[str, Any], key: str, place: str) -> Any:
    if key not in item:
        raise ProfileError(f"{place}: missing key {key!r}")
    return item[key]


def _count(item: dict[str, Any], key: str, place: str) -> int:
    return _whole(_get(item, key, place), f"{place}.{key}")


def _whole(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise ProfileError(f"{place}: {_shown(value)} is not a whole number from 0 up")
    return value


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise ProfileError(f"{place}: {_shown(value)} is not a number from 0 up")
    return float(value)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or (place.endswith("name") and not value):
        raise ProfileError(f"{place}: {_shown(value)} is not a text")
    return value


def _parallelism(value: Any, place: str) -> Parallelism:
    try:
        return Parallelism(value)
    except ValueError:
        known = ", ".join(Parallelism)
        raise ProfileError(f"{place}: {_shown(value)} is not known; it is one of {known}") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
