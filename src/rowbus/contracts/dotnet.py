"""A .NET assembly as a contract: the types in it that are messages, with their kinds, parents and properties.

Invariant: nothing of an assembly is run. Properties have the names that .NET writes, which are its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.contracts.contract import ANYTHING, Contract, Message, Schema, component_key, reference_to
from rowbus.contracts.dotnet_metadata import Metadata, named
from rowbus.contracts.dotnet_types import KNOWN, Signature, enum_of, may_be_null
from rowbus.errors import ConfigurationError
from rowbus.errors.extras import require
from rowbus.messages.conventions import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OF_INTERFACES: Final = {
    "NServiceBus.ICommand": Kind.COMMAND,
    "NServiceBus.IEvent": Kind.EVENT,
    "NServiceBus.IMessage": Kind.MESSAGE,
}
"""The first that a type has counts: each command is a message, too."""
_OF_NAMESPACES: Final = {"Commands": Kind.COMMAND, "Events": Kind.EVENT, "Messages": Kind.MESSAGE}
_COMPILER: Final = "System.Runtime.CompilerServices."
_FLAGS: Final = "System.FlagsAttribute"
_JSON_NAME: Final = "System.Text.Json.Serialization.JsonPropertyNameAttribute"
_IGNORED: Final = frozenset(
    {"System.Text.Json.Serialization.JsonIgnoreAttribute", "Newtonsoft.Json.JsonIgnoreAttribute"}
)
_GENERIC: Final = "`"
_NO_ARGUMENTS: Final = b"\x01\x00\x00\x00"
_TYPE_DEFINED, _TYPE_REFERRED = 0, 1


def from_assembly(path: Path) -> Contract:
    """Return the contract of an assembly's messages: types with NServiceBus's ICommand, IEvent or IMessage.

    Where it has none of them, what is in namespaces that end in `Commands`, `Events` or `Messages`. A property that
    may be null may be left out; each other one is required.

    Raises MissingExtraError without the extra `contracts`, ConfigurationError for what is no assembly, or has no
    messages.
    """
    require("contracts", "dnfile", what="What reads .NET assemblies")
    try:
        contract = _Assembly(Metadata(path)).contract()
    except Exception:  # noqa: BLE001 - whatever a stranger's file makes its readers raise
        raise ConfigurationError(f"{path} is no .NET assembly that can be read.") from None
    if not contract.messages:
        raise ConfigurationError(
            f"{path} has no messages: no type with NServiceBus's ICommand, IEvent or IMessage, and no namespace that "
            "ends in Commands, Events or Messages."
        )
    return contract


class _Assembly:
    """The messages of an assembly, and the schemas of what is in them."""

    def __init__(self, read: Metadata) -> None:
        self._read = read
        self._schemas: dict[str, Schema] = {}
        by_interface = {number: kind for number in read.types if (kind := self._kind(number)) is not None}
        self._kinds = by_interface or {
            number: kind for number in read.types if (kind := self._conventional(number)) is not None
        }

    def contract(self) -> Contract:
        messages = [
            Message(self._read.full_name(number), kind, tuple(self._parents(number)), self._schema_of(number))
            for number, kind in self._kinds.items()
            if _GENERIC not in self._read.full_name(number)
        ]
        schemas = dict(sorted(self._schemas.items()))
        return Contract(self._read.name, (), tuple(sorted(messages)), (), schemas)

    def _ancestors(self, number: int) -> Iterator[tuple[int, str]]:
        """Give a type's bases and interfaces with theirs, each once: the number (0: of another assembly), the name."""
        waiting, seen = [number], {number}
        while waiting:
            for base in self._read.bases(waiting.pop(0)):
                own = base.row_index if base.table.name == "TypeDef" else 0
                if own not in seen or not own:
                    yield own, self._read.full_name(own) if own else named(base.row)
                if own in self._read.types and own not in seen:
                    seen.add(own)
                    waiting.append(own)

    def _kind(self, number: int) -> Kind | None:
        names = {name for _, name in self._ancestors(number)}
        return next((kind for name, kind in _OF_INTERFACES.items() if name in names), None)

    def _conventional(self, number: int) -> Kind | None:
        namespace = str(self._read.types[number].TypeNamespace)
        return None if self._is_enum(number) else _OF_NAMESPACES.get(namespace.rpartition(".")[2])

    def _parents(self, number: int) -> Iterator[str]:
        for own, name in self._ancestors(number):
            if own in self._kinds:
                yield name

    def _schema_of(self, number: int) -> Schema:
        """Return what refers to the schema of a type of this assembly."""
        key = component_key(self._read.full_name(number))
        if key not in self._schemas:
            self._schemas[key] = ANYTHING  # a class may hold itself
            self._schemas[key] = self._enum(number) if self._is_enum(number) else self._object(number)
        return reference_to(key)

    def _is_enum(self, number: int) -> bool:
        return any(named(base.row) == "System.Enum" for base in self._read.bases(number))

    def _enum(self, number: int) -> Schema:
        is_flags = _FLAGS in self._read.attributes("TypeDef", number)
        return enum_of(self._read.members(number), is_flags=is_flags)

    def _object(self, number: int) -> Schema:
        inherited = [own for own, _ in self._ancestors(number) if own in self._read.types]
        if not self._read.is_interface(number):
            inherited = [own for own in inherited if not self._read.is_interface(own)]
        fields = [pair for own in (*reversed(inherited), number) for pair in self._fields(own)]
        required = [name for name, (_, is_required) in dict(fields).items() if is_required]
        properties = {name: schema for name, (schema, _) in fields}
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def _fields(self, number: int) -> Iterator[tuple[str, tuple[Schema, bool]]]:
        """Give the name in JSON of each property of a type itself, with its schema and whether it has to be there."""
        for row, name, signature in self._read.properties(number):
            attributes = self._read.attributes("Property", row)
            if any(attributes.get(one) == _NO_ARGUMENTS for one in _IGNORED):
                continue
            flags = _flags(attributes.get(f"{_COMPILER}NullableAttribute")) or self._context(number)
            schema = Signature(signature, flags, self._named).schema()
            is_required = f"{_COMPILER}RequiredMemberAttribute" in attributes or not may_be_null(schema)
            said = attributes.get(_JSON_NAME)
            shown = schema if is_required else {**schema, "default": None}
            yield _text(said) if said else name, (shown, is_required)

    def _context(self, number: int) -> bytes:
        """Return what counts for a type's references that nothing is said of, by it or by one that holds it."""
        name = f"{_COMPILER}NullableContextAttribute"
        told = (self._read.attributes("TypeDef", one).get(name) for one in self._read.and_holders(number))
        return next((_flags(argument) for argument in told if argument), b"\0")

    def _named(self, table: int, row: int) -> tuple[str, Schema]:
        if table == _TYPE_DEFINED:
            full = self._read.full_name(row)
            return full, ANYTHING if _GENERIC in full else self._schema_of(row)
        name = named(self._read.rows("TypeRef")[row - 1]) if table == _TYPE_REFERRED else ""
        return name, KNOWN.get(name, ANYTHING)


def _flags(argument: bytes | None) -> bytes:
    """Return the flags of a nullable attribute, whose argument is a byte or an array of them."""
    if not argument:
        return b""
    given = argument[2:-2]  # between the prolog and the number of named arguments
    return given if len(given) == 1 else given[4:]


def _text(argument: bytes) -> str:
    """Return the text that an attribute has as its only argument."""
    length = argument[2]
    return argument[3 : 3 + length].decode()
