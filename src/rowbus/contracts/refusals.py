"""The refusals by readers of one schema of what is written by another.

Invariant: pure; a schema refuses nothing of itself. Where a schema says nothing, nothing is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.contracts.fit import Misfit, reason_against, shown, within
from rowbus.contracts.schemas import OMITS
from rowbus.messages.bodies.shape import is_list, is_object

if TYPE_CHECKING:
    from rowbus.contracts.contract import Contract, Schema

_LEAST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_MOST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_ALIKE: Final = ("pattern", "multipleOf", "contentEncoding")
_OPEN: Final = frozenset({"double", "decimal", "flags", "open-enum", ""})  # formats that refuse no number


class Side(NamedTuple):
    """A schema and the contract in which its references lead somewhere."""

    contract: Contract
    schema: Schema

    def to(self, schema: Schema) -> Side:
        """Return a part of it, and what that refers to."""
        return Side(self.contract, self.contract.resolved(schema))


def refusals(reader: Side, writer: Side, *, writes_all: bool) -> list[Misfit]:
    """Return what a reader refuses of a writer's bodies.

    A program `writes_all` fields of its class; what is written by a document's word may lack the optional ones.
    """
    compared = _Comparison(writes_all=writes_all)
    return list(dict.fromkeys(compared.of(reader.to(reader.schema), writer.to(writer.schema), "")))


_PAIRS: Final = 10_000
"""Pairs of values that are compared; beyond are those of contracts that lead along very many ways to the same."""


class _Comparison:
    """A walk through two schemas, which may hold themselves."""

    def __init__(self, *, writes_all: bool) -> None:
        self._writes_all = writes_all
        self._seen: set[tuple[int, int]] = set()
        self._left = _PAIRS

    def of(self, reader: Side, writer: Side, path: str) -> Iterator[Misfit]:
        """Give what is refused, of the value at a path."""
        mark = id(reader.schema), id(writer.schema)
        if not reader.schema or not writer.schema or mark in self._seen or not self._left:
            return
        self._left -= 1
        self._seen.add(mark)
        yield from self._choices(reader, writer, path)
        self._seen.discard(mark)

    def _choices(self, reader: Side, writer: Side, path: str) -> Iterator[Misfit]:
        written = _alternatives(writer)
        if len(written) > 1:
            for one in written:
                yield from self.of(reader, one, path)
            return
        tried = [list(self._value(one, written[0], path)) for one in _alternatives(reader)]
        if all(tried):
            yield from min(tried, key=lambda found: (_is_of_type(found), len(found)))

    def _value(self, reader: Side, writer: Side, path: str) -> Iterator[Misfit]:
        reason = _reason(reader.schema, writer.schema)
        if reason is not None:
            yield Misfit(path, reason)
            return
        if "properties" in writer.schema or "additionalProperties" in writer.schema:
            yield from self._fields(reader, writer, path)
        if "items" in writer.schema and "items" in reader.schema:
            yield from self._items(reader, writer, path)

    def _fields(self, reader: Side, writer: Side, path: str) -> Iterator[Misfit]:
        known, written = reader.schema.get("properties", {}), writer.schema.get("properties", {})
        others = reader.schema.get("additionalProperties", True)
        sure = self._writes_all and not writer.schema.get(OMITS)
        for name in reader.schema.get("required", ()):
            if name not in written:
                yield Misfit(within(path, name), "is required, and not there")
            elif not sure and name not in writer.schema.get("required", ()):
                yield Misfit(within(path, name), "is required, and may be left out")
        for name, schema in written.items():
            if name in known:
                yield from self.of(reader.to(known[name]), writer.to(schema), within(path, name))
            elif others is False:
                yield Misfit(within(path, name), "is not known, and none but known fields are read")
        more = writer.schema.get("additionalProperties")
        if is_object(others) and is_object(more):
            yield from self.of(reader.to(others), writer.to(more), f"{path}[…]")

    def _items(self, reader: Side, writer: Side, path: str) -> Iterator[Misfit]:
        here, there = reader.schema["items"], writer.schema["items"]
        if is_list(here) and is_list(there):
            for number, (one, other) in enumerate(zip(here, there, strict=False)):
                yield from self.of(reader.to(one), writer.to(other), f"{path}[{number}]")
        elif is_object(here) and is_object(there):
            yield from self.of(reader.to(here), writer.to(there), f"{path}[]")


def _is_of_type(found: list[Misfit]) -> bool:
    return any("has to be" in one.reason for one in found)


def _alternatives(side: Side) -> list[Side]:
    """Return the choices of a schema, those within choices too; where there are none, itself, or one that takes all."""
    found, left, seen = list[Side](), [side], set[int]()
    while left:
        one = left.pop(0)
        if id(one.schema) in seen:  # choices may lead to themselves
            continue
        seen.add(id(one.schema))
        types, choices = one.schema.get("type"), one.schema.get("anyOf") or one.schema.get("oneOf")
        if is_list(types):
            found += [one.to({**one.schema, "type": each}) for each in types]
        elif choices:
            left[:0] = [one.to(each) for each in choices]
        else:
            found.append(one)
    return found or [side.to({})]


def _reason(reader: Schema, writer: Schema) -> str | None:
    """Say why a value is refused by what is said of it alone; None: it is not."""
    values = _values(writer)
    if values is not None:
        refused = [value for value in values if reason_against(value, reader) is not None]
        return f"may be {', '.join(map(shown, refused))}, which is not read" if refused else None
    if _values(reader) is not None:
        return f"has to be one of {', '.join(map(shown, _values(reader) or ()))}, and may be another"
    one, other = reader.get("type"), writer.get("type")
    if one is not None and other not in {one, None} and (one, other) != ("number", "integer"):
        return f"has to be {one}, and is {other}"
    here, there = str(reader.get("format", "")), str(writer.get("format", ""))
    if here not in _OPEN and here != there:
        return f"has to be {one} ({here}), and is {f'{other} ({there})' if there else f'any {other}'}"
    return next((reason for find in _BOUNDS if (reason := find(reader, writer)) is not None), None)


def _values(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    found: list[Any] | None = schema.get("enum")
    return found


def _too_small(reader: Schema, writer: Schema) -> str | None:
    return _out_of(reader, writer, _LEAST, lambda bound, other: other < bound)


def _too_large(reader: Schema, writer: Schema) -> str | None:
    return _out_of(reader, writer, _MOST, lambda bound, other: other > bound)


def _unlike(reader: Schema, writer: Schema) -> str | None:
    words = (
        [*_ALIKE] if writer.get("contentEncoding") == reader.get("contentEncoding") else ["contentEncoding"]
    )
    for word in words:
        if reader.get(word) != writer.get(word) and (word in reader or word == "contentEncoding"):
            return f"has to keep {word} {reader.get(word)}, and has {writer.get(word, 'none')}"
    return None


def _out_of(
    reader: Schema, writer: Schema, words: tuple[str, ...], breaks: Callable[[Any, Any], bool]
) -> str | None:
    for word in words:
        if word in reader and (word not in writer or breaks(reader[word], writer[word])):
            return f"has to keep {word} {reader[word]}, and has {writer.get(word, 'none')}"
    return None


_BOUNDS: Final[tuple[Callable[[Mapping[str, Any], Mapping[str, Any]], str | None], ...]] = (
    _too_small,
    _too_large,
    _unlike,
)
