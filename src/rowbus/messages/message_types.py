"""Message types: their names on the wire, and their bodies as JSON.

A type may be a dataclass, a msgspec struct, a pydantic model (recognised by its methods, not imported), `dict`, or
`bytes` for bodies read by the handler itself. Dataclasses and structs are converted by msgspec.

Invariant: a body is data; nothing that executes is ever read from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar, get_origin

import msgspec

from rowbus.errors import ConfigurationError, MessageDeserializationError, MessageSerializationError
from rowbus.messages.dispatch import AppendedEvent
from rowbus.messages.outgoing import Content
from rowbus.running.bounded import MOST

T = TypeVar("T", bound=type)

JSON = "application/json"
BINARY = "application/octet-stream"
_BOM = b"\xef\xbb\xbf"
_CONTRACT = "__rowbus_contract__"
_parents: dict[str, tuple[str, ...]] = {}  # of the types declared in this process, by their wire names


class Kind(Enum):
    """What a message is, which says how it may travel."""

    COMMAND = "command"
    EVENT = "event"
    MESSAGE = "message"


class Contract(NamedTuple):
    """How a type is known on the wire: `name`, then the `parents` it can be handled as; `kind` is what it is."""

    name: str
    parents: tuple[str, ...]
    kind: Kind

    @property
    def types(self) -> tuple[str, ...]:
        """The enclosed message types, most concrete first."""
        return (self.name, *self.parents)


def command(name: str, *, parents: tuple[str, ...] = ()) -> Callable[[T], T]:
    """Declare a class to be a command: sent to one endpoint. `name` is its name on the wire (a .NET FullName)."""
    return _declare(name, parents, Kind.COMMAND)


def event(name: str, *, parents: tuple[str, ...] = ()) -> Callable[[T], T]:
    """Declare a class to be an event: published to many. `parents` are wire names that subscribers may know it by."""
    return _declare(name, parents, Kind.EVENT)


def message(name: str, *, parents: tuple[str, ...] = ()) -> Callable[[T], T]:
    """Declare a class to be a plain message, such as a reply."""
    return _declare(name, parents, Kind.MESSAGE)


def _declare(name: str, parents: tuple[str, ...], kind: Kind) -> Callable[[T], T]:
    for wire_name in (name, *parents):
        if not wire_name or ";" in wire_name or not wire_name.isprintable():
            raise ConfigurationError(
                f"{wire_name!r} cannot name a message type: it is empty or holds `;` or controls."
            )

    def declare(kind_of_message: T) -> T:
        setattr(kind_of_message, _CONTRACT, Contract(name, parents, kind))
        if parents:
            _parents[name] = parents
        return kind_of_message

    return declare


@lru_cache(maxsize=MOST)
def contract_of(kind: type) -> Contract:
    """Return a type's contract; an undeclared class goes by its module and name, as .NET's FullName does."""
    declared = kind.__dict__.get(_CONTRACT)
    if declared is not None:
        return declared  # type: ignore[no-any-return]  # only `_declare` writes this attribute
    return Contract(f"{kind.__module__}.{kind.__qualname__}", (), Kind.MESSAGE)


def with_parents(names: Iterable[str]) -> tuple[str, ...]:
    """Return wire names and then the parents declared for them here, of which a sender may have left out some."""
    found = dict.fromkeys(names)
    for name in (left := list(found)):
        for parent in _parents.get(name, ()):
            if parent not in found:
                found[parent] = None
                left.append(parent)
    return tuple(found)


def is_event(kind: object) -> bool:
    """Say whether a type was declared with `event`."""
    return isinstance(kind, type) and contract_of(kind).kind is Kind.EVENT


def refuse_command(event: object) -> None:
    """Raise MessageSerializationError for an object that cannot be published, because it was declared a command."""
    kind: type = type(event)
    contract = contract_of(kind)
    if contract.kind is Kind.COMMAND:
        raise MessageSerializationError(
            f"{contract.name} is a command: it is sent to the one endpoint that handles it. Declare it with "
            f"rowbus.event to publish it.",
            type_name=contract.name,
        )


def serialize(body: object, *, types: tuple[str, ...] = (), content_type: str | None = None) -> Content:
    """Return the body and its type for a message object.

    `types` names the message where the object cannot (dicts and bytes) or should not. Raises
    MessageSerializationError for objects that have no JSON, and for dicts and bytes without `types`.
    """
    kind: type = type(body)
    form = _form_of(kind)
    names = types or form.types
    if not names:
        raise MessageSerializationError(
            f'A {kind.__name__} does not say what message it is; pass type="Namespace.MessageName" with it.',
            type_name=kind.__name__,
        )
    try:
        return Content(form.encode(body), content_type or form.content_type, names)
    except Exception as error:
        raise MessageSerializationError(
            f"{names[0]} cannot be written as JSON: {error}", type_name=names[0]
        ) from error


class _Form(NamedTuple):
    """How objects of one type become bodies; `types` is empty for those that do not say what message they are."""

    encode: Callable[[Any], bytes]
    content_type: str
    types: tuple[str, ...]


@lru_cache(maxsize=MOST)
def _form_of(kind: type) -> _Form:
    types = contract_of(kind).types
    encode = _encode_model if hasattr(kind, "model_dump_json") else msgspec.json.encode
    if issubclass(kind, (bytes, bytearray)):
        return _Form(bytes, BINARY, ())
    return _Form(encode, JSON, () if issubclass(kind, Mapping) else types)


def _encode_model(model: _Model) -> bytes:
    return model.model_dump_json().encode()


class _Model(Protocol):
    """The half of a pydantic model that we use; pydantic itself is not imported."""

    def model_dump_json(self) -> str: ...


class Deserializer(NamedTuple):
    """How bodies become objects of one type; `read` raises its library's errors."""

    name: str
    kind: object
    read: Callable[[bytes], object]

    def __call__(self, body: bytes) -> object:
        """Return the object; raises MessageDeserializationError saying what in the body does not fit."""
        try:
            return self.read(body if self.kind is bytes else body.removeprefix(_BOM))
        except Exception as error:
            raise MessageDeserializationError(
                f"The body is not a {self.name}: {error}", type_name=self.name
            ) from error


