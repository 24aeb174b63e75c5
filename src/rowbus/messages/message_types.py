"""Message types: their names on the wire, and their bodies by way of a serializer.

A type may be a dataclass, a msgspec struct, a pydantic model (recognised by its methods, not imported), `dict`, or
`bytes` for bodies read by the handler itself.

Invariant: a body is data; nothing that executes is ever read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, cast
from weakref import WeakSet

from rowbus.errors import ConfigurationError, MessageDeserializationError, MessageSerializationError
from rowbus.errors.strangers import printable, text_of
from rowbus.messages.bodies.json_bodies import JSON, NAMES, Json
from rowbus.messages.bodies.plain import find_unwritable
from rowbus.messages.bodies.serializer import Read, Serializer, Serializers
from rowbus.messages.bodies.shape import Convention, checked_convention
from rowbus.messages.conventions import Classes, Conventional, Conventions, Kind, conventions
from rowbus.messages.message_names import check_assembly, declare_assembly
from rowbus.messages.outgoing import Content
from rowbus.messages.return_code import RETURN_CODE, ReturnCode
from rowbus.running.bounded import LONGEST_REMEMBERED, MOST, Bounded

T = TypeVar("T", bound=type)

BINARY = "application/octet-stream"
_MARKERS: Final = {"NServiceBus.ICommand", "NServiceBus.IEvent", "NServiceBus.IMessage"}
_NAMELESS: Final[tuple[type, ...]] = (bytes, bytearray, Mapping)
DEFAULT: Final[Serializer] = Json()
DEFAULTS: Final = Serializers((DEFAULT,))
SHOWN: Final = 80  # characters, in an error, of what is no message
_CONTRACT = "__rowbus_contract__"
_parents: dict[str, tuple[str, ...]] = {}  # of the types declared in this process, by their wire names


class Contract(NamedTuple):
    """The wire contract of a type: `name`, then the `parents` it can be handled as; `kind` is what it is."""

    name: str
    parents: tuple[str, ...]
    kind: Kind

    @property
    def types(self) -> tuple[str, ...]:
        """The enclosed message types, most concrete first."""
        return (self.name, *self.parents)


def command(
    name: str,
    *,
    parents: tuple[str, ...] = (),
    rename: Convention | None = None,
    assembly: str | None = None,
    time_to_be_received: timedelta | None = None,
    key: str | None = None,
) -> Callable[[T], T]:
    """Declare a class to be a command: sent to one endpoint. `name` is its name on the wire (a .NET FullName).

    `rename` says what its fields are called in a body, and those of the classes within: "pascal" (`OrderId`, as .NET
    does) or "camel"; None: as the serializer says, by default as in Python. `assembly` is the .NET assembly that the
    name is written with, `Shop.Messages` or `Shop.Messages, Version=1.2.0.0`: ServicePulse shows both. With
    `time_to_be_received` each message of the type that is not received within it is consumed unhandled, unless the send
    says otherwise. `key` names the field that is the `key` of its sends. Raises ConfigurationError for a name that
    cannot be one.
    """
    declare_lifetime(name, time_to_be_received)
    declare_key(name, key)
    return _declare(name, parents, Kind.COMMAND, rename, assembly)


def event(
    name: str,
    *,
    parents: tuple[str, ...] | None = None,
    rename: Convention | None = None,
    assembly: str | None = None,
    time_to_be_received: timedelta | None = None,
    key: str | None = None,
) -> Callable[[T], T]:
    """Declare a class to be an event: published to many.

    `parents` are wire names that subscribers may know it by; None: those of its bases that are events.
    """
    declare_lifetime(name, time_to_be_received)
    declare_key(name, key)
    return _declare(name, parents, Kind.EVENT, rename, assembly)


def message(
    name: str,
    *,
    parents: tuple[str, ...] = (),
    rename: Convention | None = None,
    assembly: str | None = None,
    time_to_be_received: timedelta | None = None,
) -> Callable[[T], T]:
    """Declare a class to be a plain message, such as a reply."""
    declare_lifetime(name, time_to_be_received)
    return _declare(name, parents, Kind.MESSAGE, rename, assembly)


_keys: dict[
    str, str
] = {}  # the fields that are keys, of the types declared in this process, by their wire names


def declare_key(name: str, field: str | None) -> None:
    """Have a field of a type's messages be the key of their sends."""
    if field is not None:
        _keys[name] = field


def key_of(message: object, types: Sequence[str]) -> str | None:
    """Return a message's key, as its most concrete type was declared; raises MessageSerializationError without it."""
    field = _keys.get(types[0]) if _keys and types else None
    if field is None:
        return None
    kind: type = type(message)
    value = cast("Any", message).get(field) if issubclass(kind, Mapping) else getattr(message, field, None)
    if value is None or value == "":
        raise MessageSerializationError(
            f"{types[0]} was declared with key={field!r}, and this message has no {field}: its order is not known."
        )
    return str(value)


