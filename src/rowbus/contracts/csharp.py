"""A contract as C#: a record for each type of message and each class within, with NServiceBus's interfaces.

Decimals are `decimal`, identifiers `Guid`, moments `DateTimeOffset`, spans `TimeSpan`, bytes `byte[]`; what may be null
is nullable, and what is required `required`. What C# has no type for, as a union, is `object`.

Invariant: System.Text.Json writes each record as Rowbus reads it, whatever its properties are called in C#.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rowbus.contracts.contract import key_of
from rowbus.contracts.schemas import TAG, TIME_SPAN
from rowbus.messages.bodies.shape import Names, is_list, is_object
from rowbus.messages.conventions import Kind

if TYPE_CHECKING:
    from rowbus.contracts.contract import Contract, Message, Schema

_HEAD: Final = """\
// Written by `rowbus contracts csharp`.
#nullable enable
using System;
using System.Collections.Generic;
using System.Text.Json.Serialization;
using NServiceBus;
"""
_INTERFACES: Final = {Kind.COMMAND: "ICommand", Kind.EVENT: "IEvent", Kind.MESSAGE: "IMessage"}
_FORMATS: Final = {
    "uuid": "Guid",
    "date-time": "DateTimeOffset",
    "date": "DateOnly",
    "time": "TimeOnly",
    TIME_SPAN: "TimeSpan",
}
_PLAIN: Final = {"boolean": "bool", "integer": "long", "string": "string"}
_KEYS: Final = {"integer": "long", "decimal": "decimal", "double": "double"}
_COLLECTIONS: Final = ("List<", "HashSet<", "Dictionary<")
_NUMBERS: Final = frozenset({"long", "double", "decimal"})
_NOT_OF_NAMES: Final = re.compile(r"\W+", re.ASCII)
_PASCAL: Final = Names("pascal")
_INT32: Final = range(-(2**31), 2**31)


def to_csharp(contract: Contract) -> str:
    """Return the source of one C# file with the records of a contract's messages, in the namespaces of their names."""
    return _File(contract).text()


