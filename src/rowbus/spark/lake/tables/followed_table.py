"""A table of a lake that follows a table of the database: copied in one snapshot, then changed by each micro-batch.

A table that was altered follows in place where `evolution` is sure of it; else it is copied anew, in a snapshot of its
own, as are values that the triggers did not see. Changes that the snapshot shows are skipped, as `replicate` does.

Invariants: a copy's number and a batch's number are in the commit that writes the rows, so either is done once; the
rows of a copy, and the snapshot that is recorded with it, are of one transaction.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

import json
import logging
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa

from rowbus.database.postgresql.arrow import Access
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import Statement, load, scalar
from rowbus.errors import ConfigurationError, StorageError
from rowbus.spark.captured import DEFERRABLE, Unfit, column_texts, converted, reading_rows
from rowbus.spark.lake.table import AppTransaction, own_errors
from rowbus.spark.lake.tables.evolution import (
    Evolution,
    Reshaping,
    TableForm,
    evolution,
    is_ambiguous,
    same_key,
)
from rowbus.spark.lake.tables.folder import Copy
from rowbus.spark.lake.tables.net_changes import is_renamed, loaded, net_changes, rows_of
from rowbus.spark.log_source.offset import TxidSnapshot
from rowbus.spark.options import tables_named

if TYPE_CHECKING:
    from collections.abc import Collection

    from rowbus.database.statements import Query
    from rowbus.spark.captured import SourceTable
    from rowbus.spark.lake.ducklake import Moment
    from rowbus.spark.lake.tables.folder import LakeFolder, StoredTable, TableFormat
    from rowbus.spark.lake.tables.net_changes import LoadsChanges, NetChanges, Row, StagedChange

_logger = logging.getLogger(__name__)

_CHANGED_BY: Final = ("ev_type=", "ev_data=", "ev_extra1=", "ev_extra2=", "when=", "deny")
"""Arguments of triggers that make events differ from the table's rows; `ev_extra3` and 4 are beside the row."""

COPY: Final = "rowbus copy"
"""The application that numbers the copies of a table."""

NUMBERS: Final = 2**32
"""A copy's number is up to so much above that of the last: two processes that copy at once do not take the same."""


def chosen(
    captured: Sequence[SourceTable],
    patterns: Sequence[str],
    log: str,
    kind: TableFormat | None = None,
    *,
    begun: bool = False,
) -> list[SourceTable]:
    """Return the tables that a pattern names.

    Raises ConfigurationError for those that cannot follow, or that a lake of this kind cannot tell apart, and for none.
    None do once a job has `begun`: its last table may be renamed, dropped or released, and come back.
    """
    names = [table.name for table in captured]
    wanted = {name for pattern in patterns for name in tables_named(names, pattern)}
    found = [table for table in captured if table.name in wanted]
    if not found and not begun:
        there = ", ".join(table.name for table in captured) or "no table"
        raise ConfigurationError(
            f'No table captured into log "{log}" is named {" or ".join(patterns)}; captured is {there}. '
            f"Capture a table with `rowbus log capture TABLE --log {log} --arg backup`."
        )
    if twice := _repeated([table.name for table in found]):
        _refuse(
            twice,
            "is captured twice, or the name of two tables once schema and table are joined by a dot: rename one",
        )
    for table in found:
        _check(table, kind)
    if kind == "ducklake":
        schemas = [*{table.name.partition(".")[0] for table in found}]
        if twice := _repeated([*map(str.lower, schemas)]) or _repeated(
            [table.name.lower() for table in found]
        ):
            _refuse(twice, "has two spellings, which DuckDB cannot tell apart: rename one")
    return found


def _check(table: SourceTable, kind: TableFormat | None) -> None:
    if not table.columns:
        _refuse(table.name, "has no column that events show: give it one")
    if table.is_deferrable:
        _refuse(table.name, DEFERRABLE)
    if kind in {"delta", "ducklake"} and (twice := _repeated([*map(str.lower, table.columns)])):
        _refuse(table.name, f'has two columns "{twice}", which readers cannot tell apart: rename one')
    how = table.obstacle(_CHANGED_BY)
    if how is not None:
        raise ConfigurationError(
            f"{table.name} is captured {how}, so its events are not its rows; "
            "capture it with --format json and another --trigger into another log.",
            table=table.name,
        )


def _repeated(names: Sequence[str]) -> str | None:
    return max((Counter(names) - Counter({*names})), default=None)


def _refuse(name: str, why: str) -> NoReturn:
    raise ConfigurationError(f"{name} {why}, or release it (`rowbus log release`).", table=name)


