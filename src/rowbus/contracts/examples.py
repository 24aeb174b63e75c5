"""Bodies that fit a contract: an example of a message, and the fields that a body lacks.

Invariant: pure; an example fits its schema, but for patterns, of which none is made; what a body has is left as it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from rowbus.contracts.schemas import TAG, TIME_SPAN
from rowbus.messages.bodies.shape import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.contracts.contract import Contract, Schema

_SHOWN: Final = 3
"""Levels that show what may be there; below, as in a tree, is only what has to be."""
_DEEPEST: Final = 16
"""Levels of a class that requires itself, of which no body fits."""
_LARGEST: Final = 10_000
"""Values and characters of an example; what a contract requires beyond that is left out, whoever wrote it."""
_TEXTS: Final = {
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00",
    TIME_SPAN: "00:00:00",
}
_NULL: Final = "null"
_VALUES: Final = ("default", "const", "enum")


def example(contract: Contract, name: str) -> object:
    """Return a body of the message of this name as JSON has it: each field by its default, or a value that fits."""
    message = contract.message(name)
    return {} if message is None else _Examples(contract).of(message.payload, 0)


def complete(contract: Contract, name: str, body: object) -> object:
    """Return a decoded body of the message of this name, with the required fields that it lacks."""
    message = contract.message(name)
    return body if message is None else _Examples(contract).complete(body, message.payload)


class _Examples:
    """Values that fit schemas, which may refer to a contract's."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._left = _LARGEST

    def of(self, schema: Schema, depth: int) -> Any:  # noqa: ANN401 - any value of a body
        schema = self._chosen(schema, _VALUES)
        if "default" in schema:
            return schema["default"]
        if "const" in schema or "enum" in schema:
            return schema.get("const", next(iter(schema.get("enum", ())), None))
        kind = _kind(schema)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        text = _leaf(kind, schema, self._left)
        self._left -= len(text) if isinstance(text, str) else 0
        return text

    def complete(self, value: Any, schema: Schema) -> Any:  # noqa: ANN401 - as above
        schema = self._chosen(schema, most=1)
        if is_object(value):
            known = schema.get("properties", {})
            lacking = {
                name: self.of(known.get(name, {}), _SHOWN) for name in _required(schema) if name not in value
            }
            return {name: self.complete(item, known.get(name, {})) for name, item in value.items()} | lacking
        if is_list(value) and is_object(schema.get("items")):
            return [self.complete(item, schema["items"]) for item in value]
        return value

    def _chosen(self, schema: Schema, stops: Iterable[str] = (), most: float = math.inf) -> Schema:
        """Follow the first of choices, which may lead to themselves, where there are so many at most."""
        schema = self._contract.resolved(schema)
        self._left -= 1
        while not any(word in schema for word in stops) and self._left > 0:
            choices = self._choices(schema)
            if not 0 < len(choices) <= most:
                break
            schema = self._contract.resolved(choices[0])
            self._left -= 1
        return schema

    def _choices(self, schema: Schema) -> list[Schema]:
        """Return the choices that a schema leaves, without null where there are others."""
        choices = schema.get("anyOf") or schema.get("oneOf") or ()
        return [one for one in choices if self._contract.resolved(one).get("type") != _NULL] or [*choices]

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        if depth >= _DEEPEST or self._left <= 0:
            return {}
        required = _required(schema)
        shown = {
            name: one
            for name, one in schema.get("properties", {}).items()
            if name in required or depth < _SHOWN
        }
        found = {name: self.of(one, depth + 1) for name, one in shown.items()}
        others = schema.get("additionalProperties", {})
        more = int(schema.get("minProperties", 0)) - len(found)
        return found | {
            f"key{number}": self.of(others if is_object(others) else {}, depth + 1)
            for number in range(1, min(more, self._left) + 1)
        }

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        items, least = schema.get("items", {}), int(schema.get("minItems", 0))
        if is_list(items):
            return [self.of(one, depth + 1) for one in items]
        wanted = max(least, int(0 < depth < _SHOWN and schema.get("maxItems") != 0))
        wanted = 0 if depth >= _DEEPEST else min(wanted, self._left)
        return [self.of(items, depth + 1) for _ in range(wanted)]


def _required(schema: Schema) -> list[str]:
    """Return the fields that a body has to have, or by which a reader tells it from others."""
    tags = [name for name, one in schema.get("properties", {}).items() if TAG in one]
    return [*tags, *(name for name in schema.get("required", ()) if name not in tags)]


def _kind(schema: Schema) -> str:
    kind = schema.get("type", "object" if "properties" in schema else _NULL)
    return str(next((one for one in kind if one != _NULL), _NULL) if is_list(kind) else kind)


def _leaf(kind: str, schema: Schema, most: int) -> object:
    if kind == "string":
        return _text(schema, most)
    if kind in {"integer", "number"}:
        return _number(schema)
    return False if kind == "boolean" else None


def _text(schema: Schema, most: int) -> str:
    text = _TEXTS.get(str(schema.get("format", "")))
    return "x" * min(int(schema.get("minLength", 0)), most) if text is None else text


def _number(schema: Schema) -> Any:  # noqa: ANN401 - a number of any kind
    """Return the number next to 0 within the bounds, or between two that are close."""
    low = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf) + 1)
    high = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf) - 1)
    if low > high:
        bounds = [schema[word] for word in _BOUNDS if word in schema]
        return sum(bounds) / len(bounds)
    step = schema.get("multipleOf", 1)
    near = min(max(0, low), high)
    number = math.ceil(near / step) * step if "multipleOf" in schema else near
    is_float = schema.get("format") == "double"  # 0 might be read as an integer of another choice, 0.0 is not
    return float(number) if is_float else number


_BOUNDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
