"""Encoding of facts, jobs and nodes as JSON, without loss; each fact is stored with its kind and version.

Rules:
- How a class is encoded follows from the types of its fields. A new kind of fact needs no code here, as long
  as its fields are numbers, strings, enums, tuples, lists or dataclasses of these. Any other type is refused
  when this module is imported.
- A field that earlier versions did not have (`model.later`) is left out where it has its default, so that
  what does not use it is stored as it always was.
- Floats keep every bit. What JSON cannot hold (nan, infinities) is refused before anything is written.
- A stored fact of an older version goes through the upgraders of its kind, one version at a time. A fact of a
  newer version or of an unknown kind is refused.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from tiresias.core import facts as f
from tiresias.core.model import Job, Node
from tiresias.store.errors import CodecError

Converter = Callable[[Any], Any]
Body = dict[str, Any]
Upgrader = Callable[[Body], Body]

# ASCII only, so that surrogates (bytes of an environment that are not UTF-8) survive.
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_PLAIN = (int, float, str, bool, NoneType, Any)


def _make_encode() -> Callable[[Any], str]:
    """`_encoder.encode`, which makes a C encoder for every call; this one is made once."""
    make = json.encoder.c_make_encoder  # type: ignore[attr-defined]
    if make is None:
        return _encoder.encode
    text = json.encoder.encode_basestring_ascii
    encode = make(None, _encoder.default, text, None, ":", ",", False, False, False)
    return lambda value: "".join(encode(value, 0))


_encode = _make_encode()


def dump(value: Any) -> str:
    """Compact JSON of any value; CodecError if JSON cannot hold it."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"JSON cannot hold this value ({error}): {str(value)[:200]}") from None