class _File:
    """The types of a file, each with the name that it has in C#."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._schemas, self._messages = contract.keyed()
        self._known = {one.name: one for one in contract.messages}
        named = (_split(one.name)[0] for one in contract.messages)
        self._common = next((space for space in named if space), "Messages")

    def text(self) -> str:
        """Return the source, namespace by namespace."""
        spaces: dict[str, list[str]] = {}
        for key, schema in self._schemas.items():
            message = self._messages.get(key)
            space, outer, name = _split(message.name) if message else (self._common, (), _name(key))
            made = self._type(name, schema, message)
            if made:
                for one in reversed(outer):
                    made = f"public static partial class {one}\n{{\n{_indented(made)}\n}}"
                spaces.setdefault(space or self._common, []).append(made)
        for interface in self._interfaces():
            space, _, name = _split(interface)
            spaces.setdefault(space or self._common, []).append(f"public interface {name} : IEvent {{ }}")
        bodies = (
            f"namespace {space}\n{{\n{_indented(chr(10).join(types))}\n}}\n"
            for space, types in sorted(spaces.items())
        )
        return "\n".join([_HEAD, *bodies])

    def _interfaces(self) -> list[str]:
        """Return the parents that are no messages of the contract: interfaces that only mark."""
        parents = (parent for one in self._contract.messages for parent in one.parents)
        return [name for name in dict.fromkeys(parents) if name not in self._known]

    def _type(self, name: str, schema: Schema, message: Message | None) -> str:
        if "x-enum-varnames" in schema:
            return _enum(name, schema)
        if "properties" not in schema:
            return ""
        inherited = self._inherited(message)
        head = " : ".join(filter(None, [f"public record {name}", ", ".join(self._bases(message))]))
        required = schema.get("required", ())
        lines = [
            line
            for wire_name, one in schema["properties"].items()
            if wire_name not in inherited
            for line in self._property(name, wire_name, one, is_required=wire_name in required)
        ]
        summary = (
            [f"/// <summary>{_escaped(message.description)}</summary>"]
            if message and message.description
            else []
        )
        return "\n".join([*summary, head, "{", *(f"    {line}" for line in lines), "}"])

    def _base(self, message: Message | None) -> Message | None:
        """Return the nearest parent that is a record here."""
        names = message.parents if message else ()
        return next((self._known[name] for name in names if name in self._known), None)

    def _bases(self, message: Message | None) -> list[str]:
        if message is None:
            return []
        base = self._base(message)
        marks = [_full(name) for name in message.parents if name not in self._known]
        own = [_full(base.name)] if base else []
        return [*own, *marks] or [_INTERFACES[message.kind]]

    def _inherited(self, message: Message | None) -> set[str]:
        base = self._base(message)
        if base is None:
            return set()
        return {*self._contract.resolved(base.payload).get("properties", {}), *self._inherited(base)}

    def _property(self, owner: str, wire_name: str, schema: Schema, *, is_required: bool) -> Iterator[str]:
        if schema.get(TAG):
            return
        name = _name(_PASCAL.written(wire_name))
        name = f"{name}Value" if name == owner else name  # which C# does not allow
        if name != wire_name:
            yield f"[JsonPropertyName({json.dumps(wire_name)})]"
        kind = self.type(schema)
        given = "" if is_required else self._default(schema, kind)
        must = "required " if is_required else ""
        if not is_required and not given and not kind.endswith("?"):
            kind = f"{kind}?"
            yield "[JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)]"  # left out, and not null
        yield f"public {must}{kind} {name} {{ get; init; }}{given}"

    def _default(self, schema: Schema, kind: str) -> str:
        value = schema.get("default")
        found = self._contract.resolved(schema)
        values = _values(found)
        text = ""
        if is_list(value) or is_object(value):
            text = "new()" if not value and kind.startswith(_COLLECTIONS) else ""
        elif "x-enum-varnames" in found:
            is_member = value in values and kind != "string"
            text = f"{kind}.{_name(found['x-enum-varnames'][values.index(value)])}" if is_member else ""
        elif isinstance(value, str) and kind in {"string", "TimeSpan"}:
            text = f"TimeSpan.Parse({json.dumps(value)})" if kind == "TimeSpan" else json.dumps(value)
        elif isinstance(value, bool) or (isinstance(value, int | float) and kind in _NUMBERS):
            text = f"{json.dumps(value)}{'m' if kind == 'decimal' else ''}"
        return f" = {text};" if text else ""

    def type(self, schema: Schema) -> str:
        """Return the C# type of a schema."""
        if "$ref" in schema:
            return self._reference(key_of(schema))
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return self._choice([one for one in choices if one.get("type") != "null"])
        kind = schema.get("type")
        if is_list(kind):
            return self._choice([{**schema, "type": one} for one in kind if one != "null"])
        if "enum" in schema:
            return "string" if all(isinstance(value, str) for value in schema["enum"]) else "long"
        return self._of_type(str(kind), schema)

    def _reference(self, key: str) -> str:
        found = self._schemas.get(key, {})
        if key in self._messages:
            return _full(self._messages[key].name)
        if "x-enum-varnames" in found and not _is_numbered(found):
            return "string"
        if "properties" in found or "x-enum-varnames" in found:
            return _name(key)
        return self.type({word: one for word, one in found.items() if word != "$ref"})

    def _choice(self, members: list[Schema]) -> str:
        found = self.type(members[0]) if len(members) == 1 else "object"
        return found if found.endswith("?") else f"{found}?"

    def _of_type(self, kind: str, schema: Schema) -> str:
        form = str(schema.get("format", ""))
        if kind == "array":
            items = schema.get("items", {})
            inner = "object?" if is_list(items) else self.type(items)
            return f"{'HashSet' if schema.get('uniqueItems') else 'List'}<{inner}>"
        if kind == "object":
            keys, values = (
                str(schema.get("propertyNames", {}).get("format", "")),
                schema.get("additionalProperties"),
            )
            key = _KEYS.get(keys) or _FORMATS.get(keys, "string")
            return f"Dictionary<{key}, {self.type(values) if is_object(values) else 'object?'}>"
        if kind == "number":
            return "decimal" if form == "decimal" else "double"
        if kind == "string" and schema.get("contentEncoding") == "base64":
            return "byte[]"
        if kind == "string" and form in _FORMATS:
            return _FORMATS[form]
        return _PLAIN.get(kind, "object?")


def _values(schema: Schema) -> list[Any]:
    values: list[Any] = schema.get("enum") or schema.get("x-enum-values", [])
    return values


def _is_numbered(schema: Schema) -> bool:
    return all(isinstance(value, int) for value in _values(schema))


def _enum(name: str, schema: Schema) -> str:
    """Return an enum of numbers; one of texts is `string` where it is used."""
    if not _is_numbered(schema):
        return ""
    values = _values(schema)
    size = "" if all(value in _INT32 for value in values) else " : long"
    marks = ["[Flags]"] if schema.get("format") == "flags" else []
    pairs = zip(schema["x-enum-varnames"], values, strict=False)
    members = (f"    {_name(member)} = {value}," for member, value in pairs)
    return "\n".join([*marks, f"public enum {name}{size}", "{", *members, "}"])


def _split(name: str) -> tuple[str, tuple[str, ...], str]:
    """Return the namespace of a name on the wire, the classes around it, and its own; `+` is before an inner one."""
    space, _, last = name.partition("`")[0].rpartition(".")
    *outer, own = last.split("+")
    return ".".join(map(_name, filter(None, space.split(".")))), tuple(map(_name, outer)), _name(own)


def _full(name: str) -> str:
    space, outer, own = _split(name)
    return f"global::{'.'.join([*([space] if space else []), *outer, own])}"


def _name(text: str) -> str:
    name = _NOT_OF_NAMES.sub("_", text).strip("_") or "_"
    name = f"_{name}" if name[0].isdigit() else name
    return f"@{name}" if name.islower() else name  # as all words of the language are


def _escaped(text: str) -> str:
    """Return a text as one line of a comment in XML."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.split("\n"))
