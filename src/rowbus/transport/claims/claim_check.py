"""The claim check: keeps large properties outside of the rows, where .NET keeps and looks for them.

In a JSON body a property's value is taken out and a key left in its place, and put back. Both forms are
NServiceBus.ClaimCheck's: an object with the key in place of the value (a `ClaimCheckProperty<T>`), and null, with a
header named after the property (a property by convention). (Source: docs/wire-format.md#claim-checks.)

Invariants: a value is kept before the message that has its key leaves, or by the same transaction; nothing is removed
by processing a message; statements run one after the other through the caller's session, and in its transaction, if it
is in one. What is not claimed keeps its text, digit for digit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

import msgspec

from rowbus.database.statements import run_steps
from rowbus.errors import (
    ClaimNotFoundError,
    ConfigurationError,
    MessageDeserializationError,
    MessageSerializationError,
)
from rowbus.messages.headers import Header
from rowbus.messages.message import KeptValue, new_message_id
from rowbus.messages.message_types import contract_of
from rowbus.messages.mutators import KeepingMutator, take_off
from rowbus.running.functions import check_function
from rowbus.running.threads import run_in_thread
from rowbus.settings import LARGEST_MESSAGE
from rowbus.transport.claims.claim_table import ClaimTable, key_of, value_id_of
from rowbus.transport.claims.decisions import Room
from rowbus.transport.claims.table import claimed_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from rowbus.database.statements import Runs, Steps
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.mutators import Mutator


Properties = dict[str, msgspec.Raw]
"""A body's properties, each with its value's text."""

JSON: Final = "application/json"
_BOM: Final = b"\xef\xbb\xbf"
_NULL: Final = msgspec.Raw(b"null")
_read_properties: Final = msgspec.json.Decoder(Properties).decode
_read_value: Final = msgspec.json.Decoder(msgspec.Raw).decode
_write: Final = msgspec.json.Encoder().encode


class _Claim(msgspec.Struct):
    """The stand-in for a value, as `ClaimCheckProperty<T>` is in a body of .NET's."""

    key: str = msgspec.field(name="Key")
    has_value: bool = msgspec.field(name="HasValue", default=True)


class Claim(NamedTuple):
    """A value that is elsewhere: whose it is, the header that says so, and the key under which it is kept."""

    property: str
    header: str
    key: str


_read_claim: Final = msgspec.json.Decoder(_Claim).decode


