"""Message objects as plain values: what is left for an encoder are dictionaries, lists, text, numbers and the like.

Spans become .NET's text, fields get their names by convention, and what JSON has no number for is refused.

Invariant: the object is not changed.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final

import msgspec

from rowbus.messages.bodies.shape import (
    AS_THEY_ARE,
    Names,
    fields_of,
    is_items,
    is_mapping,
    is_model,
    is_object,
    kind_of,
)
from rowbus.messages.timestamps import format_time_span

_NAMES_OF_FLOATS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(value: Any, names: Names) -> Any:  # noqa: ANN401, PLR0911 - any value, one answer for each kind
    """Return a value as an encoder takes it; raises ValueError for numbers that are none."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, Decimal)):
        return finite(value, names)
    if isinstance(value, timedelta):
        return format_time_span(value)
    if is_mapping(value):
        return {_key(key): plain(item, names) for key, item in value.items()}
    if is_items(value) and not hasattr(value, "__struct_fields__"):
        return [plain(item, names) for item in value]
    if isinstance(value, msgspec.Struct):
        return _struct(value, names)
    if is_model(kind_of(value)):
        return _model(value, names)
    if dataclasses.is_dataclass(value):
        return _attributes(value, names)
    return value


def finite(number: float | Decimal, names: Names = AS_THEY_ARE) -> float | Decimal | str:
    """Return a number that JSON can hold, or the name of one; raises ValueError for NaN and infinities without."""
    if math.isfinite(number):
        return number
    if names.names_floats and isinstance(number, float):
        return _NAMES_OF_FLOATS[str(number)]
    raise ValueError(f"{number} is no number that JSON can hold")


def _key(key: Any) -> Any:  # noqa: ANN401
    return format_time_span(key) if isinstance(key, timedelta) else key


def _attributes(value: Any, names: Names) -> dict[str, Any]:  # noqa: ANN401
    found: dict[str, Any] = {}
    kind: type = kind_of(value)
    for field in fields_of(kind) or ():
        item = getattr(value, field.attribute, msgspec.UNSET)
        if item is not msgspec.UNSET:
            name = field.name if field.is_named else names.written(field.attribute)
            found[name] = plain(item, names)
    return found


def _struct(value: msgspec.Struct, names: Names) -> Any:  # noqa: ANN401 - a dictionary, or a list
    config = value.__struct_config__
    if config.array_like or config.omit_defaults:  # rare, and msgspec's own affair
        return plain(msgspec.to_builtins(value, builtin_types=(timedelta, Decimal)), names)
    tag = {} if config.tag is None else {config.tag_field: config.tag}
    return {**tag, **_attributes(value, names)}


def _model(model: Any, names: Names) -> Any:  # noqa: ANN401
    """Dump a model by pydantic, in JSON's forms but for what .NET has other forms for."""
    try:
        dumped = model.model_dump(mode="json")
    except ValueError:  # bytes that are not text
        dumped = model.model_dump()
    return _merged(model, dumped, names)


def _merged(value: Any, dumped: Any, names: Names) -> Any:  # noqa: ANN401, PLR0911
    """Return what pydantic dumped, with .NET's forms of the values that it was dumped from."""
    if is_model(kind_of(value)):
        return _merged_model(value, dumped, names)
    if is_mapping(value) and is_object(dumped) and len(value) == len(dumped):
        return {
            key: _merged(item, there, names)
            for item, (key, there) in zip(value.values(), dumped.items(), strict=True)
        }
    if is_items(value) and is_items(dumped):
        return [_merged(item, there, names) for item, there in zip(value, dumped, strict=False)]
    if isinstance(value, bytes) and isinstance(dumped, (str, bytes)):
        return base64.b64encode(value).decode()
    if isinstance(value, (timedelta, Decimal)) and isinstance(dumped, (str, timedelta, Decimal)):
        return plain(value, names)
    if isinstance(value, float) and dumped is None:
        return finite(value, names)
    return plain(dumped, names)


def _merged_model(model: Any, dumped: Any, names: Names) -> Any:  # noqa: ANN401
    if not is_object(dumped):
        return _merged(getattr(model, "root", None), dumped, names)
    attributes: dict[str, str] = {}
    for name, field in kind_of(model).model_fields.items():
        attributes[name if name in dumped else field.serialization_alias or field.alias or name] = name
    merged: dict[str, Any] = {}
    for key, item in dumped.items():
        attribute = attributes.get(key)
        written = names.written(key) if attribute == key else key
        merged[written] = item if attribute is None else _merged(getattr(model, attribute), item, names)
    return merged
