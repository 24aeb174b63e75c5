"""A contract as a Python module: a msgspec struct for each type of message and each class within.

Fields have Python's names, and in bodies those of the contract. A union that no reader could tell apart is `Any`.

Invariant: the classes read and write the bodies of the contract, and describing them gives its schemas again.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rowbus.contracts.contract import free_name, key_of
from rowbus.contracts.schemas import BOUNDS, LENGTHS, OMITS, TAG, TIME_SPAN
from rowbus.errors import InvalidTimestampError
from rowbus.messages.bodies.shape import is_list, is_object
from rowbus.messages.timestamps import parse_time_span

if TYPE_CHECKING:
    from rowbus.contracts.contract import Contract, Message, Schema

_HEAD: Final = """\
from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import rowbus
"""
_IMPORTED: Final = frozenset(re.findall(r"\w+", _HEAD))
_FORMATS: Final = {
    "uuid": "UUID",
    "date-time": "datetime",
    "date": "date",
    "time": "time",
    TIME_SPAN: "timedelta",
    "duration": "timedelta",
}
_PLAIN: Final = {"null": "None", "boolean": "bool", "integer": "int", "string": "str"}
_KEYS: Final = {"integer": "int", "decimal": "Decimal", "double": "float"}
_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_OF_NAMES: Final = re.compile(r"\W+", re.ASCII)


def to_python(contract: Contract) -> str:
    """Return the source of a module with the classes of a contract's messages."""
    return _Module(contract).text()


def class_name(name: str) -> str:
    """Return what a class of this name on the wire is called: its last part, as an identifier."""
    last = re.split(r"[.+]", name.partition("`")[0])[-1]
    return _identifier(last if _NOT_OF_NAMES.sub("", last) else name)


def _identifier(text: str) -> str:
    name = _NOT_OF_NAMES.sub("_", text).strip("_") or "field"
    name = f"_{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) else name