_lifetimes: dict[str, timedelta] = {}  # of the types declared in this process, by their wire names


def declare_lifetime(name: str, lifetime: timedelta | None) -> None:
    """Have messages of a type live so long until they are received; raises ConfigurationError for no time at all."""
    check_lifetime(lifetime)
    if lifetime is not None:
        _lifetimes[name] = lifetime


def check_lifetime(lifetime: timedelta | None) -> None:
    """Raise ConfigurationError for a time to be received that is none."""
    if lifetime is not None and lifetime <= timedelta():
        raise ConfigurationError(f"time_to_be_received is {lifetime}; it must be more than nothing.")


def lifetime_of(types: Sequence[str]) -> timedelta | None:
    """Return how long a message lives until it is received, as its most concrete type was declared; None: for ever."""
    return _lifetimes.get(types[0]) if _lifetimes and types else None


def _check_is_text(name: object, kind: Kind) -> None:
    """Raise ConfigurationError for a decorator without its name, which is given the class instead."""
    if not isinstance(name, str):
        given = getattr(name, "__qualname__", repr(name))
        raise ConfigurationError(
            f"{given} lacks the name by which it is known on the wire: "
            f'@rowbus.{kind.name.lower()}("Shop.Messages.{given}").'
        )


def _declare(
    name: str, given: tuple[str, ...] | None, kind: Kind, rename: Convention | None, assembly: str | None
) -> Callable[[T], T]:
    checked_convention(rename)
    _check_is_text(name, kind)
    for wire_name in (name, *(given or ())):
        if not wire_name or ";" in wire_name or not wire_name.isprintable():
            raise ConfigurationError(
                f"{wire_name!r} cannot name a message type: it is empty or holds `;` or controls."
            )

    for parent in given or ():
        if parent in _MARKERS:
            raise ConfigurationError(
                f"{parent} cannot be a parent of {name}: it only marks a class in .NET, where each message that names "
                "it causes a warning. Leave it out."
            )

    if assembly is not None:
        declare_assembly(name, assembly)

    def declare(kind_of_message: T) -> T:
        parents = _event_bases(kind_of_message) if given is None else given
        setattr(kind_of_message, _CONTRACT, Contract(name, parents, kind))
        if rename is not None:
            setattr(kind_of_message, NAMES, rename)
        if parents:
            _parents[name] = parents
        return kind_of_message

    return declare


def declare(
    *,
    commands: Classes | Sequence[Classes] = (),
    events: Classes | Sequence[Classes] = (),
    messages: Classes | Sequence[Classes] = (),
    namespaces: Mapping[str, str] = MappingProxyType({}),
    assembly: str | None = None,
    time_to_be_received: timedelta | None = None,
) -> None:
    """Declare classes by convention, instead of by `command`, `event` and `message`, for all of the process.

    Classes are given one by one, or as a module, which means those in modules within it too, as a class's name with its
    module, as a pattern of such names (`shop.*.commands.*`), or as a function that takes a class and says. `namespaces`
    says of modules, and of those within them, which .NET namespace their classes are in: `{"shop.messages":
    "Shop.Messages"}`; the innermost module counts, and a class in no such module goes by its Python name. Bases that
    are messages too are the parents. `assembly` and `time_to_be_received` are those of all of them, as in `command`.
    Where several calls say something of a class, the first counts; a class with a decorator is what that says. To be
    called before the classes are used: raises ConfigurationError for a class that already goes by another name, as
    using one raises it that is two things at once.
    """
    if assembly is not None:
        check_assembly(assembly)
    check_lifetime(time_to_be_received)
    more = conventions(commands, events, messages, namespaces)._replace(
        assembly=assembly, time_to_be_received=time_to_be_received
    )
    for kind in _by_own_name:
        if more.of(kind) is not None:
            raise ConfigurationError(
                f"{kind.__module__}.{kind.__qualname__} is in use without a convention: declare before handlers, "
                "routes and sends."
            )
    _conventions.append(more)
    for cached in (contract_of, declared_contract, _types_of):
        cached.cache_clear()


_conventions: list[Conventions] = []
_by_own_name: WeakSet[type] = WeakSet()  # classes in use of which nothing was said