def type_names(headers: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return a message's types, the most concrete first, without their assemblies."""
    types = (headers.get(Header.ENCLOSED_MESSAGE_TYPES) or "").split(";")
    return tuple(name for name in (one.partition(",")[0].strip() for one in types) if name)


def properties_to_write(headers: Mapping[str, str | None], body: bytes) -> Properties:
    """Return a body's properties; raises MessageSerializationError for one that is no JSON object."""
    try:
        return _properties(headers, body)
    except ValueError as error:
        names = type_names(headers)
        raise MessageSerializationError(
            f"Properties of {names[0]} are to be claimed, but {error}.", type_name=names[0]
        ) from None


def claimed(properties: Properties, name: str, key: str, type_name: str, *, by_convention: bool) -> str:
    """Leave a key in place of a property's value, and return the name of the header that is to have it."""
    properties[name] = _NULL if by_convention else msgspec.Raw(_write(_Claim(key)))
    return Header.CLAIM_PREFIX + (f"{type_name}.{name}" if by_convention else key)


def has_value(properties: Properties, name: str) -> bool:
    """Say whether there is anything to claim of a property."""
    return name in properties and bytes(properties[name]) != b"null"


def properties_to_read(headers: Mapping[str, str | None], body: bytes) -> Properties:
    """Return a body's properties; raises MessageDeserializationError for one that is no JSON object."""
    try:
        return _properties(headers, body)
    except ValueError as error:
        raise _unreadable(headers, f"claims were left in its body, but {error}") from None


def claims_in(properties: Properties, headers: Mapping[str, str | None]) -> Iterable[Claim]:
    """Return the claims that a message has; other headers that look like one are passed over, as .NET does."""
    by_convention = {f"{Header.CLAIM_PREFIX}{name}." for name in type_names(headers)}
    for name, value in properties.items():
        header = Header.CLAIM_PREFIX + (_key_of(value) or "")
        if header != Header.CLAIM_PREFIX and (key := headers.get(header)):
            yield Claim(name, header, key)
    spellings = {
        name.lower(): name for name in reversed(properties)
    }  # a naming policy's, and the first of several
    for header, key in headers.items():
        prefix, dot, name = header.rpartition(".")
        if key and name and prefix + dot in by_convention:
            yield Claim(spellings.get(name.lower(), name), header, key)


def check_content_type(headers: Mapping[str, str | None]) -> None:
    """Raise MessageDeserializationError for values that are said to be in another form than JSON."""
    content_type = headers.get(Header.CLAIM_CONTENT_TYPE)
    if content_type and content_type.partition(";")[0].strip() != JSON:
        raise _unreadable(headers, f"its claimed values are {content_type}, and only {JSON} is read")


def put_back(properties: Properties, claim: Claim, content: bytes, headers: Mapping[str, str | None]) -> None:
    """Put a value in the place of its key; raises MessageDeserializationError for one that is no JSON."""
    try:
        properties[claim.property] = _read_value(content.removeprefix(_BOM))
    except ValueError as error:
        problem = f"the value of {claim.property}, kept under {claim.key}, is no JSON: {error}"
        raise _unreadable(headers, problem) from None


def written(properties: Properties) -> bytes:
    """Return a body of properties."""
    return _write(properties)


def _properties(headers: Mapping[str, str | None], body: bytes) -> Properties:
    content_type = headers.get(Header.CONTENT_TYPE)
    if content_type and content_type.partition(";")[0].strip() != JSON:
        raise ValueError(f"its body is {content_type}, and claims are for {JSON}")
    try:
        return _read_properties(body.removeprefix(_BOM))
    except msgspec.DecodeError as error:
        raise ValueError(f"its body is no JSON object: {error}") from None


def _key_of(value: msgspec.Raw) -> str | None:
    """Return the key that is in place of a value, None for another value."""
    if not bytes(value).startswith(b"{"):
        return None
    try:
        claim = _read_claim(value)
    except msgspec.DecodeError:
        return None
    return claim.key if claim.has_value else None


def _unreadable(headers: Mapping[str, str | None], problem: str) -> MessageDeserializationError:
    names = type_names(headers)
    name = names[0] if names else "without a type"
    return MessageDeserializationError(f"The message {name} cannot be read: {problem}.", type_name=name)


IN_TABLE: Final = ClaimTable()
NONE: Final[Mapping[type | str, Sequence[str]]] = MappingProxyType({})


@runtime_checkable
class ClaimStore(Protocol):
    """Keeps values outside of the database; called in several threads at once.

    One that has `size(key)` too, which returns a value's bytes, is asked for it before a value is read.
    """

    def put(self, value: bytes) -> str:
        """Keep a value, so that a crash does not lose it, and return its key, which is used for nothing else."""
        raise NotImplementedError

    def get(self, key: str) -> bytes:
        """Return a value; raises ClaimNotFoundError when there is none. The key is from a message: trust it not."""
        raise NotImplementedError


class ClaimCheck(KeepingMutator):
    """Keeps properties of messages elsewhere, as NServiceBus.ClaimCheck does; give it to `Endpoint.use` or a client.

    Handlers and senders see the values; the row has keys. For JSON bodies, and the properties of the message itself,
    not of what is within it. The values are in a table, by default: they commit and roll back with the message, and are
    read in the receive transaction.
    """

    def __init__(
        self,
        store: ClaimStore | ClaimTable = IN_TABLE,
        properties: Mapping[type | str, Sequence[str]] = NONE,
        *,
        by_convention: bool = False,
    ) -> None:
        """Keep these properties of what is sent, by class or wire name; both of .NET's forms are read without them.

        Properties are named as they are in bodies. With `by_convention` the body has null and a header names the
        property, as .NET has it for properties that a convention names; without, the body has an object with the key,
        .NET's `ClaimCheckProperty<T>`. .NET reads the values of a `FileShare`, and none in a table. No I/O. Raises
        ConfigurationError for what is no store, and for a single name in place of several.
        """
        if not isinstance(store, ClaimStore | ClaimTable):  # pyright: ignore[reportUnnecessaryIsInstance] - not all check types
            raise ConfigurationError(
                f"{store!r} keeps no claims: give a rowbus.FileShare, a rowbus.ClaimTable, or what has put and get."
            )
        if not isinstance(store, ClaimTable):
            check_function(store.put, "The claim store's method", "value")
            check_function(store.get, "The claim store's method", "key")
        self._store = store
        self._properties: dict[type | str, Sequence[str]] = {
            _wire_name(kind): _names(names) for kind, names in properties.items()
        }
        self._by_convention = by_convention
        self.address: QueueAddress | None = None
        """The table, once it is known among which tables it is."""
        self.most_bytes = LARGEST_MESSAGE
        """The bytes that a message may have, with its values."""

    def bound(self, addresses: Addresses, most_bytes: int = LARGEST_MESSAGE) -> Self:
        """Return the same check, which knows where its table is, if it has one.

        A message with its values may have so many bytes.
        """
        check = copy(self)
        check.most_bytes = most_bytes
        if isinstance(self._store, ClaimTable):
            check.address = self._store.address(addresses)
        return check

    def over(self, store: ClaimStore) -> ClaimCheck:
        """Return the same check, whose values are in a store."""
        check = ClaimCheck(store, self._properties, by_convention=self._by_convention)
        check.most_bytes = self.most_bytes
        return check

    def outgoing(self, headers: dict[str, str | None], body: bytes) -> bytes:
        """Keep the values, and return the body with their keys.

        Raises MessageSerializationError for a body that is no JSON object, what the store raises, and
        ConfigurationError for values that are for a table: they leave with their message.
        """
        body, kept = self.keep(headers, body)
        if kept:
            raise _needs_a_transaction()
        return body

    def keep(self, headers: dict[str, str | None], body: bytes) -> tuple[bytes, tuple[KeptValue, ...]]:
        """Keep the values, and return the body with their keys, and what is to leave with the message."""
        type_name = next(iter(type_names(headers)), "")
        names = self._properties.get(type_name, ())
        if not names:
            return body, ()
        properties, kept = properties_to_write(headers, body), list[KeptValue]()
        for name in names:
            if has_value(properties, name):
                key = self._put(bytes(properties[name]), kept)
                form = claimed(properties, name, key, type_name, by_convention=self._by_convention)
                headers[form] = key
                headers[Header.CLAIM_CONTENT_TYPE] = JSON
        return written(properties), tuple(kept)

    def _put(self, value: bytes, kept: list[KeptValue]) -> str:
        if not isinstance(self._store, ClaimTable):
            return self._store.put(value)
        one = KeptValue(self._table(), new_message_id(), value, self._store.keep_for)
        kept.append(one)
        return key_of(one.table, one.id)

    def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
        """Return the body with the values that its claims are for, and take their headers away.

        Raises ClaimNotFoundError for a value that is not there, which is tried again as the endpoint's policy says,
        and MessageDeserializationError for what cannot be read, which is not; ConfigurationError for values that are in
        a table.
        """
        try:
            next(self.reading(headers, body))
        except StopIteration as end:
            whole: bytes = end.value
            return whole
        raise _needs_a_transaction()

    def reading(self, headers: dict[str, str | None], body: bytes) -> Steps[bytes]:
        """Do as `incoming`, by these steps, which ask for values in a table.

        Raises Unrecoverable for a foreign key, and for values that are too large together.
        """
        if not body or not has_claims(headers):
            return body
        properties = properties_to_read(headers, body)
        found = tuple(claims_in(properties, headers))
        if not found:
            return body
        check_content_type(headers)
        contents = yield from self._contents(Counter(claim.key for claim in found), len(body))
        for claim in found:
            put_back(properties, claim, contents[claim.key], headers)
        for name in (*(claim.header for claim in found), Header.CLAIM_CONTENT_TYPE):
            headers.pop(name, None)
        return written(properties)

    def _contents(self, uses: Mapping[str, int], size: int) -> Steps[dict[str, bytes]]:
        """Read each value once, whatever it is used for, and none before it is known that there is room for all."""
        measured, room = Room(self.most_bytes - size, uses), Room(self.most_bytes - size, uses)
        for key, found in (yield from self._sizes(uses)).items():
            measured.take(key, found)
        contents = dict[str, bytes]()
        for key in uses:
            contents[key] = yield from self._value(key, room)
        return contents

    def _sizes(self, keys: Iterable[str]) -> Steps[dict[str, int]]:
        """Ask for the sizes of values, as far as they are to be had."""
        if isinstance(self._store, ClaimTable):
            address = self._table()
            ids = {key: value_id_of(key, address).lower() for key in keys}
            sizes: dict[str, int] = yield claimed_values(address).sizes([*ids.values()])
            return {key: sizes.get(value_id, 0) for key, value_id in ids.items()}
        size: Callable[[str], int] | None = getattr(self._store, "size", None)
        return {} if size is None else {key: size(key) for key in keys}

    def _value(self, key: str, room: Room) -> Steps[bytes]:
        if not isinstance(self._store, ClaimTable):
            content = self._store.get(key)
            room.take(key, len(content))
            return content
        address = self._table()
        table, value_id, parts = claimed_values(address), value_id_of(key, address), list[bytes]()
        while True:
            part = yield table.read(value_id, len(parts))
            if part is None:
                raise _is_gone(key, address)
            room.take(key, len(part.content))  # again: others may have added parts meanwhile
            parts.append(part.content)
            if len(parts) == part.parts:
                return b"".join(parts)

    def _table(self) -> QueueAddress:
        if self.address is None:
            raise _needs_a_transaction()
        return self.address

    @property
    def asks(self) -> bool:
        """Whether values are in a table, and read by statements."""
        return self.address is not None

    def blocks(self, headers: Mapping[str, str | None]) -> bool:
        """Say whether a message has headers of claims for a store: then values are looked for, in a thread."""
        return not isinstance(self._store, ClaimTable) and has_claims(headers)


def has_claims(headers: Mapping[str, str | None]) -> bool:
    """Say whether a message has headers of claims."""
    return any(header.startswith(Header.CLAIM_PREFIX) for header in headers)


def _is_gone(key: str, table: QueueAddress) -> ClaimNotFoundError:
    return ClaimNotFoundError(
        f"The value that the message keeps under {key} is not in {table}. It was swept, if the message waited longer "
        "than its sender's ClaimTable keeps values (keep_for), or deleted by hand. Restore its rows from a backup and "
        "have the message tried again (rowbus errors retry), or have it sent again.",
        key=key,
    )


def _needs_a_transaction() -> ConfigurationError:
    return ConfigurationError(
        "Values in a ClaimTable are written and read in a message's transaction: give the ClaimCheck to an endpoint "
        "(use) or to a client (mutators); by itself it needs a FileShare or another store."
    )


def _wire_name(kind: type | str) -> str:
    return kind if isinstance(kind, str) else contract_of(kind).name


def _names(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigurationError(f"Give the properties to claim as a list: [{names!r}].")
    return tuple(names)


async def off_the_wire(
    headers: dict[str, str | None], body: bytes, mutators: Sequence[Mutator], session: Runs
) -> bytes:
    """Change headers, and return a body, as they come off the wire: what blocks in a thread, what asks on a session.

    Raises what a mutator raises, and StorageError.
    """
    may_block = any(mutator.blocks(headers) for mutator in mutators)
    for mutator in reversed(mutators):
        if isinstance(mutator, ClaimCheck) and mutator.asks:
            body = await run_steps(session, mutator.reading(headers, body))
        elif may_block:
            body = await run_in_thread(take_off, headers, body, (mutator,))
        else:
            body = take_off(headers, body, (mutator,))
    return body


def takes_time(headers: Mapping[str, str | None], mutators: Sequence[Mutator]) -> bool:
    """Say whether a message that came with these headers waits for something when it comes off the wire."""
    return any(
        mutator.blocks(headers) or (isinstance(mutator, ClaimCheck) and mutator.asks and has_claims(headers))
        for mutator in mutators
    )