class _Module:
    """The classes of a module, with the names that they have in it."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._schemas, self._messages = contract.keyed()
        self._names: dict[str, str] = {}
        for key in (*(key for key in self._messages if key in self._schemas), *self._schemas):
            self._names.setdefault(key, self._free(class_name(key)))
        self._within: list[tuple[str, Schema]] = []
        self._open: set[str] = set()

    def text(self) -> str:
        """Return the source: enums first, whose members are defaults, then classes."""
        schemas = [(self._names[key], key, one) for key, one in self._schemas.items()]
        enums = [_enum(name, one) for name, _, one in schemas if _is_enum(one)]
        classes = [
            self._struct(name, one, self._messages.get(key))
            for name, key, one in schemas
            if "properties" in one
        ]
        while self._within:
            name, schema = self._within.pop(0)
            classes.append(self._struct(name, schema, None))
        title = self._contract.title or "a contract"
        told = _docstring(f"The messages of {title}, as `rowbus contracts python` wrote them.")
        parts = [f"{told}\n\n{_HEAD}", *enums, *classes]
        return "\n\n".join(parts)

    def _free(self, name: str) -> str:
        return free_name(name, _IMPORTED.union(self._names.values()))

    def _struct(self, name: str, schema: Schema, message: Message | None) -> str:
        options = ["kw_only=True"]
        lines: list[str] = []
        required = schema.get("required", ())
        taken: set[str] = set()
        for wire_name, one in schema.get("properties", {}).items():
            if one.get(TAG):
                options.append(f"tag_field={wire_name!r}, tag={one['enum'][0]!r}")
                continue
            attribute = _attribute(wire_name, taken)
            lines.append(
                f"    {attribute}: {self._field(attribute, wire_name, one, name, wire_name in required)}"
            )
        if schema.get("additionalProperties") is False:
            options.append("forbid_unknown_fields=True")
        if schema.get(OMITS):
            options.append("omit_defaults=True")
        doc = [f"    {_docstring(message.description)}\n"] if message and message.description else []
        head = [*_decorator(message), f"class {name}(msgspec.Struct, {', '.join(options)}):"]
        return "\n".join([*head, *doc, *(lines or ([] if doc else ["    pass"]))]) + "\n"

    def _field(self, attribute: str, wire_name: str, schema: Schema, owner: str, is_required: bool) -> str:  # noqa: FBT001
        kind = self.type(schema, f"{owner}{wire_name[:1].upper()}{wire_name[1:]}")
        given: list[str] = []
        if not is_required:
            default = self._default(schema)
            if default is None:
                kind, default = f"{kind} | msgspec.UnsetType", "default=msgspec.UNSET"
            given.append(default)
        if attribute != wire_name:
            given.append(f"name={wire_name!r}")
        return f"{kind} = msgspec.field({', '.join(given)})" if given else kind

    def type(self, schema: Schema, name: str = "Value") -> str:
        """Return a type as an annotation; an object within gets a class of this name."""
        if "$ref" in schema:
            return self._reference(key_of(schema), name)
        if "enum" in schema or "const" in schema:
            return f"Literal[{', '.join(map(repr, schema.get('enum', [schema.get('const')])))}]"
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return self._union(choices, name)
        kind = schema.get("type")
        if is_list(kind):
            return self._union([{**schema, "type": one} for one in kind], name)
        return self._of_type(str(kind), schema, name)

    def _reference(self, key: str, name: str) -> str:
        """Return a class by its name, and what is none as it is; `Any`, for what holds itself and is none."""
        found = self._schemas.get(key, {})
        if _is_enum(found) or "properties" in found:
            return self._names[key]
        if key in self._open:
            return "Any"
        self._open.add(key)
        told = self.type(found, name)
        self._open.discard(key)
        return told

    def _of_type(self, kind: str, schema: Schema, name: str) -> str:
        form = str(schema.get("format", ""))
        if kind == "array":
            return self._array(schema, name)
        if kind == "object":
            return self._object(schema, name)
        if kind == "number":
            return _bounded("Decimal" if form == "decimal" else "float", schema, BOUNDS)
        if kind == "string" and schema.get("contentEncoding") == "base64":
            return "bytes"
        if kind == "string" and form in _FORMATS:
            return _FORMATS[form]
        return _bounded(_PLAIN[kind], schema, BOUNDS) if kind in _PLAIN else "Any"

    def _array(self, schema: Schema, name: str) -> str:
        items = schema.get("items", {})
        if is_list(items):
            inner = ", ".join(self.type(one, f"{name}{number}") for number, one in enumerate(items))
            return f"tuple[{inner or '()'}]"
        kind = "set" if schema.get("uniqueItems") else "list"
        return _bounded(f"{kind}[{self.type(items, f'{name}Item')}]", schema, LENGTHS)

    def _object(self, schema: Schema, name: str) -> str:
        if "properties" in schema:
            free = self._free(_identifier(name))
            self._within.append((free, schema))
            self._names[f"#{free}"] = free
            return free
        keys = schema.get("propertyNames", {"type": "string"})
        form = str(keys.get("format", ""))
        key = _KEYS.get(form) or _FORMATS.get(form) or self.type(keys)
        values = schema.get("additionalProperties", {})
        return f"dict[{key}, {self.type(values, f'{name}Value') if is_object(values) else 'Any'}]"

    def _union(self, choices: list[Schema], name: str) -> str:
        members = [self._contract.resolved(one) for one in choices]
        if not _can_be_told_apart(members):
            return "Any"
        return " | ".join(dict.fromkeys(self.type(one, name) for one in choices))

    def _default(self, schema: Schema) -> str | None:
        """Return a field's default as an argument in the source; None: it has none that could be written."""
        if "default" not in schema:
            return None
        value, found = schema["default"], self._contract.resolved(schema)
        if value is None:
            return "default=None"
        if _is_enum(found):
            return f"default={self._names[key_of(schema)]}({value!r})"
        if is_list(value) or is_object(value):
            factory = "set" if found.get("uniqueItems") else "dict" if is_object(value) else "list"
            return (
                None
                if value or found.get("type") not in {"array", "object"}
                else f"default_factory={factory}"
            )
        text = _literal(value, found)
        return None if text is None else f"default={text}"


