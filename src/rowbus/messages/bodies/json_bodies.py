"""JSON as System.Text.Json and Newtonsoft read it, and as they write it.

Decimals are numbers with all their digits, spans .NET's text, bytes base64; NaN and the infinities are refused.

Invariant: a body is data; type names in it (`$type`) are never looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import inspect

from rowbus.messages.bodies.fit import maker
from rowbus.messages.bodies.plain import plain
from rowbus.messages.bodies.readability import refuse_unreadable
from rowbus.messages.bodies.serializer import Read
from rowbus.messages.bodies.shape import (
    AS_THEY_ARE,
    Convention,
    Names,
    checked_convention,
    has_models,
    is_model,
    keys_within,
    may_choose_an_enum,
    types_within,
    writes_its_names,
)
from rowbus.running.bounded import MOST

JSON: Final = "application/json"
JSON_TYPES: Final = re.compile(r"(application|text)/(\S+\+)?json\b")
"""Matches content types that are JSON."""
NAMES: Final = "__rowbus_names__"
"""The attribute in which a declared class keeps the convention of its fields' names."""

_BOM: Final = b"\xef\xbb\xbf"
_LONG_FRACTION: Final = re.compile(rb":[0-9]{2}\.[0-9]{7}")
_NUMBER_AS_KEY: Final = re.compile(rb"[{,]-?[0-9][0-9.E+-]*:")  # a Decimal's, which is no JSON
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode
_decode_exactly: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_HARMLESS: Final = {
    inspect.StrType,
    inspect.IntType,
    inspect.BoolType,
    inspect.NoneType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.UUIDType,
    inspect.EnumType,
    inspect.BytesType,
    inspect.ListType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.TupleType,
    inspect.VarTupleType,
    inspect.DictType,
    inspect.UnionType,
    inspect.DataclassType,
    inspect.StructType,
    inspect.LiteralType,
    inspect.TypedDictType,
    inspect.NamedTupleType,
}
_KEYS_AS_TEXT: Final = {inspect.DecimalType, inspect.TimeDeltaType}  # msgspec writes a number, or ISO 8601
_PYDANTIC_DIFFERS: Final = {inspect.DecimalType, inspect.TimeDeltaType, inspect.BytesType, inspect.FloatType}
Encode = Callable[[Any], bytes]


class Json:
    """JSON bodies: a serializer.

    `rename` says what the fields of classes are called that do not say it themselves (`order_id`): "pascal" (`OrderId`,
    as in .NET), "camel" (`orderId`), None: as in Python. With `ignore_case` names are found in any case.
    """

    content_types = (JSON, "text/json")

    def __init__(self, *, rename: Convention | None = None, ignore_case: bool = False) -> None:
        """Take the names' convention. Raises ConfigurationError for another."""
        checked_convention(rename)
        self._names = Names(rename, ignore_case)

    def __repr__(self) -> str:
        """Show it as the call that makes its like."""
        return f"Json(rename={self._names.rename!r}, ignore_case={self._names.ignore_case!r})"

    def write(self, message: object, types: tuple[str, ...] = (), /) -> bytes:  # noqa: ARG002 - the protocol's
        """Return an object as JSON; raises TypeError or ValueError for what has none."""
        kind: type = type(message)
        return encoder(kind, self.names_of(kind))(message)

    def reader(self, kind: type, /) -> Read:
        """Return what reads bodies as a dataclass, struct, pydantic model, dict or anything (object)."""
        names = self.names_of(kind)
        refuse_unreadable(kind, names)
        return _reader_of_model(kind, names) if is_model(kind) else _reader(kind, names)

    def names_of(self, kind: type) -> Names:
        """Return how a class's fields are named: as it declares, else as the serializer does."""
        declared: Convention | None = getattr(kind, "__dict__", {}).get(NAMES)
        return self._names if declared is None else self._names._replace(rename=declared)


@lru_cache(maxsize=MOST)
def encoder(kind: type, names: Names) -> Encode:
    """Return what writes objects of a class as JSON."""

    def carefully(message: object) -> bytes:
        return _encode(plain(message, names))

    def quickly(message: object) -> bytes:
        try:
            body = _encode(message)
        except TypeError:  # what has no JSON at all
            return carefully(message)
        return carefully(message) if _is_doubtful(body) else body

    within, keys, is_mapping = types_within(kind), keys_within(kind), issubclass(kind, Mapping)
    if is_model(kind):
        if names.rename is None and within <= _OF_MODELS and writes_its_names(kind):
            return lambda model: model.model_dump_json().encode()
        return carefully
    if is_mapping:
        return lambda message: carefully(message) if _NUMBER_AS_KEY.search(body := quickly(message)) else body
    if names.rename is not None or has_models(kind) or not keys.isdisjoint(_KEYS_AS_TEXT):
        return carefully
    return _encode if within <= _HARMLESS else quickly


def _is_doubtful(body: bytes) -> bool:
    """Say whether this body may hold a value that .NET writes in another way, or cannot write."""
    # No loop, which takes four times as long.
    return b'"P' in body or b'"-P' in body or b"null" in body or b"NaN" in body or b"Infinity" in body


_OF_MODELS: Final = (_HARMLESS | {inspect.CustomType}) - _PYDANTIC_DIFFERS


def _reader(kind: Any, names: Names) -> Read:  # noqa: ANN401 - any class with fields, or dict
    target = dict[str, Any] if kind is dict else kind
    decode = msgspec.json.Decoder(target).decode
    if kind is dict or kind is object:
        return lambda body: decode(body.removeprefix(_BOM))
    make = maker(target, names)
    has_times = not types_within(kind).isdisjoint({inspect.DateTimeType, inspect.TimeType})

    def carefully(body: bytes) -> object:
        return make(_decode_exactly(body))

    def quickly(body: bytes) -> object:
        body = body.removeprefix(_BOM)
        if has_times and _LONG_FRACTION.search(body):
            return carefully(body)
        try:
            return decode(body)
        except msgspec.ValidationError:
            try:
                return carefully(body)
            except ValueError:
                pass
            raise

    if names == AS_THEY_ARE and not has_models(kind):
        return quickly
    return lambda body: carefully(body.removeprefix(_BOM))


def _reader_of_model(kind: Any, names: Names) -> Read:  # noqa: ANN401 - pydantic is not imported
    make = maker(kind, names)
    differs = not types_within(kind).isdisjoint(_PYDANTIC_DIFFERS - {inspect.FloatType})
    plainly = names == AS_THEY_ARE and not differs and not may_choose_an_enum(kind)

    def carefully(body: bytes) -> object:
        return make(_decode_exactly(body))

    def quickly(body: bytes) -> object:
        body = body.removeprefix(_BOM)
        try:
            return kind.model_validate_json(body)
        except ValueError:
            try:
                return carefully(body)
            except ValueError:
                pass
            raise

    return quickly if plainly else lambda body: carefully(body.removeprefix(_BOM))


def reason_not_json(body: str | bytes) -> str | None:
    """Say why a text that a person wrote is no JSON; None for one that is."""
    try:
        json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON's")
