"""The address of a queue, the schema and the table that hold its messages; and names that no table can have.

Inside Rowbus a queue is always a `QueueAddress`, never a bare string. Text becomes an address in one of three ways:
`parse` reads what travels on the wire (reply addresses, FailedQ), `from_user` reads what people type, and
`for_endpoint` turns an endpoint's logical name into its table. (Source: docs/wire-format.md#addresses-on-postgresql.)
An endpoint, a client or a command has one `Addresses`, chosen by its database (`rowbus.database.backends`), and makes
every address from text through it.

Invariants: `QueueAddress.parse(address.canonical) == address`, for names of any characters, and the canonical form is
character for character the one .NET endpoints write and compare; however long a name from elsewhere is, what is shown
of it fits into a line of a log. Every address made by an `Addresses` belongs to its database.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol, cast

from rowbus.errors import ConfigurationError, InvalidAddressError, QueueNotFoundError
from rowbus.running.bounded import MOST

if TYPE_CHECKING:
    from collections.abc import Iterable


_SHOWN_LENGTH: Final = 150

DEFAULT_SCHEMA: Final = "public"

# A publish reads the addresses of all subscribers. Senders write addresses of any length: long ones are not remembered.
ADDRESSES_REMEMBERED: Final = 4_096
LONGEST_REMEMBERED: Final = 300  # characters

# PostgreSQL cuts every identifier at NAMEDATALEN - 1 bytes, silently.
MAX_IDENTIFIER_BYTES: Final = 63
# `seq serial` makes a sequence of this name, which ServiceControl looks for and PostgreSQL would cut.
SEQUENCE_SUFFIX: Final = "_seq_seq"
# 63 - 8 = 55 bytes: room for the sequence (8) and for the delayed table's ".delayed" (8).
MAX_QUEUE_BYTES: Final = MAX_IDENTIFIER_BYTES - max(len(SEQUENCE_SUFFIX), len(".delayed"))

DEFAULT_DELAYED_SUFFIX: Final = "Delayed"


def refuse_impossible(kind: str, name: str) -> None:
    """Raise InvalidAddressError for a name that is empty, holds NUL or cannot be encoded."""
    if not name:
        raise refused(name, f"the {kind} name is empty")
    if "\0" in name:
        raise refused(name, f"the {kind} name holds a NUL character, which no table's name may hold")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise refused(
            name, f"the {kind} name holds half of a surrogate pair, which is not a character"
        ) from None


def refuse_nul(kind: str, name: str) -> None:
    """Raise ConfigurationError for the name of a log, a consumer, a role, if it holds NUL: no database takes it."""
    if "\0" in name:
        raise ConfigurationError(
            f"The name of the {kind}, {shown(name)}, holds a NUL character; no name may hold one."
        )


def refused(address: str, reason: str) -> InvalidAddressError:
    """Return the error that says why an address cannot be one."""
    message = f"{shown(address)} cannot be the address of a queue: {reason}."
    return InvalidAddressError(message, address=address, reason=reason)


def shown(name: str) -> str:
    """Return a name in quotes, cut when it is long."""
    return repr(name if len(name) <= _SHOWN_LENGTH else f"{name[:_SHOWN_LENGTH]}…")


@dataclass(frozen=True, slots=True)
class QueueAddress:
    """The schema and table of one queue, exactly as they are in the catalogue (nothing folded, nothing quoted).

    Making one refuses only names no PostgreSQL table can have: empty, holding NUL, or not encodable as UTF-8.
    Length is *not* checked, because another system's reply address must be readable at any length;
    `validate` checks it, and is called when an endpoint is configured, before a queue is created, and before a send
    to an address that came from configuration.
    """

    backend: ClassVar[str] = "postgresql"
    """The database that the address is in: a subject's module of that name makes its tables."""

    schema: str
    table: str
    canonical: str = field(init=False, repr=False, compare=False)
    """`"schema"."table"`, embedded quotes doubled: the form on the wire, and what `str()` gives."""

    def __post_init__(self) -> None:
        """Check both names and keep the canonical form, which every send needs."""
        for kind, name in (("schema", self.schema), ("table", self.table)):
            refuse_impossible(kind, name)
        object.__setattr__(self, "canonical", f"{_quote(self.schema)}.{_quote(self.table)}")

    def __str__(self) -> str:
        """Give the canonical form."""
        return self.canonical

    @classmethod
    def parse(cls, text: str, default_schema: str = DEFAULT_SCHEMA) -> QueueAddress:
        """Read an address from the wire, by the transport's rules.

        The first dot outside quotes splits schema from table, so `Sales.Orders` is the table `Orders` in the schema
        `Sales`; a part is unquoted when it both starts and ends with a quote; a schema left out or empty is the
        default one. Raises `InvalidAddressError` when no table is named.
        """
        read = _remembered if len(text) <= LONGEST_REMEMBERED else _parsed
        return read(text, default_schema)

    @classmethod
    def from_user(cls, text: str, default_schema: str = DEFAULT_SCHEMA) -> QueueAddress:
        """Read an address that a person typed in Python or on the command line.

        Reads as `parse` does, but refuses with `InvalidAddressError` what a person may not have meant: a dotted name
        without quotes, and a quote that is never closed. The text of the error shows how to write either reading.
        """
        if '"' not in text and "." in text:
            raise refused(text, _both_readings(text))
        if text.count('"') % 2:
            raise refused(text, f"a quote in it is not closed; a table of that very name is {_quote(text)}")
        return cls.parse(text, default_schema)

    @classmethod
    def for_endpoint(
        cls, name: str, *, qualifier: str = "", discriminator: str = "", schema: str = DEFAULT_SCHEMA
    ) -> QueueAddress:
        """Turn an endpoint's logical name into the address of its queue, of a satellite, or of one instance.

        The parts that are not empty are joined with dots and not parsed again, so that dots in endpoint names are
        safe: `Shop.Sales` with the qualifier `Delayed` is the one table `Shop.Sales.Delayed`.
        """
        return cls(schema, ".".join(filter(None, (name, qualifier, discriminator))))

    def satellite(self, qualifier: str) -> QueueAddress:
        """Return the address beside this one that its endpoint uses for something: its table, a dot, the qualifier."""
        return replace(self, table=f"{self.table}.{qualifier}")

    def neighbour(self, text: str) -> QueueAddress:
        """Read, from the wire, another address in the database of this one; raises InvalidAddressError.

        A schema left out is this address's, as .NET means it: the schema of the queue that the text came to.
        """
        return QueueAddress.parse(text, self.schema)

    def meant(self, text: str) -> QueueAddress:
        """Read an address that a person typed beside this one, whose schema is the default; see `from_user`."""
        return QueueAddress.from_user(text, self.schema)

    @property
    def folded(self) -> QueueAddress:
        """The same table with a name that every server lists as it is."""
        return self

    def is_among(self, found: Iterable[QueueAddress]) -> bool:
        """Say whether this table is one of those that a database lists, by its name or its folded one."""
        listed = set(found)
        return self in listed or self.folded in listed

    def validate(self) -> None:
        """Raise `InvalidAddressError` if PostgreSQL would cut the name of the table, its sequence or the schema."""
        _refuse_too_long("schema", self.schema, MAX_IDENTIFIER_BYTES, self.canonical)
        _refuse_too_long("queue", self.table, MAX_QUEUE_BYTES, self.canonical)

    @property
    def can_exist(self) -> bool:
        """Whether a table may have this address; .NET's endpoints have longer names than `validate` allows ours."""
        return all(len(name.encode()) <= MAX_IDENTIFIER_BYTES for name in (self.schema, self.table))

    @property
    def sequence(self) -> str:
        """The name of the sequence behind the column `seq`; ServiceControl reads throughput from it."""
        return f"{self.table}{SEQUENCE_SUFFIX}"

    @property
    def channel(self) -> str:
        """The NOTIFY channel that wakes this queue's receivers.

        A digest, because a channel name is an identifier of at most 63 bytes. SQL that computes it (`'rowbus_' ||
        md5(canonical)`, in a database encoded in UTF-8) must double the quotes itself: `quote_ident` and `%I` leave
        plain lower-case names bare.
        """
        return f"rowbus_{hashlib.md5(self.canonical.encode(), usedforsecurity=False).hexdigest()}"

    @property
    def body_string_lock(self) -> int:
        """The advisory lock under which .NET installers, and ours, add the column `bodystring`."""
        digest = hashlib.sha256(self.canonical.encode("utf-16-le")).digest()
        return int.from_bytes(digest[:8], "little", signed=True)


