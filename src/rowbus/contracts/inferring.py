"""A contract inferred from messages that were seen: what was in their bodies, which is not all that may be in them.

Invariant: pure; each message that was seen fits what is inferred. What is inferred says so in its description.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.contracts.contract import ANYTHING, Contract, Message, component_key, reference_to
from rowbus.contracts.fit import is_of_form
from rowbus.messages.bodies.shape import is_object
from rowbus.messages.conventions import Kind
from rowbus.messages.headers import Header, parse_enclosed_types
from rowbus.messages.message import read_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.contracts.contract import Schema

_KINDS: Final = {"Send": Kind.COMMAND, "Publish": Kind.EVENT}
_FORMS: Final = ("uuid", "date-time", "date")  # a span and a time of day may look alike: they stay text
_NULL: Final[Schema] = {"type": "null"}


class SeenMessage(NamedTuple):
    """A message that was seen: its headers and its body."""

    headers: Mapping[str, str | None]
    body: bytes | None


def infer(messages: Iterable[SeenMessage], title: str = "") -> Contract:
    """Return the contract of messages that were seen; those without a type, or whose body is no JSON object, count not.

    A field is required that each message of its type had; a text is an id or a time where each one was. What is a
    command or an event is told by how the messages were sent.
    """
    bodies: dict[str, list[dict[str, Any]]] = {}
    said: dict[str, tuple[Kind, tuple[str, ...]]] = {}
    for one in messages:
        name, *parents = parse_enclosed_types(one.headers.get(Header.ENCLOSED_MESSAGE_TYPES)) or [""]
        body = _decoded(one.body)
        if name and is_object(body):
            bodies.setdefault(name, []).append(body)
            kind = _KINDS.get(one.headers.get(Header.MESSAGE_INTENT) or "", Kind.MESSAGE)
            said.setdefault(name, (kind, tuple(parents)))
    schemas = {component_key(name): _object(seen) for name, seen in sorted(bodies.items())}
    found = [
        Message(name, *said[name], reference_to(component_key(name)), _description(len(seen)))
        for name, seen in sorted(bodies.items())
    ]
    return Contract(title, (), tuple(found), (), schemas)


def _description(count: int) -> str:
    told = "1 message that was" if count == 1 else f"{count} messages that were"
    return f"Inferred from {told} seen."


def _decoded(body: bytes | None) -> object:
    """Return what a body holds; None for what is no JSON."""
    try:
        return json.loads(read_body(body).text or "", parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def _schema(values: list[Any]) -> Schema:
    """Return what all of several values fit; of none, anything."""
    groups: dict[str, list[Any]] = {}
    for value in values:
        groups.setdefault(_group(value), []).append(value)
    if "number" in groups:
        groups["number"] += groups.pop("integer", [])
    is_nullable = groups.pop("null", None) is not None
    choices = [_OF_GROUP[name](group) for name, group in groups.items()] + [_NULL] * is_nullable
    return {"anyOf": choices} if len(choices) > 1 else choices[0] if choices else ANYTHING


def _group(value: object) -> str:
    return next(name for name, kind in _GROUPS if isinstance(value, kind))


_GROUPS: Final[tuple[tuple[str, Any], ...]] = (
    ("null", type(None)),
    ("boolean", bool),
    ("integer", int),
    ("number", (Decimal, float)),
    ("string", str),
    ("array", list),
    ("object", dict),
)


def _object(values: list[Any]) -> Schema:
    names = dict.fromkeys(name for value in values for name in value)
    properties = {name: _schema([value[name] for value in values if name in value]) for name in names}
    required = [name for name in names if all(name in value for value in values)]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _array(values: list[Any]) -> Schema:
    return {"type": "array", "items": _schema([item for value in values for item in value])}


def _string(values: list[Any]) -> Schema:
    form = next((one for one in _FORMS if all(is_of_form(value, one) for value in values)), None)
    return {"type": "string", **({"format": form} if form else {})}


_OF_GROUP: Final[dict[str, Callable[[list[Any]], Schema]]] = {
    "boolean": lambda _: {"type": "boolean"},
    "integer": lambda _: {"type": "integer"},
    "number": lambda _: {"type": "number", "format": "decimal"},
    "string": _string,
    "array": _array,
    "object": _object,
}
