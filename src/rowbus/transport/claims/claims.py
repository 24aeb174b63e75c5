"""Claims in JSON bodies: a property's value is taken out and a key left in its place, and put back.

Both forms are NServiceBus.ClaimCheck's: an object with the key in place of the value (a `ClaimCheckProperty<T>`), and
null, with a header named after the property (a property by convention).
(Source: docs/wire-format.md#claim-checks.)

Invariant: no I/O; what is not claimed keeps its text, digit for digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rowbus.errors import MessageDeserializationError, MessageSerializationError
from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Properties = dict[str, msgspec.Raw]
"""A body's properties, each with its value's text."""

JSON: Final = "application/json"
_BOM: Final = b"\xef\xbb\xbf"
_NULL: Final = msgspec.Raw(b"null")
_read_properties: Final = msgspec.json.Decoder(Properties).decode
_read_value: Final = msgspec.json.Decoder(msgspec.Raw).decode
_write: Final = msgspec.json.Encoder().encode


class _Claim(msgspec.Struct):
    """What is in place of a value, as `ClaimCheckProperty<T>` is in a body of .NET's."""

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