@lru_cache(maxsize=MOST)
def contract_of(kind: type) -> Contract:
    """Return a type's contract; an undeclared class goes by its module and name, as .NET's FullName does."""
    declared = declared_contract(kind)
    if declared is not None:
        return declared
    _by_own_name.add(kind)
    parents, name = _event_bases(kind), f"{kind.__module__}.{kind.__qualname__}"
    if not parents:
        return Contract(name, (), Kind.MESSAGE)
    _parents[name] = parents
    return Contract(name, parents, Kind.EVENT)


def _event_bases(kind: type) -> tuple[str, ...]:
    """Return the wire names of a class's bases that are events: what is published of it goes to their subscribers."""
    bases = [declared_contract(base) for base in kind.__mro__[1:]]
    events = [base.types for base in bases if base is not None and base.kind is Kind.EVENT]
    return tuple(dict.fromkeys(name for types in events for name in types))


@lru_cache(maxsize=MOST)
def declared_contract(kind: type) -> Contract | None:
    """Return the contract that a decorator or a convention gives a type, None if neither does."""
    contract: Contract | None = kind.__dict__.get(_CONTRACT)
    found = _conventional(kind) if contract is None else None
    if found is None:
        return contract
    if found.assembly is not None:
        declare_assembly(found.name, found.assembly)
    declare_lifetime(found.name, found.time_to_be_received)
    parents = tuple(dict.fromkeys(name for base in kind.__mro__[1:] for name in _names_of_base(base)))
    if parents:
        _parents[found.name] = parents
    subclasses: list[type] = type.__subclasses__(kind)
    for derived in subclasses:
        declared_contract(derived)  # so that a message which names it alone finds the handlers of this one
    return Contract(found.name, parents, found.kind)


def _conventional(kind: type) -> Conventional | None:
    return next((found for one in _conventions if (found := one.of(kind)) is not None), None)


def _names_of_base(base: type) -> tuple[str, ...]:
    contract: Contract | None = base.__dict__.get(_CONTRACT)
    if contract is not None:
        return contract.types
    found = _conventional(base)
    return () if found is None else (found.name,)


message(RETURN_CODE)(ReturnCode)


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


_MISUSES: Final = {
    ("Publish", Kind.COMMAND): (
        "it is sent to the one endpoint that handles it. Declare it with rowbus.event to publish it."
    ),
    ("Send", Kind.EVENT): (
        "it is published to all that subscribe. Publish it, or declare it with rowbus.command to send it."
    ),
    ("Reply", Kind.COMMAND): (
        "a reply is for who asked. Send it, or declare it with rowbus.message to reply with it."
    ),
    ("Reply", Kind.EVENT): (
        "a reply is for who asked. Publish it, or declare it with rowbus.message to reply with it."
    ),
}


def refuse_misuse(message: object, intent: str) -> None:
    """Raise MessageSerializationError for an object whose class is declared to be what does not travel so."""
    kind: type = type(message)
    contract = declared_contract(kind)
    if contract is not None and (misuse := _misuse(contract, intent)):
        raise MessageSerializationError(misuse, type_name=contract.name)


def _misuse(contract: Contract, intent: str) -> str:
    if (reason := _MISUSES.get((intent, contract.kind))) is None:
        return ""
    what = f"{'an' if contract.kind is Kind.EVENT else 'a'} {contract.kind.value}"
    return f"{contract.name} is {what}: {reason}"


def event_name(event: type | str) -> str:
    """Return the wire name that is subscribed to; raises ConfigurationError for a command's."""
    if isinstance(event, str):
        return event
    contract = contract_of(event)
    if contract.kind is Kind.COMMAND:
        raise ConfigurationError(
            f"{contract.name} is a command, which nobody publishes: there is nothing to subscribe to. Declare it with "
            "rowbus.event, if it is one."
        )
    return contract.name


NAMELESS: Final = 'A {} does not say what message it is; pass type="Namespace.MessageName" with it.'
_NO_MESSAGES: Final = frozenset({str, bool, int, float, complex, list, tuple, set, frozenset, type(None)})


def refuse_no_message(body: object) -> None:
    """Raise MessageSerializationError for what no handler can take: a class, None, a text, a number, a list."""
    refuse_class(body)
    if type(body) in _NO_MESSAGES:  # what derives from them may be a declared message, as named tuples are
        raise MessageSerializationError(
            f"{printable(repr(body), SHOWN)} is no message: send an object of a class (a dataclass, a msgspec.Struct, "
            "a pydantic model), or a dict or bytes with type=…. (Does what made it lack a `return`?)",
            type_name=type(body).__name__,
        )


def require_sendable(kind: type, *, is_named: bool) -> None:
    """Raise ConfigurationError for a class whose objects cannot be sent, with a wire name or without."""
    contract = declared_contract(kind)
    wrong = "" if contract is None else _misuse(contract, "Send")
    if kind in _NO_MESSAGES:
        wrong = f"{kind.__name__} is the type of no message."
    elif not is_named and issubclass(kind, _NAMELESS):
        wrong = NAMELESS.format(kind.__name__)
    if wrong:
        raise ConfigurationError(wrong)


