"""A table in a lake: its first copy, by `rowbus spark lake`, Spark's JDBC source and DuckDB; and what changes then.

Spark's own Delta writer is a jar that is not on a registry of Python's. It is Spark's Parquet writer and a commit that
names the files, and so is the side by JDBC: the JVM writes Parquet, delta-rs reads the files' footers and commits. The
rows do not pass Python there, as they would by `mapInArrow` and delta-rs, which is slower than the jar.

Invariant: all sides copy every row of the same table into an empty folder; the first two into a Delta table of the
same types.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

import psycopg

from benchmarks.measuring import Side
from benchmarks.spark_machine import Machine
from benchmarks.spark_workers import watched_workers
from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from rowbus.spark.pipelines.lake_tables import LakeReport

ROWS = 5_000_000
CHUNK = 500_000
LOG = "changes"
NAME = "public.orders"

TABLE: LiteralString = """
    create table orders (
        id bigint primary key,
        customer text not null,
        total numeric(12, 2) not null,
        placed timestamptz not null,
        open boolean not null,
        note text
    )
"""
FILL: LiteralString = """
    insert into orders
    select
        number, 'c-' || number %% 10000, number %% 1000000 / 100.0,
        timestamptz '2026-01-01 00:00+00' + number * interval '1 second', number %% 3 = 0,
        case when number %% 2 = 0 then repeat('x', 40) || number end
    from generate_series(%s::bigint, %s::bigint) as number
"""
UPDATE: LiteralString = """
    update orders set total = total + 1, open = not open
    where id in (select number * %s + %s from generate_series(0, %s - 1) as number)
"""
DELETE: LiteralString = """
    delete from orders where id in (select number * %s + %s from generate_series(0, %s - 1) as number)
"""


class Orders:
    """A captured table with so many rows, in a database of its own."""

    def __init__(self, machine: Machine, database: str, rows: int) -> None:
        """Make it; no event tells of these rows."""
        self.database = database
        self.dsn = machine.create(database)
        self.rows = rows
        with Database(self.dsn).session() as session:
            install_now(session)
        with self._connect() as connection:
            connection.execute(TABLE)
            for begin in range(0, rows, CHUNK):
                connection.execute(FILL, (begin, min(begin + CHUNK, rows) - 1))
            connection.execute("vacuum (analyze) orders")
            connection.execute("select pgq.create_queue(%s)", (LOG,))
            for name in ("ticker_max_lag", "ticker_idle_period"):
                connection.execute("select pgq.set_queue_config(%s, %s, '0')", (LOG, name))
            connection.execute("select pgq.capture_table('orders', %s, 'json', array['backup'])", (LOG,))
            connection.execute("select pgq.ticker(%s)", (LOG,))

    def change(self, changes: int, turn: int) -> None:
        """Change so many rows, all over the table, and tick: of ten, eight are updated, one is deleted and one added.

        Each turn takes rows that no other one has: of even numbers to update, of odd ones to delete.
        """
        updated, tenth = changes - 2 * (changes // 10), changes // 10
        with self._connect() as connection, connection.transaction():
            done = connection.execute(UPDATE, (_even(self.rows // updated), 2 * turn, updated)).rowcount
            done += connection.execute(DELETE, (_even(self.rows // tenth), 2 * turn + 1, tenth)).rowcount
            begin = self.rows + turn * tenth
            done += connection.execute(FILL, (begin, begin + tenth - 1)).rowcount
        assert done == changes, (done, changes)
        with self._connect() as connection:
            connection.execute("select pgq.ticker(%s)", (LOG,))

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.dsn, autocommit=True)


@contextmanager
def lake_folder() -> Iterator[Path]:
    """Give a folder on the disk, and delete it in the end."""
    folder = Path(tempfile.mkdtemp(prefix="rowbus-bench-lake-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Copies:
    """Copies of a table by both sides; `peak` is the most memory that a Python process of ours had, in bytes."""

    def __init__(self, machine: Machine, orders: Orders, folder: Path) -> None:
        """Take the table, and the folder for all copies."""
        self.peak = 0
        self._machine = machine
        self._orders = orders
        self._folder = folder
        self._runs = iter(range(1_000))

    def rowbus(self) -> Side:
        """The first run of `rowbus spark lake`; the driver itself copies, so its memory counts."""
        place = self._folder / "rowbus"

        def work() -> int:
            with watched_workers(driver=True) as peaks:
                done = follow(self._machine, self._orders, place, consumer=f"lake{next(self._runs)}")
            self.peak = max(self.peak, *peaks)
            return done.copied[NAME]

        return self._side("rowbus spark lake", place, work)

    def jdbc(self) -> Side:
        """Spark's JDBC source, in two halves by the key, into Parquet files that become a Delta table."""
        from deltalake import convert_to_deltalake  # noqa: PLC0415 - only these comparisons need it

        place, half = self._folder / "jdbc", self._orders.rows // 2
        predicates = [f"id < {half}", f"id >= {half}"]

        def work() -> int:
            rows = self._machine.jdbc_read(self._orders.database, "orders", predicates)
            rows.write.parquet(str(place))
            convert_to_deltalake(str(place))
            return self._orders.rows

        return self._side("Spark JDBC, Parquet, commit by delta-rs", place, work)

    def duckdb(self) -> Side:
        """DuckDB's scanner of PostgreSQL into one Parquet file, which is no Delta table."""
        place = self._folder / "duckdb"

        def work() -> int:
            place.mkdir()
            with duckdb_with("postgres_scanner") as connection:
                connection.execute(f"attach '{self._orders.dsn}' as shop (type postgres, read_only)")
                connection.execute(f"copy (from shop.{NAME}) to '{place / 'orders.parquet'}'")
            return self._orders.rows

        return self._side("DuckDB's scanner to Parquet", place, work)

    def check(self) -> None:
        """See that both sides have the same rows in columns of the same types."""
        ours, theirs = self._folder / "rowbus" / NAME, self._folder / "jdbc"
        assert columns_of(ours) == columns_of(theirs), (columns_of(ours), columns_of(theirs))
        assert count_of(ours) == count_of(theirs) == self._orders.rows

    @staticmethod
    def _side(name: str, place: Path, work: Callable[[], int]) -> Side:
        return Side(name, lambda: shutil.rmtree(place, ignore_errors=True), work)


