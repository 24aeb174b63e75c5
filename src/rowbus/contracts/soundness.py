"""Documents that others wrote, looked at before they are believed: their depth, their schemas, what endpoints do.

Invariant: pure; what passes has the types that the walks through a contract count on, no more levels than they bear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec

from rowbus.contracts.contract import Use
from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.shape import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Iterable

DEEPEST: Final = 100
"""Levels of a document; each takes a few frames of those that Python has."""

_Words = dict[str, "_Schema"]
_Schema = TypedDict(
    "_Schema",
    {
        "$ref": str,
        "type": str | list[str],
        "properties": _Words,
        "required": list[str],
        "additionalProperties": "bool | _Schema",
        "items": "bool | _Schema | list[_Schema]",
        "anyOf": list["_Schema"],
        "oneOf": list["_Schema"],
        "enum": list[Any],
        "x-enum-varnames": list[str],
        "minItems": int,
        "maxItems": int,
        "minLength": int,
        "maxLength": int,
        "minProperties": int,
        "maxProperties": int,
        "minimum": float,
        "maximum": float,
        "exclusiveMinimum": float,
        "exclusiveMaximum": float,
        "multipleOf": float,
    },
    total=False,
)


def require_sound(document: object) -> None:
    """Raise ConfigurationError for a document of too many levels."""
    level = [document]
    for _ in range(DEEPEST):
        level = [child for one in level for child in _children(one)]
        if not level:
            return
    raise ConfigurationError(f"The document has more than {DEEPEST} levels.")


def require_schemas(schemas: Iterable[object]) -> None:
    """Raise ConfigurationError for what is no schema."""
    _convert(list(schemas), list[_Schema])


def require_use(known: dict[str, Any]) -> Use:
    """Return what an endpoint does; raise ConfigurationError for what that cannot be."""
    try:
        use = Use(**known)
    except TypeError as error:
        raise ConfigurationError(f"The document cannot be read: {error}.") from error
    found: Use = _convert(tuple(use), Use)
    return found


def _children(value: object) -> Iterable[object]:
    if is_object(value):
        return value.values()
    return value if is_list(value) else ()


def _convert(value: object, wanted: Any) -> Any:  # noqa: ANN401 - any class
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"The document cannot be read: {error}.") from error
