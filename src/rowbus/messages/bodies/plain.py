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
from typing import TYPE_CHECKING, Any, Final

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
    root_of,
)
from rowbus.messages.timestamps import format_time_span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def find_unwritable(value: object, write: Callable[[object], object], deep: int = 9) -> str:
    """Return the way from a message to the part that cannot be written, `.items[1].lock`; "" where none fails alone."""
    for step, part in _parts(value) if deep else ():
        try:
            write({"part": part})
        except Exception:  # noqa: BLE001 - whatever a format raises
            return step + find_unwritable(part, write, deep - 1)
    return ""


def _parts(value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    if is_mapping(value):
        yield from (
            (f".{key}" if isinstance(key, str) else f"[{key!r}]", item) for key, item in value.items()
        )
    elif is_items(value) and not hasattr(value, "__struct_fields__"):
        yield from ((f"[{number}]", item) for number, item in enumerate(value))
    else:
        for field in fields_of(kind_of(value)) or ():
            yield f".{field.attribute}", getattr(value, field.attribute, None)


def finite(number: float | Decimal, names: Names = AS_THEY_ARE) -> float | Decimal | str:
    """Return a number that JSON can hold, or the name of one; raises ValueError for NaN and infinities without."""
    if math.isfinite(number):
        return number
    if names.names_floats and isinstance(number, float):
        return _NAMES_OF_FLOATS[str(number)]
    raise ValueError(f"{number} is no number that JSON can hold")


def _key(key: Any) -> Any:  # noqa: ANN401
    if isinstance(key, timedelta):
        return format_time_span(key)
    return str(key) if isinstance(key, Decimal) else key


def _attributes(value: Any, names: Names) -> dict[str, Any]:  # noqa: ANN401
    found: dict[str, Any] = {}
    kind: type = kind_of(value)
    for field in fields_of(kind) or ():
        item = getattr(value, field.attribute, msgspec.UNSET)
        if item is not msgspec.UNSET:
            found[names.of(field)] = plain(item, names)
    return found


def _struct(value: msgspec.Struct, names: Names) -> Any:  # noqa: ANN401 - a dictionary, or a list
    config = value.__struct_config__
    written = _attributes(value, names)
    if config.array_like:
        return [*_tag(config).values(), *written.values()]
    if config.omit_defaults:  # rare, and msgspec says which
        kept = msgspec.to_builtins(value, builtin_types=(timedelta, Decimal))
        for field in fields_of(type(value)) or ():
            if field.name not in kept:
                written.pop(names.of(field), None)
    return {**_tag(config), **written}


def _tag(config: msgspec.structs.StructConfig) -> dict[str, Any]:
    return {} if config.tag is None else {config.tag_field or "type": config.tag}


def _model(model: Any, names: Names) -> Any:  # noqa: ANN401
    """Dump a model by pydantic, in JSON's forms but for what .NET has other forms for."""
    try:
        dumped = model.model_dump(mode="json")
    except ValueError:  # bytes that are not text
        dumped = model.model_dump()
    return _merged(model, dumped, names)


def _merged(value: Any, dumped: Any, names: Names) -> Any:  # noqa: ANN401, PLR0911
    """Return what pydantic dumped, with .NET's forms of the values that it was dumped from."""
    kind = kind_of(value)
    if root_of(kind) is not None:
        return _merged(value.root, dumped, names)
    if is_object(dumped) and (is_model(kind) or dataclasses.is_dataclass(kind)):
        return _merged_fields(value, dumped, names)
    if is_mapping(value) and is_object(dumped) and len(value) == len(dumped):
        return {
            _key(own) if isinstance(own, (timedelta, Decimal)) else key: _merged(item, there, names)
            for (own, item), (key, there) in zip(value.items(), dumped.items(), strict=True)
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


def _merged_fields(value: Any, dumped: dict[str, Any], names: Names) -> dict[str, Any]:  # noqa: ANN401
    models: Any = getattr(kind_of(value), "model_fields", {})
    merged: dict[str, Any] = {}
    left = dict(dumped)
    for field in fields_of(kind_of(value)) or ():
        alias = getattr(models.get(field.attribute), "serialization_alias", None)
        key = field.attribute if field.attribute in left else alias
        if key in left:
            merged[names.of(field)] = _merged(getattr(value, field.attribute), left.pop(key), names)
    return {**merged, **left}