def lake_access(dsn: str) -> Access:
    """Return the way to read a table's rows, under the name of a lake."""
    return Access(dsn, application_name="rowbus spark lake")


def _taking(moment: Moment) -> Query:
    path = "spark/lake/sql/postgresql/take_snapshot.sql"
    return load(
        path, literals={"snapshot": moment.snapshot}, failing="Could not begin to copy", prepare=False
    )


def _list_files(table: int) -> Statement[dict[str, str]]:
    path = "spark/lake/sql/postgresql/list_table_files.sql"
    return Statement(
        load(path, failing="Could not look for a table's files", prepare=False), {"table": table}, scalar
    )


class FollowedTable:
    """One table of a lake, and its source."""

    def __init__(self, folder: LakeFolder, dsn: str, source: SourceTable) -> None:
        """Take where it is, and what it follows. No I/O."""
        self._folder = folder
        self._dsn = dsn
        self._source = source
        self.path = folder.table(source.name)

    @cached_property
    def stored(self) -> StoredTable:
        """The table, in the format of the lake."""
        return self._folder.stored(self._source.name)

    def copy(self) -> Copy | None:
        """Return the copy that the table holds; None when there is no table yet."""
        return self._folder.copies(self._source.name).get(self.number())

    def bring_to_shape(self, *, again: bool = False, in_place: bool = True) -> int | None:
        """Copy the table if it is not there or `again`, or if it was altered so that it cannot follow `in_place`.

        Returns the copy's rows, None if none was made.
        """
        copy = self.copy()
        if copy and not again and (copy.shape == self._source.shape or (in_place and self._evolve(copy))):
            return None
        return self._copy_anew(set(copy.as_text) & set(self._source.columns) if copy else set())

    def is_renamed(self, changes: Iterable[StagedChange]) -> bool:
        """Say whether changes tell that the table had another name since it was copied."""
        copy = self.copy()
        return copy is not None and is_renamed(changes, TxidSnapshot.parse(copy.snapshot))

    def apply(self, changes: Iterable[StagedChange], batch: AppTransaction) -> None:
        """Apply the changes of a batch, once; copy the table anew if it has a later one, of a checkpoint that was lost.

        What the batch reads now may be more than what the table has of it.
        """
        copy = self.copy()
        if copy is None:
            return
        newest = self.stored.newest(batch.app)
        if newest is not None and newest > batch.number:
            _logger.warning(
                "%s is copied anew: the lake's checkpoint is older than the table.", self._source.name
            )
            self._copy_anew(set(copy.as_text))
        if newest is not None and newest >= batch.number:
            return
        try:
            parts, schema = self._loaded(changes, copy), self.schema(copy.as_text)
            net = net_changes(parts(), partial(self._keys, schema) if self._source.key else None)
            pa.default_memory_pool().release_unused()  # to find these took much more than they take
            virtual, there = set(self._source.virtual), frozenset(self._source.columns)
            if any(columns - virtual != there for columns in net.columns):
                self._copy_anew(set(copy.as_text))  # altered and altered back, between two batches
                return
            self._write(net, self._rows(net.written, parts, schema), batch)
            self._forget_earlier(changes, copy)
        except Unfit as unfit:
            self._copy_anew({*copy.as_text, unfit.column})

    def _forget_earlier(self, changes: Iterable[StagedChange], copy: Copy) -> None:
        """Forget how rows looked once there are such as they look now, which later ones do as well."""
        ours, virtual = set(self._source.columns), set(self._source.virtual)
        if any(copy.earlier) and any(
            json.loads(change.row).keys() - virtual == ours for change in rows_of(changes)
        ):
            number = self.number()
            kept = copy._replace(earlier=Copy._field_defaults["earlier"])
            self._folder.note_copy(self._source.name, number, kept, instead_of=number)

    def version(self) -> int:
        """Return the table's version: in Iceberg, the id of its snapshot."""
        return self.stored.version()

    def schema(self, as_text: Collection[str]) -> pa.Schema:
        """Return the columns of the lake's table; those of `as_text` are text."""
        return self.stored.fitted(self._source.schema(as_text))

    def versions(self) -> dict[str, int]:
        """Return the table's version, by its name."""
        return {self._source.name: self.version()}

    def number(self) -> int:
        """Return the number of the copy that the table holds; 0 when there is no table yet."""
        return self.stored.newest(COPY) or 0

    def _evolve(self, copy: Copy) -> bool:
        """Change the columns of the lake's table in place, if that is sure to give what a copy would."""
        source, held, now = self._source, TableForm.parse(copy.form), TableForm.parse(self._source.form)
        change = evolution(held, now)
        if held is None or now is None or change is None or not same_key(held, copy.key, now, source.key):
            return False
        earlier, as_text = Evolution(*copy.earlier).then(change), change.renamed(copy.as_text)
        if is_ambiguous(earlier, now):
            return False
        schema, number = self.schema(as_text), self._next_number()
        told = Copy(
            copy.snapshot,
            source.shape,
            as_text,
            copy.moment,
            source.form,
            source.key,
            (earlier.names, earlier.filled),
            copy.began,
        )
        self._folder.note_copy(source.name, number, told, instead_of=self.number())
        return self._reshape(schema, change, number)

    def _reshape(self, schema: pa.Schema, change: Evolution, number: int) -> bool:
        types = dict(zip(self._source.columns, self._source.types, strict=True))
        try:
            self.stored.reshape(schema, Reshaping(change, types), AppTransaction(COPY, number))
        except Unfit:
            return False
        return True

    def _next_number(self) -> int:
        return self.number() + 1 + secrets.randbelow(NUMBERS)

    def _copy_anew(self, as_text: set[str]) -> int:
        if self._source.key and not self._source.is_keyed:
            _logger.warning(
                "%s has no primary key: the lake takes equal rows for one. Give it a key, or capture it with pkey=….",
                self._source.name,
            )
        if not self._source.is_told_apart:
            columns = ", ".join(self._source.key)
            _logger.warning(
                "%s has no unique index on its pkey=…: of rows with the same %s the lake keeps one.",
                self._source.name,
                columns,
            )
        while True:
            try:
                return self._try_copy(sorted(as_text))
            except Unfit as unfit:
                as_text = as_text | {unfit.column}

    def _try_copy(self, as_text: list[str]) -> int:
        source, held = self._source, self.number()
        number = self._next_number()
        schema = self.schema(as_text)
        counted = 0

        def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            nonlocal counted
            for batch in batches:
                counted += batch.num_rows
                yield source.convert(batch, schema)

        moment = lake.moment() if (lake := self._folder.ducklake()) else None
        with reading_rows(lake_access(self._dsn), source, _taking(moment) if moment else None) as found:
            form = source.form if found.is_as_described else ""
            about = (found.snapshot, source.shape, as_text, found.moment, form, source.key)
            copy = Copy(*about, began=moment.began if moment else found.began)
            self._folder.note_copy(source.name, number, copy, instead_of=held)
            with own_errors(rows(found.batches), Unfit, StorageError) as converted_rows:
                self.stored.replace(schema, converted_rows, AppTransaction(COPY, number))
            if moment and not (found.is_as_described and self._has_its_files()):
                text = f"{source.name} was altered or emptied while it was copied."
                raise StorageError(text, sqlstate=None, transient=False)
        return counted

    def _has_its_files(self) -> bool:
        """Say whether the table's rows are in the files of its description, while a session keeps it from losing them.

        What was written anew, or emptied, after the moment of a copy has no rows for it.
        """
        form = TableForm.parse(self._source.form)
        with Database(self._dsn, application_name="rowbus spark lake").session() as session:
            return form is not None and session.run(_list_files(form.table)) == form.all_files

    def _loaded(self, changes: Iterable[StagedChange], copy: Copy) -> LoadsChanges:
        """Return what loads changes, each time that it is called; those in memory are loaded once."""
        fit = partial(Evolution(*copy.earlier).row, columns=set(self._source.columns))
        parts = partial(loaded, changes, TxidSnapshot.parse(copy.snapshot), fit)
        if not isinstance(changes, Sequence):
            return parts
        held = list(parts())
        return lambda: held

    def _keys(self, schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
        """Return the keys of rows as values of the lake: the texts of one time differ between time zones."""
        types = dict(zip(self._source.columns, self._source.types, strict=True))
        columns: Any = [
            converted(name, types[name], column_texts(rows, name), schema.field(name).type)
            for name in self._source.key
        ]
        return pa.table(columns, names=self._source.key)

    def _write(self, net: NetChanges, written: Iterable[pa.RecordBatch], batch: AppTransaction) -> None:
        if not (net.truncated or net.columns):
            return
        if net.truncated or net.keys is None:
            self.stored.write(written, batch, emptied=net.truncated)
        else:
            self.stored.merge(net.keys, written, self._source.key, batch)

    def _rows(self, written: bytearray, parts: LoadsChanges, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        flags = iter(written)
        for part in parts():
            rows = [change.row for change, is_written in zip(part, flags, strict=False) if is_written]
            texts = [column_texts(rows, name) for name in self._source.columns]
            yield self._source.convert(pa.RecordBatch.from_arrays(texts, names=self._source.columns), schema)
