"""The claim check: keeps large properties outside of the rows, where .NET keeps and looks for them.

Invariant: a value is kept before the message that has its key leaves; nothing is removed by processing a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header
from rowbus.messages.message_types import contract_of
from rowbus.messages.mutators import Mutator
from rowbus.transport.claims import claims

NONE: Final[Mapping[type | str, Sequence[str]]] = MappingProxyType({})


@runtime_checkable
class ClaimStore(Protocol):
    """Keeps values outside of the database; called in several threads at once."""

    def put(self, value: bytes) -> str:
        """Keep a value, so that a crash does not lose it, and return its key, which is used for nothing else."""
        raise NotImplementedError

    def get(self, key: str) -> bytes:
        """Return a value; raises ClaimNotFoundError when there is none. The key is from a message: trust it not."""
        raise NotImplementedError


class ClaimCheck(Mutator):
    """Keeps properties of messages in a store, as NServiceBus.ClaimCheck does; give it to `Endpoint.use` or a client.

    Handlers and senders see the values; the row has keys. For JSON bodies, and the properties of the message itself,
    not of what is within it.
    """

    def __init__(
        self,
        store: ClaimStore,
        properties: Mapping[type | str, Sequence[str]] = NONE,
        *,
        by_convention: bool = False,
    ) -> None:
        """Keep these properties of what is sent, by class or wire name; both of .NET's forms are read without them.

        Properties are named as they are in bodies. With `by_convention` the body has null and a header names the
        property, as .NET has it for properties that a convention names; without, the body has an object with the key,
        .NET's `ClaimCheckProperty<T>`. No I/O. Raises ConfigurationError for what is no store, and for a single name
        in place of several.
        """
        if not isinstance(store, ClaimStore):  # pyright: ignore[reportUnnecessaryIsInstance] - not all check types
            raise ConfigurationError(
                f"{store!r} keeps no claims: give a rowbus.FileShare, or what has put and get."
            )
        self._store = store
        self._properties = {_wire_name(kind): _names(names) for kind, names in properties.items()}
        self._by_convention = by_convention

    def outgoing(self, headers: dict[str, str | None], body: bytes) -> bytes:
        """Keep the values, and return the body with their keys.

        Raises MessageSerializationError for a body that is no JSON object, and what the store raises.
        """
        type_name = next(iter(claims.type_names(headers)), "")
        names = self._properties.get(type_name, ())
        if not names:
            return body
        properties = claims.properties_to_write(headers, body)
        for name in names:
            if claims.has_value(properties, name):
                key = self._store.put(bytes(properties[name]))
                form = claims.claimed(properties, name, key, type_name, by_convention=self._by_convention)
                headers[form] = key
                headers[Header.CLAIM_CONTENT_TYPE] = claims.JSON
        return claims.written(properties)

    def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
        """Return the body with the values that its claims are for, and take their headers away.

        Raises ClaimNotFoundError for a value that is not there, which is tried again as the endpoint's policy says,
        and MessageDeserializationError for what cannot be read, which is not.
        """
        if not body or not self.blocks(headers):
            return body
        properties = claims.properties_to_read(headers, body)
        found = tuple(claims.claims_in(properties, headers))
        if not found:
            return body
        claims.check_content_type(headers)
        for claim in found:
            claims.put_back(properties, claim, self._store.get(claim.key), headers)
        for name in (*(claim.header for claim in found), Header.CLAIM_CONTENT_TYPE):
            headers.pop(name, None)
        return claims.written(properties)

    def blocks(self, headers: Mapping[str, str | None]) -> bool:
        """Say whether a message has headers of claims: then values are looked for, in a thread."""
        return any(header.startswith(Header.CLAIM_PREFIX) for header in headers)


def _wire_name(kind: type | str) -> str:
    return kind if isinstance(kind, str) else contract_of(kind).name


def _names(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigurationError(f"Give the properties to claim as a list: [{names!r}].")
    return tuple(names)