_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def load(text: str) -> Any:
    """The value of a JSON text, as `json.loads` returns it; faster for texts that `dump` has made."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else json.loads(text)


class Codec:
    """Converts one class to and from a JSON object."""

    def __init__(self, cls: type):
        self.cls = cls
        hints = get_type_hints(cls)
        self._fields = [(field.name, *_converters(hints[field.name])) for field in fields(cls)]
        self._encoders = [(name, encode) for name, encode, _ in self._fields if encode is not None]
        self._in_order = tuple(name for name, _, _ in self._fields)
        self._values = attrgetter(*self._in_order) if len(self._fields) > 1 else None
        self._decoders = [(name, decode) for name, _, decode in self._fields if decode is not None]
        later = [each.name for each in fields(cls) if each.metadata.get("later")]
        assert not later or later == list(self._in_order)[-len(later) :], ("later fields come last", cls)
        self._listed = list(self._in_order)[: len(self._in_order) - len(later)]
        self._decoders_at = [
            (place, decode)
            for place, (name, _, decode) in enumerate(self._fields)
            if decode is not None and name not in later
        ]
        assert all(field.init and not field.kw_only for field in fields(cls)), ("made by position", cls)
        self._names = frozenset(name for name, _, _ in self._fields)
        self._later = [(each.name, each.default) for each in fields(cls) if each.metadata.get("later")]
        self._needed = frozenset(
            field.name
            for field in fields(cls)
            if field.default is MISSING and field.default_factory is MISSING
        )

    def encode(self, value: Any) -> Body:
        if self._values is None:
            body = {name: getattr(value, name) for name in self._in_order}
        else:
            body = dict(zip(self._in_order, self._values(value), strict=True))
        for name, encode in self._encoders:
            body[name] = encode(body[name])
        for name, default in self._later:
            if body[name] == default:
                del body[name]
        return body

    def decode(self, body: Body) -> Any:
        if list(body) == self._listed:  # as `encode` mostly writes it: several times as fast
            values = list(body.values())
            try:
                for place, decode in self._decoders_at:
                    values[place] = decode(values[place])
                return self.cls(*values)
            except (TypeError, ValueError) as error:
                raise self._unreadable(error, body) from None
        return self._decode_by_name(body)

    def _decode_by_name(self, body: Body) -> Any:
        """Decode what an earlier version wrote, which had other fields or another order."""
        given = body.keys()
        if not self._needed <= given <= self._names:
            lacks, odd = sorted(self._needed - given), sorted(given - self._names)
            raise CodecError(
                f"a stored {self.cls.__name__} lacks {lacks} and has unknown fields {odd}: {body}"
            )
        values = dict(body)
        try:
            for name, decode in self._decoders:
                if name in values:
                    values[name] = decode(values[name])
            return self.cls(**values)
        except (TypeError, ValueError) as error:
            raise self._unreadable(error, body) from None

    def _unreadable(self, error: Exception, body: Body) -> CodecError:
        return CodecError(f"a stored {self.cls.__name__} cannot be read ({error}): {body}")


def _converters(kind: Any) -> tuple[Converter | None, Converter | None]:
    """The functions that encode and decode a field of this type; None if JSON has the type itself."""
    if isinstance(kind, NewType):
        return _converters(kind.__supertype__)
    if kind in _PLAIN:
        return None, None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return (lambda member: member.value), _member_of(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        codec = Codec(kind)
        return codec.encode, codec.decode
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType) and NoneType in args and len(args) == 2:
        encode, decode = _converters(args[0] if args[1] is NoneType else args[1])
        return _unless_none(encode), _unless_none(decode)
    if origin in (tuple, list):
        items = _converters(args[0])
        if all(arg is ... or arg == args[0] or _converters(arg) == items for arg in args):
            return _each(items[0], list), _each(items[1], origin)
    if kind is dict or (origin is dict and args[0] is str and _converters(args[1]) == (None, None)):
        return None, None
    raise CodecError(f"a field of type {kind!r} cannot be stored; add the type to store/codec.py")


def _member_of(kind: type[Enum]) -> Converter:
    """`kind` itself, which takes several times as long to find a member by its value."""
    members = {member.value: member for member in kind}

    def decode(value: Any) -> Any:
        try:
            return members[value]
        except (KeyError, TypeError):
            return kind(value)

    return decode


def _unless_none(convert: Converter | None) -> Converter | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _each(convert: Converter | None, sequence: type) -> Converter:
    if convert is None:
        return sequence
    return lambda values: sequence([convert(value) for value in values])


FACTS: dict[str, Codec] = {kind.__name__: Codec(kind) for kind in get_args(f.Fact)}
JOB = Codec(Job)
NODE = Codec(Node)

UPGRADERS: dict[tuple[str, int], Upgrader] = {}
"""By (kind, version): what turns a body into one of the next version; absent if the kind did not change."""


def upgrades(kind: str, version: int) -> Callable[[Upgrader], Upgrader]:
    """Register the function that turns a body of this kind and version into one of the next version."""

    def register(upgrader: Upgrader) -> Upgrader:
        assert (kind, version) not in UPGRADERS, ("two upgraders", kind, version)
        UPGRADERS[kind, version] = upgrader
        return upgrader

    return register


def encode_fact(fact: f.Fact) -> tuple[str, int, str]:
    """The kind, the version and the JSON body of a fact."""
    kind = type(fact).__name__
    try:
        codec = FACTS[kind]
    except KeyError:
        raise CodecError(f"{kind} is not a kind of fact, so it cannot be stored: {fact!r}") from None
    return kind, f.VERSION, dump(codec.encode(fact))


def decode_fact(kind: str, version: int, body: str) -> f.Fact:
    """The stored fact, upgraded to the present version."""
    if version > f.VERSION:
        raise CodecError(
            f"a stored {kind} has version {version}, and this Tiresias knows versions up to {f.VERSION}:"
            " use the Tiresias that wrote it, or a later one"
        )
    values: Body = _parse(body)
    for older in range(version, f.VERSION):
        upgrader = UPGRADERS.get((kind, older))
        if upgrader is not None:
            values = upgrader(values)
    codec = FACTS.get(kind)
    if codec is None:
        known = ", ".join(sorted(FACTS))
        raise CodecError(f"a stored fact is of the unknown kind {kind!r} (known: {known}): {body[:200]}")
    fact: f.Fact = codec.decode(values)
    return fact


def encode_job(job: Job) -> str:
    return dump(JOB.encode(job))


def decode_job(body: str) -> Job:
    job: Job = JOB.decode(_parse(body))
    return job


def _parse(body: str) -> Any:
    try:
        return load(body)
    except ValueError as error:
        raise CodecError(f"stored text is not JSON ({error}): {body[:200]}") from None