def refuse_class(body: object) -> None:
    """Raise MessageSerializationError for a class in place of a message."""
    if isinstance(body, type):
        raise MessageSerializationError(
            f"{body.__qualname__} is a class: send an object of it, as in {body.__qualname__}(…).",
            type_name=body.__qualname__,
        )


def serialize(
    body: object,
    *,
    types: tuple[str, ...] = (),
    content_type: str | None = None,
    serializer: Serializer = DEFAULT,
) -> Content:
    """Return the body and its type for a message object, written by a serializer; bytes go as they are.

    `types` names the message where the object cannot (dicts and bytes) or should not. Raises
    MessageSerializationError for objects that have no body in its format, and for dicts and bytes without `types`.
    """
    kind: type = type(body)
    if kind in _NO_MESSAGES or issubclass(kind, type):
        refuse_no_message(body)
    names = types or _types_of(kind)
    if not names:
        raise MessageSerializationError(NAMELESS.format(kind.__name__), type_name=kind.__name__)
    if isinstance(body, (bytes, bytearray)):
        return Content(bytes(body), content_type or BINARY, names)
    written = serializer.content_types[0]
    try:
        return Content(serializer.write(body, names), content_type or written, names)
    except Exception as error:
        field = _find_field(body, lambda part: serializer.write(part, names))
        raise MessageSerializationError(
            f"{names[0]} cannot be written as {_shown(written)}: {text_of(error)}{field}", type_name=names[0]
        ) from error


def _find_field(body: object, write: Callable[[object], object]) -> str:
    """Say which field is at fault, in a format that writes dictionaries; "" where it cannot be found."""
    try:
        write({"part": ""})
        way = find_unwritable(body, write)
    except Exception:  # noqa: BLE001 - the first failure is told of anyway
        return ""
    return f" (field {way.removeprefix('.')})" if way else ""


def _shown(content_type: str) -> str:
    return "JSON" if content_type == JSON else content_type


@lru_cache(maxsize=MOST)
def _types_of(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a class
    """Return the wire names that a class gives its objects; none for those that do not say what message they are."""
    if issubclass(kind, _NAMELESS):
        return ()
    contract: Contract = contract_of(kind)
    return contract.types


class Deserializer:
    """The readers of bodies for one type, by their content types."""

    def __init__(self, kind: Any, name: str, serializers: Serializers = DEFAULTS) -> None:  # noqa: ANN401
        """Read as `kind`, which is known as `name`. Raises ConfigurationError for a type without a reader."""
        self.kind = kind
        self.name = name
        self._serializers = serializers
        self._readers: dict[str, Read] = {}
        self._remembered: dict[str | None, Read] = (
            Bounded()
        )  # by the header as it is, as few senders write it
        if kind is not bytes:
            self._reader(serializers.main)

    def __call__(self, body: bytes, content_type: str | None = None) -> object:
        """Return the object; raises MessageDeserializationError saying what in the body does not fit."""
        if self.kind is bytes:
            return bytes(body)
        try:
            return (self._remembered.get(content_type) or self._chosen(content_type))(body)
        except Exception as error:
            raise MessageDeserializationError(
                f"The body is not a {self.name}: {text_of(error)}{self._explained(content_type)}",
                type_name=self.name,
            ) from error

    def _chosen(self, content_type: str | None) -> Read:
        found = self._reader(self._serializers.chosen(content_type))
        if len(content_type or "") <= LONGEST_REMEMBERED:
            self._remembered[content_type] = found
        return found

    def _reader(self, serializer: Serializer) -> Read:
        found = self._readers.get(serializer.content_types[0])
        if found is None:
            try:
                found = self._readers[serializer.content_types[0]] = serializer.reader(self.kind)
            except ConfigurationError as error:
                raise ConfigurationError(f"{self.name}: {error}") from None
        return found

    def _explained(self, content_type: str | None) -> str:
        """Say that a body was read as what it does not claim to be."""
        if self._serializers.knows(content_type):
            return ""
        main = self._serializers.main.content_types[0]
        return (
            f" (its content type is {content_type!r}, for which there is no serializer here: read as {main})"
        )


def deserializer(kind: Any, name: str, serializers: Serializers = DEFAULTS) -> Deserializer:  # noqa: ANN401 - any annotation a handler may carry
    """Return the deserializer for a handler's message type; raises ConfigurationError for types without one."""
    return Deserializer(kind, name, serializers)
