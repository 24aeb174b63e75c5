"""The metadata of a .NET assembly: its types by name, with bases, properties, attributes and constants.

Invariant: nothing of an assembly is run, and no other file than it is read.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Row = Any
    """A row of a table of metadata; dnfile names its columns as ECMA-335 does."""

_ACCESS: Final = 7
_PUBLIC: Final = 6
_STATIC: Final = 0x10
_SETTER: Final = 1
_GETTER: Final = 2
_INTERFACE: Final = 0x20
_LITERAL: Final = 0x40
_TEXTS: Final = 0x0E  # the type of a constant that is text
_SIGNED: Final = frozenset({0x04, 0x06, 0x08, 0x0A})


class Metadata:
    """The tables of an assembly, joined as what asks needs them; rows are counted from one, as references do."""

    def __init__(self, path: Path) -> None:
        """Read an assembly, which needs dnfile; raises whatever its reader does for a file that is none."""
        read: Any = import_module("dnfile").dnPE  # an extra, without annotations of what is asked of it
        self._tables: Any = read(data=path.read_bytes()).net.mdtables
        self.name = str(self.rows("Assembly")[0].Name)

    def rows(self, table: str) -> list[Row]:
        """Return the rows of a table; none, where an assembly has no such table."""
        found = getattr(self._tables, table, None)
        return [] if found is None else list(found.rows)

    @cached_property
    def types(self) -> dict[int, Row]:
        """The types that the assembly defines, without those that its compiler made."""
        numbered = enumerate(self.rows("TypeDef"), 1)
        return {number: row for number, row in numbered if not str(row.TypeName).startswith("<")}

    @cached_property
    def _outer(self) -> dict[int, int]:
        """The types that hold others."""
        rows = self.rows("NestedClass")
        return {row.NestedClass.row_index: row.EnclosingClass.row_index for row in rows}

    def full_name(self, number: int) -> str:
        """Return a type's name as .NET's FullName has it, `Namespace.Outer+Inner`."""
        rows = self.rows("TypeDef")
        return "+".join(reversed([named(rows[one - 1]) for one in self.and_holders(number)]))

    def and_holders(self, number: int) -> Iterator[int]:
        """Give a type, and then the types that hold it, from the inside out; each once, also in a corrupt file."""
        known, at = dict(self._outer), number
        yield at
        while (outer := known.pop(at, None)) is not None:
            yield (at := outer)

    def bases(self, number: int) -> Iterator[Row]:
        """Give references to a type's base and to its interfaces."""
        extends = self.types[number].Extends
        if extends is not None and extends.row is not None:
            yield extends
        yield from self._interfaces.get(number, ())

    @cached_property
    def _interfaces(self) -> dict[int, list[Row]]:
        found: dict[int, list[Row]] = {}
        for row in self.rows("InterfaceImpl"):
            found.setdefault(row.Class.row_index, []).append(row.Interface)
        return found

    def is_interface(self, number: int) -> bool:
        """Say whether a type is an interface."""
        return bool(self.types[number].struct.Flags & _INTERFACE)

    def properties(self, number: int) -> Iterator[tuple[int, str, bytes]]:
        """Give a type's public properties that hold a value: its row's number, its name, its type's signature.

        Those are left out that are computed (no setter, and no field behind them), static, or indexers.
        """
        behind = {str(field.row.Name) for field in self.types[number].FieldList}
        for property_ in self._properties.get(number, ()):
            name, accessors = str(property_.row.Name), self._accessors.get(property_.row_index, {})
            flags = accessors[_GETTER].struct.Flags if _GETTER in accessors else 0
            holds = self.is_interface(number) or _SETTER in accessors or f"<{name}>k__BackingField" in behind
            signature = bytes(property_.row.Type.value_bytes())
            if holds and flags & _ACCESS == _PUBLIC and not flags & _STATIC and signature[1] == 0:
                yield property_.row_index, name, signature[2:]

    @cached_property
    def _properties(self) -> dict[int, list[Row]]:
        return {row.Parent.row_index: list(row.PropertyList) for row in self.rows("PropertyMap")}

    @cached_property
    def _accessors(self) -> dict[int, dict[int, Row]]:
        found: dict[int, dict[int, Row]] = {}
        for row in self.rows("MethodSemantics"):
            if row.Association.table.name == "Property":
                found.setdefault(row.Association.row_index, {})[row.struct.Semantics] = row.Method.row
        return found

    def attributes(self, table: str, number: int) -> dict[str, bytes]:
        """Return the attributes of a row by their names, with their arguments as they are kept."""
        return self._attributes.get((table, number), {})

    @cached_property
    def _attributes(self) -> dict[tuple[str, int], dict[str, bytes]]:
        owners = {method.row_index: row for row in self.rows("TypeDef") for method in row.MethodList}
        found: dict[tuple[str, int], dict[str, bytes]] = {}
        for row in self.rows("CustomAttribute"):
            is_own = row.Type.table.name == "MethodDef"
            kind = owners.get(row.Type.row_index) if is_own else row.Type.row.Class.row
            if kind is not None and hasattr(kind, "TypeName"):
                given = found.setdefault((row.Parent.table.name, row.Parent.row_index), {})
                given[named(kind)] = bytes(row.Value.value_bytes()) if row.Value else b""
        return found

    def members(self, number: int) -> dict[str, Any]:
        """Return the names and values of an enum's members."""
        literals = [one for one in self.types[number].FieldList if one.row.struct.Flags & _LITERAL]
        return {str(one.row.Name): self._constants.get(one.row_index, 0) for one in literals}

    @cached_property
    def _constants(self) -> dict[int, int]:
        return {
            row.Parent.row_index: int.from_bytes(
                row.Value.value_bytes(), "little", signed=row.struct.Type in _SIGNED
            )
            for row in self.rows("Constant")
            if row.Parent.table.name == "Field" and row.struct.Type < _TEXTS and row.Value
        }


def named(row: Row) -> str:
    """Return a type's name with its namespace; empty for what has no name, as an instance of a generic one."""
    namespace, name = str(getattr(row, "TypeNamespace", "") or ""), str(getattr(row, "TypeName", "") or "")
    return f"{namespace}.{name}" if namespace else name