def deserializer(kind: Any, name: str) -> Deserializer:  # noqa: ANN401 - any annotation a handler may carry
    """Return the deserializer for a handler's message type; raises ConfigurationError for types without one."""
    if kind is bytes:
        return Deserializer(name, kind, bytes)
    if hasattr(kind, "model_validate_json"):
        return Deserializer(name, kind, kind.model_validate_json)
    if (
        dataclasses.is_dataclass(kind)
        or is_struct(kind)
        or kind is object
        or dict in {kind, get_origin(kind)}
    ):
        target = dict[str, Any] if kind is dict else kind
        return Deserializer(name, kind, msgspec.json.Decoder(target).decode)
    raise ConfigurationError(
        f"{name}: a handler's message must be a dataclass, a msgspec.Struct, a pydantic model, dict or bytes, "
        f"not {kind!r}."
    )


def is_struct(kind: object) -> bool:
    """Say whether a type is a msgspec struct."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


class EventContent(NamedTuple):
    """What an event of a log carries: a declared type's wire name (else None), and its data as text."""

    type: str | None
    data: str | None


def appended_event(log: str, data: object, type: str | None, *extras: str | None) -> AppendedEvent:
    """Return the event that appends any data to a log; raises MessageSerializationError for what cannot be stored."""
    content = event_content(data)
    for text in (type, *extras):
        if text is not None:
            _event_text(_text_bytes, text)  # what is refused as data is refused here
    return AppendedEvent(log, content.type if type is None else type, content.data, *extras)


def event_content(data: object) -> EventContent:
    """Return an event's content for any object: text as it is, bytes as the UTF-8 they are, the rest as JSON.

    Raises MessageSerializationError for what has no JSON, and for text that PostgreSQL cannot hold.
    """
    if data is None:
        return EventContent(None, None)
    if isinstance(data, (str, bytes, bytearray)):
        return EventContent(None, _event_text(_text_bytes, data))
    kind: type = type(data)
    declared: Contract | None = kind.__dict__.get(_CONTRACT)
    return EventContent(None if declared is None else declared.name, _event_text(_form_of(kind).encode, data))


def _event_text(encode: Callable[[Any], bytes], data: object) -> str:
    try:
        return encode(data).decode()
    except Exception as error:
        kind = type(data)
        raise MessageSerializationError(
            f"A {kind.__name__} cannot be the data of an event: {error}", type_name=kind.__name__
        ) from error


def _text_bytes(data: str | bytes | bytearray) -> bytes:
    """Return text as the bytes it is stored in; of bytes, only those that are text."""
    found = data.encode() if isinstance(data, str) else bytes(data)
    if b"\0" in found:
        raise ValueError("PostgreSQL's text cannot hold the character NUL")
    return found