def validate_endpoint_name(name: str, *, delayed_suffix: str = DEFAULT_DELAYED_SUFFIX) -> None:
    """Raise `InvalidAddressError` if an endpoint's name is empty, impossible or too long for its tables.

    Its delayed table is called `<name>.<suffix>` and must keep within the length of a queue, so with the default
    suffix the name may have at most 47 bytes. Give an empty suffix where delayed delivery is off: then it is 55.
    """
    refuse_impossible("endpoint", name)
    room = len(f".{delayed_suffix}".encode()) if delayed_suffix else 0
    _refuse_too_long("endpoint", name, MAX_QUEUE_BYTES - room, name)


def _split(text: str) -> tuple[str, str, str]:
    """Split at the first dot outside quotes, as `str.partition` would."""
    quotes = 0
    for position, character in enumerate(text):
        if character == '"':
            quotes += 1
        elif character == "." and quotes % 2 == 0:
            return text[:position], ".", text[position + 1 :]
    return text, "", ""


def _unquote(part: str) -> str:
    if part.startswith('"') and part.endswith('"'):
        return part[1:-1].replace('""', '"')
    return part


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _both_readings(text: str) -> str:
    schema, _, table = text.partition(".")
    one_table = f"write {_quote(text)}, quotes included, for the table {text} in the default schema"
    if not (schema and table):
        return f"its dot is ambiguous; {one_table}"
    two_names = f"{_quote(schema)}.{_quote(table)} for the table {table} in the schema {schema}"
    return f"its dot is ambiguous; {one_table}, or {two_names} (in Python also QueueAddress({schema!r}, {table!r}))"


