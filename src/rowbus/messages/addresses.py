"""Addresses from names in one database: the schema they are in, and the rules they keep to.

An endpoint, a client or a command has one `Addresses`, chosen by its database (`rowbus.database.backends`), and
makes every address from text through it.

Invariant: every address made here belongs to that database.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

from rowbus.errors import InvalidAddressError, QueueNotFoundError
from rowbus.messages.address import (
    DEFAULT_DELAYED_SUFFIX,
    DEFAULT_SCHEMA,
    QueueAddress,
    shown,
    validate_endpoint_name,
)
from rowbus.running.bounded import MOST


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
        return _named(given, addresses)
    if given.backend != addresses.backend:
        reason = f"it is one of {given.backend}, and this is {addresses.backend}"
        message = f"{given.canonical!r} cannot be the address of a queue here: {reason}; give the queue's name instead."
        raise InvalidAddressError(message, address=given.canonical, reason=reason)
    return given


@lru_cache(maxsize=MOST)  # a client made for one transaction finds what earlier ones read
def _named(name: str, addresses: Addresses) -> QueueAddress:
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
