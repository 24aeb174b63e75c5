"""Decides whether a lake's table can follow an ALTER TABLE in place, and how rows of before look after it.

A column is known by its number, which PostgreSQL keeps when it is renamed and never gives to another. As long as the
table's files are the same, no row was rewritten, and no partition brought or took any:
values of before are as they were, and those of a new column are the
one that the catalogue has for them.

Invariant: no I/O. What might be told wrongly (another type, a name that now is another column's, a column that came and
went between two looks) is no evolution, so the table is copied anew.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from rowbus.spark.captured import converted, lake_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rowbus.spark.lake.tables.net_changes import Row

_SURE: Final = frozenset({"bool", "int2", "int4", "int8", "numeric", "text", "varchar", "bpchar", "uuid"})
"""Types whose texts are the same in every session."""

_arrow: Any = pa  # its stubs know no arrays of any type


class Column(NamedTuple):
    """A column, as events show it; fields as in `describe_source_tables.sql`."""

    number: int
    name: str
    type: str
    modifier: int
    mask: str | None
    filled: str | None
    """The value that rows of before the column have."""

    labels: dict[str, str] | None = None
    """The values of an enum, by their numbers; None for others, and where they are not noted."""

    def becomes(self, other: Column) -> bool:
        """Say whether values of this column are values of the other, in the lake as well."""
        if self.mask != other.mask or not (self.labels or {}).items() <= (other.labels or {}).items():
            return False
        ours, theirs = (lake_type(it.type, it.modifier) for it in (self, other))
        return ours.equals(theirs) or widens(ours, theirs)


class TableForm(NamedTuple):
    """A table: its number, its file, the number of its last column ever, whether it is none of partitions."""

    table: int
    files: str
    last: int
    plain: bool
    columns: list[Column]
    parts: dict[str, str]
    """The partitions, by their numbers: since when each is in its place, and its file."""

    born: list[str]
    """The partitions that were made in their place, so that events told all their rows."""

    trigger: int = 0
    """The number of the trigger that tells the rows, another when there was none for a while; 0: not noted."""

    @classmethod
    def parse(cls, text: str) -> TableForm | None:
        """Read the JSON of a description; None where nothing was noted."""
        if not text:
            return None
        found: dict[str, Any] = {"parts": {}, "born": []} | json.loads(text)
        columns = [Column(**column) for column in found.pop("columns")]
        return cls(**found, columns=columns)

    @property
    def all_files(self) -> dict[str, str]:
        """The files of the table and of its partitions, by the numbers of these."""
        parts = {number: part.rpartition(":")[2] for number, part in self.parts.items()}
        return {str(self.table): self.files} | parts

    def has_the_rows_of(self, held: TableForm) -> bool:
        """Say whether no rows were written anew or untold, and none came or went with a partition."""
        same = (held.table, held.files) == (self.table, self.files) and held.trigger in {0, self.trigger}
        kept = held.parts.items() <= self.parts.items()
        return same and kept and self.parts.keys() - held.parts.keys() <= set(self.born)

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of columns."""
        known = {column.name: column.number for column in self.columns}
        return [known[name] for name in names]


class Evolution(NamedTuple):
    """The new names of columns of before, None for those that are gone; and what rows of before have in new ones."""

    names: dict[str, str | None]
    filled: dict[str, str | None]

    def then(self, later: Evolution) -> Evolution:
        """Return both, one after the other."""
        names = {old: name and later.names.get(name, name) for old, name in self.names.items()}
        filled = {later.names.get(name, name): value for name, value in self.filled.items()}
        kept = {name: value for name, value in filled.items() if name is not None}
        return Evolution({**later.names, **names}, kept | later.filled)

    def renamed(self, names: Iterable[str]) -> list[str]:
        """Return columns of before by their names now, without those that are gone."""
        now = (self.names.get(name, name) for name in names)
        return sorted(name for name in now if name is not None)

    def row(self, row: Row, columns: Collection[str]) -> Row:
        """Return a row as it looks now; one that cannot be told stays as it is."""
        if not (self.names or self.filled) or row.keys() == columns:
            return row
        named = [(name if name in columns else self.names.get(name, name), row[name]) for name in row]
        told = {name: value for name, value in named if name is not None}
        if len(told) < sum(name is not None for name, _ in named):
            return row
        return self.filled | told


class Reshaping(NamedTuple):
    """An evolution, and the types that columns have in the database now, by their names."""

    evolution: Evolution
    types: Mapping[str, str]

    @property
    def only_adds_nulls(self) -> bool:
        """Whether there are only new columns, which rows of before do not have."""
        return not self.evolution.names and all(text is None for text in self.evolution.filled.values())

    def rows(self, batch: Any, schema: pa.Schema) -> pa.RecordBatch:  # noqa: ANN401 - a batch, whose stubs are partial
        """Return rows of before in the columns of now; raises Unfit."""
        filled = self.evolution.filled
        old = {name: before for before, name in self.evolution.names.items()}
        arrays = [
            _filled(filled[name], name, self.types[name], kind, batch.num_rows)
            if name in filled
            else batch.column(old.get(name, name)).cast(kind)
            for name, kind in zip(schema.names, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _filled(text: str | None, name: str, type_name: str, kind: pa.DataType, rows: int) -> pa.Array[Any]:
    [value] = converted(name, type_name, pa.array([text], pa.string()), kind)
    column: pa.Array[Any] = _arrow.repeat(value, rows)
    return column


def evolution(held: TableForm | None, now: TableForm | None) -> Evolution | None:
    """Return what became of a table's columns; None when it has to be copied anew."""
    if held is None or now is None or not now.has_the_rows_of(held):
        return None
    before, after = ({column.number: column for column in form.columns} for form in (held, now))
    added = [column for number, column in after.items() if number not in before]
    if {column.number for column in added} != set(range(held.last + 1, now.last + 1)):
        return None
    if not all(before[number].becomes(after[number]) for number in before.keys() & after.keys()):
        return None
    if added and not (now.plain and all(column.filled is None or column.type in _SURE for column in added)):
        return None
    found = Evolution(_names(before, after), {column.name: column.filled for column in added})
    return None if is_ambiguous(found, now) else found


def is_ambiguous(found: Evolution, now: TableForm) -> bool:
    """Say whether a name of before is another column's now, so that rows do not tell which they mean."""
    return not found.names.keys().isdisjoint(column.name for column in now.columns)


def _names(before: Mapping[int, Column], after: Mapping[int, Column]) -> dict[str, str | None]:
    now = {column.name: after[number].name if number in after else None for number, column in before.items()}
    return {old: name for old, name in now.items() if name != old}


def widens(held: Any, wanted: Any) -> bool:  # noqa: ANN401 - types, each with attributes of its own
    """Say whether a decimal only gets more digits before its point."""
    decimals = pa.types.is_decimal(held) and pa.types.is_decimal(wanted)
    return decimals and held.scale == wanted.scale and held.precision <= wanted.precision


def same_key(held: TableForm, old: Sequence[str], now: TableForm, new: Sequence[str]) -> bool:
    """Say whether a key is of the same columns, or the whole row both times."""
    whole = len(old) == len(held.columns) and len(new) == len(now.columns)
    return whole or held.numbers(old) == now.numbers(new)