def _refuse_too_long(kind: str, name: str, limit: int, address: str) -> None:
    size = len(name.encode())
    if size > limit:
        measured = f"the {kind} name {shown(name)} has {size} bytes in UTF-8"
        raise refused(
            address, f"{measured}, and at most {limit} leave its tables and sequences unabridged; shorten it"
        )


def _parsed(text: str, default_schema: str) -> QueueAddress:
    before, dot, after = _split(text)
    schema, table = (before, after) if dot else ("", before)
    table = _unquote(table)
    if not table:
        raise refused(text, "it names no table")
    return QueueAddress(_unquote(schema) or default_schema, table)


_remembered = lru_cache(ADDRESSES_REMEMBERED)(_parsed)


class Addresses(Protocol):
    """Makes addresses of one kind, in one default schema; a value, by which what it made is remembered."""

    def __hash__(self) -> int:
        """Hash as the value that it is."""
        raise NotImplementedError

    @property
    def backend(self) -> str:
        """The backend the addresses are for, as `QueueAddress.backend`."""
        raise NotImplementedError

    @property
    def schema(self) -> str:
        """The schema of what is named without one."""
        raise NotImplementedError

    def parse(self, text: str) -> QueueAddress:
        """Read an address from the wire; raises InvalidAddressError when it names no table."""
        raise NotImplementedError

    def from_user(self, text: str) -> QueueAddress:
        """Read an address that a person typed; raises InvalidAddressError for what is ambiguous."""
        raise NotImplementedError

    def for_endpoint(self, name: str, *, qualifier: str = "", discriminator: str = "") -> QueueAddress:
        """Turn an endpoint's name into the address of its queue, of a satellite, or of one instance."""
        raise NotImplementedError

    def validate_endpoint_name(self, name: str, *, delayed_suffix: str = DEFAULT_DELAYED_SUFFIX) -> None:
        """Raise InvalidAddressError if a name is empty, impossible or too long for the endpoint's tables."""
        raise NotImplementedError


class PostgresAddresses(NamedTuple):
    """Addresses in PostgreSQL."""

    schema: str = DEFAULT_SCHEMA

    @property
    def backend(self) -> str:
        """PostgreSQL."""
        return QueueAddress.backend

    def parse(self, text: str) -> QueueAddress:
        """Read an address from the wire; see `QueueAddress.parse`."""
        return QueueAddress.parse(text, self.schema)

    def from_user(self, text: str) -> QueueAddress:
        """Read an address that a person typed; see `QueueAddress.from_user`."""
        return QueueAddress.from_user(text, self.schema)

    def for_endpoint(self, name: str, *, qualifier: str = "", discriminator: str = "") -> QueueAddress:
        """Turn an endpoint's name into an address; see `QueueAddress.for_endpoint`."""
        return QueueAddress.for_endpoint(
            name, qualifier=qualifier, discriminator=discriminator, schema=self.schema
        )

    def validate_endpoint_name(self, name: str, *, delayed_suffix: str = DEFAULT_DELAYED_SUFFIX) -> None:
        """Refuse names whose tables PostgreSQL would cut; see `validate_endpoint_name`."""
        validate_endpoint_name(name, delayed_suffix=delayed_suffix)


def address_of(given: str | QueueAddress, addresses: Addresses) -> QueueAddress:
    """Return the address a user means, who gives a name or an address.

    Raises InvalidAddressError for a name that is ambiguous, impossible or too long, and for an address of another
    database's kind.
    """
    if not isinstance(given, QueueAddress):
        if not isinstance(cast("object", given), str):
            raise refused(repr(given), "give the queue's name, or a rowbus.QueueAddress")
        return named_address(given, addresses)
    if given.backend != addresses.backend:
        reason = f"it is one of {given.backend}, and this is {addresses.backend}"
        message = f"{given.canonical!r} cannot be the address of a queue here: {reason}; give the queue's name instead."
        raise InvalidAddressError(message, address=given.canonical, reason=reason)
    return given


@lru_cache(maxsize=MOST)  # a client made for one transaction finds what earlier ones read
def named_address(name: str, addresses: Addresses) -> QueueAddress:
    """Return the address a user means by a name; see `address_of`."""
    address = addresses.from_user(name)
    address.validate()
    return address


def refuse_missing(address: QueueAddress, failing: str) -> None:
    """Raise QueueNotFoundError, whose text begins with `failing`, for an address too long for any table.

    PostgreSQL would cut its names, and mean another queue's table.
    """
    if not address.can_exist:
        text = f"{failing} {shown(address.canonical)}: no queue can have that name, which is too long for a table's."
        raise QueueNotFoundError(text, queue=address.canonical)