def _literal(value: Any, schema: Schema) -> str | None:  # noqa: ANN401 - what a document holds
    """Return a value of a leaf as Python writes it; None for one whose type is open, or that is of no such type."""
    form = str(schema.get("format", ""))
    if "anyOf" in schema or "oneOf" in schema:
        return repr(value) if isinstance(value, bool | int) else None
    if form == "decimal":
        return f"Decimal({str(value)!r})"
    if schema.get("type") == "number":
        return repr(float(value))
    if form == "uuid":
        return f"UUID({value!r})"
    if form == TIME_SPAN:
        return _span(str(value))
    is_plain = form not in _FORMATS and "contentEncoding" not in schema
    return repr(value) if is_plain else None


def _span(text: str) -> str | None:
    try:
        found: timedelta = parse_time_span(text)
    except InvalidTimestampError:
        return None
    return f"timedelta({found.days}, {found.seconds}, {found.microseconds})"


def _decorator(message: Message | None) -> Iterator[str]:
    if message is not None:
        parents = f", parents={message.parents!r}" if message.parents else ""
        yield f"@rowbus.{message.kind.value}({message.name!r}{parents})"


def _docstring(text: str) -> str:
    safe = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{safe}"""'


def _attribute(wire_name: str, taken: set[str]) -> str:
    """Return a field's name in Python: `OrderId` as `order_id`, unlike the others of its class."""
    name = free_name(_identifier("_".join(_BOUNDARY.split(wire_name)).lower()), taken)
    taken.add(name)
    return name


def _bounded(kind: str, schema: Schema, names: Mapping[str, str]) -> str:
    given = [f"{attribute}={schema[word]!r}" for attribute, word in names.items() if word in schema]
    return f"Annotated[{kind}, msgspec.Meta({', '.join(given)})]" if given else kind


def _is_enum(schema: Schema) -> bool:
    return "x-enum-varnames" in schema


def _enum(name: str, schema: Schema) -> str:
    form = schema.get("format")
    values = schema.get("x-enum-values") or schema.get("enum", ())
    bases: dict[object, str] = {"flags": "IntFlag", "open-enum": "rowbus.OpenEnum"}
    whole = all(isinstance(value, int) for value in values)
    base = bases.get(form, "IntEnum" if whole else "Enum")
    pairs = zip(schema["x-enum-varnames"], values, strict=False)
    lines = [f"    {_identifier(member)} = {value!r}" for member, value in pairs]
    return "\n".join([f"class {name}({base}):", *(lines or ["    pass"])]) + "\n"


_FORMS: Final = {"string": "text"}


def _tag_of(schema: Schema) -> str:
    """Return what tells a struct from others in a union; empty for one that nothing tells."""
    tags = [str(one["enum"][0]) for one in schema.get("properties", {}).values() if one.get(TAG)]
    return f"tag {tags[0]}" if tags else ""


def _forms(schema: Schema) -> set[str]:
    """Return by what a reader knows a value of this type in a body; empty: by nothing."""
    if "enum" in schema:
        return {"text" if isinstance(value, str) else "integer" for value in schema["enum"]}
    if schema.get("format") == "decimal":
        return {"integer", "number", "text"}
    kind = str(schema.get("type", ""))
    return {_tag_of(schema) or _FORMS.get(kind, kind)} if kind else set()


def _can_be_told_apart(members: list[Schema]) -> bool:
    """Say whether msgspec can tell from a value in a body which of several types it is of."""
    each = [_forms(one) for one in members]
    forms = [form for found in each for form in found]
    has_tags = any(form.startswith("tag ") for form in forms)
    is_choice = len(set(forms)) == len(forms) and not (has_tags and "object" in forms)
    return len(members) == 1 or (all(each) and is_choice)
