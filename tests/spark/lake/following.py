"""A lake that follows captured tables, brought up to date without Spark: by the same steps, in turn."""

from __future__ import annotations

import pickle
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from deltalake import DeltaTable

from rowbus.database.postgresql.database import Database
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.log import Log
from rowbus.spark.lake.tables.folder import LakeFolder, TableFormat
from rowbus.spark.lake.tables.net_changes import WITH_ORIGINS
from rowbus.spark.lake.tables.writer import StagedFiles, TablesSettings, TablesWriter
from rowbus.spark.pipelines.lake_tables import copy_new_tables
from tests.fixtures.ducklake import attached, quoted

_KINDS = (pa.int64(), pa.int64(), *[pa.string()] * 4, pa.timestamp("us", "UTC"), pa.string())

CAPTURED_ORDERS = """
create table orders (id int primary key, customer text, total numeric(12, 2));
select pgq.capture_table('orders', 'changes', 'json', '{backup}')
"""
"""Makes a captured table, for the `log_script` of modules whose tests begin with it: it takes 50 ms."""

KEY_CHANGE = """
select pgq.insert_event('changes', '{"op":"UPDATE","table":["public","orders"],"pkey":["id"]}',
    '{"id":7,"customer":"A","total":"1.00"}',
    'public.orders', '{"id":1,"customer":"a","total":"1.00"}', null, null)
"""
"""Tells of order 1 that becomes order 7, as a trigger of PgQ's does that has the old row in `extra2`."""


class Following:
    """A database with captured tables, and a lake."""

    def __init__(
        self,
        dsn: str,
        connection: psycopg.Connection,
        folder: Path | str,
        kind: TableFormat = "delta",
        *,
        history: bool = False,
        catalog: str | None = None,
    ) -> None:
        self.dsn = dsn
        self.connection = connection
        self.folder = LakeFolder(folder, dsn)
        self.settings = TablesSettings(
            *(str(folder), "changes", ("*",), dsn, kind, history), origins=history, catalog=catalog
        )
        self.batches = 0

    def settings_with_history(self, *, asked: bool = True) -> TablesSettings:
        """Give settings that stage what versions need."""
        return replace(self.settings, history=asked, origins=True)

    def run(self, *statements: str) -> None:
        """Run statements, each in its own transaction."""
        for statement in statements:
            self.connection.execute(statement)

    def make(self, table: str, definition: str, *arguments: str) -> None:
        """Create a table, and capture it."""
        self.run(f"create table {table} ({definition})")
        self.connection.execute(
            "select pgq.capture_table(%s, 'changes', 'json', %s)", [table, list(arguments or ("backup",))]
        )

    def copy(self) -> dict[str, int]:
        return copy_new_tables(self.settings, lambda _line: None)

    def apply(self, until: int | None = None) -> None:
        """Apply what is new, up to a tick, as one micro-batch."""
        end = self.tick() if until is None else until
        self.commit(self.stage(until=until), self.batches)
        with Database(self.dsn).session() as session:
            session.run(ConsumerTable("changes", "lake").seek(end))
        self.batches += 1

    def tick(self) -> int:
        self.run("select pgq.force_tick('changes')", "select pgq.ticker('changes')")
        return int(self.one("select max(tick_id) from pgq.tick"))

    def stage(self, tasks: int = 2, until: int | None = None) -> list[StagedFiles]:
        """Stage what was not applied yet, as Spark does: by pickled writers, in tasks."""
        end = self.tick() if until is None else until
        position = self.one("select last_tick from pgq.get_consumer_info('changes', 'lake')")
        rows = [
            (e.id, e.txid, e.type, e.data, e.extra1, e.extra2, e.time, e.extra3)
            for e in Log(self.dsn, "changes").read(position, end)
        ]
        return [self._stage(rows[task::tasks], task) for task in range(tasks)]

    def commit(self, staged: list[StagedFiles], batch: int) -> None:
        """Commit as Spark does: in a writer of its own."""
        TablesWriter(self.settings).commit(staged, batch)

    def _stage(self, rows: list[tuple[Any, ...]], task: int) -> StagedFiles:
        columns = list(zip(*rows, strict=True)) or [()] * len(_KINDS)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(WITH_ORIGINS))
        writer = pickle.loads(pickle.dumps(TablesWriter(self.settings)))  # noqa: S301 - our own
        staged: StagedFiles = writer.stage("query", f"task{task}", iter([batch]))
        return staged

    def one(self, query: str) -> Any:  # noqa: ANN401 - a value of any type
        """Give the value that a query finds."""
        row = self.connection.execute(query).fetchone()
        assert row is not None
        return row[0]

    def delta(self, table: str) -> DeltaTable:
        return DeltaTable(self.folder.table(table))

    @contextmanager
    def iceberg(self, table: str) -> Generator[Any]:
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - slow to import

        with closing(SqlCatalog("rowbus", uri=f"sqlite:///{self.folder.path}/catalog.db")) as catalog:
            yield catalog.load_table(tuple(table.split(".", 1)))

    def read(self, table: str, version: int | None = None) -> pa.Table:
        """Read a table as a user does, by the library of its format."""
        if self.settings.format == "delta":
            return DeltaTable(self.folder.table(table), version=version).to_pyarrow_table()
        if self.settings.format == "ducklake":
            with attached(self.dsn) as duck:
                at = "" if version is None else f"at (version => {version})"
                found_rows: pa.Table = duck.execute(f"from {quoted(table)} {at}").to_arrow_table()
                return found_rows
        with self.iceberg(table) as found:
            rows: pa.Table = found.scan(snapshot_id=version).to_arrow()
            return rows

    def version(self, table: str) -> int:
        """Give the number of the table's newest version."""
        if self.settings.format == "delta":
            return self.delta(table).version()
        if self.settings.format == "ducklake":
            return self.folder.stored(table).version()
        with self.iceberg(table) as found:
            return int(found.current_snapshot().snapshot_id)

    def lose(self, table: str, predicate: str) -> None:
        """Delete rows behind our back."""
        if self.settings.format == "delta":
            self.delta(table).delete(predicate)
            return
        if self.settings.format == "ducklake":
            with attached(self.dsn, read_only=False) as duck:
                duck.execute(f"delete from {quoted(table)} where {predicate}")
            return
        with self.iceberg(table) as found:
            found.delete(predicate)

    def rows(self, table: str, *columns: str, version: int | None = None) -> list[Any]:
        """Give the rows of the lake's table, in order."""
        found: Any = self.read(table, version)
        names = columns or tuple(found.schema.names)
        rows = zip(*(found.column(name).to_pylist() for name in names), strict=True)
        return sorted(rows, key=repr)