@contextmanager
def duckdb_with(extension: str) -> Iterator[DuckDBPyConnection]:
    """Open DuckDB with one of the extensions that wheels bring."""
    import duckdb  # noqa: PLC0415 - as above

    (file,) = Path(str(import_module(f"duckdb_extension_{extension}").__file__)).parent.rglob(
        "*.duckdb_extension"
    )
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"load '{file}'")
        yield connection


def follow(machine: Machine, orders: Orders, folder: Path, *, consumer: str = "lake") -> LakeReport:
    """Do what `rowbus spark lake` does."""
    from rowbus.spark.pipelines.lake_tables import lake  # noqa: PLC0415 - only these comparisons need Spark

    return lake(machine.spark, LOG, to=folder, dsn=orders.dsn, consumer=consumer)


def merges(machine: Machine, rows: int, changes: int, rounds: int) -> tuple[list[float], int]:
    """Say how long runs of `rowbus spark lake` take that find so many changes, and the most memory of a process.

    A cold one does not count. Memory is of Python processes, in bytes; the driver merges, so it counts, too.
    """
    orders = Orders(machine, "bench_merges", rows)
    with lake_folder() as folder:
        follow(machine, orders, folder)
        with watched_workers(driver=True) as peaks:
            found = [_merge(machine, orders, folder, changes, turn) for turn in range(rounds + 1)]
        assert count_of(folder / NAME) == rows  # as many were added as deleted
    return found[1:], max(peaks)


def _merge(machine: Machine, orders: Orders, folder: Path, changes: int, turn: int) -> float:
    orders.change(changes, turn)
    begun = time.perf_counter()
    done = follow(machine, orders, folder)
    seconds = time.perf_counter() - begun
    assert (done.copied, done.events) == ({}, changes), done
    return seconds


def count_of(folder: Path) -> int:
    """Count a Delta table's rows."""
    from deltalake import DeltaTable  # noqa: PLC0415 - only these comparisons need it

    return int(DeltaTable(str(folder)).to_pyarrow_dataset().count_rows())


def columns_of(folder: Path) -> list[tuple[str, str]]:
    """Name a Delta table's columns and their types."""
    from deltalake import DeltaTable  # noqa: PLC0415 - as above

    return [(field.name, str(field.type)) for field in DeltaTable(str(folder)).schema().fields]


def _even(number: int) -> int:
    return number // 2 * 2
