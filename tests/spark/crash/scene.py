"""A log whose every event is known, and streams that copy it: what the crash tests play with.

Events are appended by transactions of random sizes, some of which roll back and some of which stay open across ticks.
Each notes what it appends in `sent`, in the same transaction, so `sent` is what the log should have, also when rotation
has truncated it. The copies have no unique constraints, so what is written twice shows twice.

Invariant: a copy is right if it has the rows of `sent`, each as often; nothing else is looked at.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now

LOG = "crash"
PATIENCE = 90  # seconds for a stream to come to its end
MOST = 40  # events in a transaction

TABLES: LiteralString = """
    create table sent (number bigint not null, ev_type text not null, ev_data text not null);
    create sequence number;
"""
APPEND: LiteralString = """
    with made as (
        select nextval('number') as number, %(type)s::text as ev_type from generate_series(1, %(count)s)
    ), appended as (
        select
            number, ev_type, number::text as ev_data,
            pgq.insert_event('crash', ev_type, number::text, 'extra', null, null, null)
        from made
    )
    insert into sent select number, ev_type, ev_data from appended
"""

Row = tuple[str, str]  # type and data


class Log:
    """The log, and what appends to it, ticks and rotates."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def install(self) -> None:
        """Make the schema, the log and the tables around it."""
        with Database(self.dsn).session() as session:
            install_now(session)
        self.create()

    def create(self) -> None:
        """Make the log and the tables around it in a database that has the schema."""
        with self.connect() as connection:
            connection.execute(TABLES)
            connection.execute("select pgq.create_queue('crash')")
            for name in ("ticker_max_lag", "ticker_idle_period", "rotation_period"):
                connection.execute("select pgq.set_queue_config('crash', %s, '0')", (name,))

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True)

    def append(self, connection: psycopg.Connection[Any], count: int, type: str = "numbered") -> None:
        """Append in the transaction of the caller, or in one of its own."""
        connection.execute(APPEND, {"count": count, "type": type})

    def fill(self, events: int, chance: random.Random, *, ticks: int = 4) -> None:
        """Append about so many events, tick at random, and leave nothing open."""
        with self.connect() as connection, psycopg.connect(self.dsn) as long:
            self.append(long, chance.randint(1, MOST), "long")
            for number in range(max(ticks, 2 * events // MOST)):
                with suppress(psycopg.Rollback), connection.transaction():
                    self.append(connection, chance.randint(1, MOST))
                    if chance.random() < 0.2:
                        raise psycopg.Rollback
                if number % max(1, 2 * events // MOST // ticks) == 0:
                    self.tick(connection)
            long.commit()
            self.tick(connection)

    def tick(self, connection: psycopg.Connection[Any] | None = None) -> None:
        """Tick, now."""
        if connection is not None:
            connection.execute("select pgq.ticker('crash')")
            return
        with self.connect() as own:
            self.tick(own)

    def rotate(self) -> bool:
        """Rotate as far as the consumers allow; say whether another table is written to now."""
        with self.connect() as connection:
            before = self.current_table(connection)
            connection.execute("select pgq.maint_rotate_tables_step1('crash')")
            connection.execute("select pgq.maint_rotate_tables_step2()")
            return self.current_table(connection) != before

    def current_table(self, connection: psycopg.Connection[Any]) -> int:
        row = connection.execute(
            "select queue_cur_table from pgq.queue where queue_name = 'crash'"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def leftovers(self) -> list[str]:
        """Name the prepared transactions and the stages that nobody has removed yet."""
        found = self.ask(
            """
            select gid from pg_prepared_xacts where database = current_database()
            union all
            select relname from pg_class
            where relnamespace = to_regnamespace('rowbus_spark') and relkind = 'r' and starts_with(relname, 'stage_')
            """
        )
        return [name for (name,) in found]

    def roll_back_prepared(self) -> None:
        """Roll back what is prepared, or the database could not be dropped."""
        with self.connect() as connection:
            for (gid,) in connection.execute(
                "select gid from pg_prepared_xacts where database = current_database()"
            ).fetchall():
                connection.execute(f"rollback prepared '{gid}'".encode())

    def begin_anew(self) -> str:
        """Forget what was sent; return where a stream begins that is to see only what follows, as its option has it."""
        with self.connect() as connection:
            self.tick(connection)
            connection.execute("truncate sent")
        ((tick,),) = self.ask("select last_tick_id from pgq.get_queue_info('crash')")
        return json.dumps({LOG: {"tick": tick}})

    def ask(self, query: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(query, values).fetchall()

    def sent(self) -> Counter[Row]:
        """Give what is in the log, or was before rotation."""
        return Counter(self.ask("select ev_type, ev_data from sent"))


@dataclass
class Copy:
    """Where a stream writes to, and how to read that."""

    format: str
    options: Mapping[str, str]
    rows: Callable[[], Counter[Row]]


def into_table(log: Log, how: str, table: str) -> Copy:
    """Append to a table, exactly once by `how`."""
    with log.connect() as connection:
        connection.execute(f"create table {table} (ev_type text not null, ev_data text not null)".encode())
    options = {"dsn": log.dsn, "deliver": "table", "table": table, "exactlyOnce": how}
    return Copy("rowbus", options, lambda: _rows(log, f"select ev_type, ev_data from {table}"))


def into_log(log: Log, how: str, name: str) -> Copy:
    """Append to another log, exactly once by `how`."""
    log.ask("select pgq.create_queue(%s)", name)
    ((table,),) = log.ask("select queue_data_pfx from pgq.queue where queue_name = %s", name)
    options = {"dsn": log.dsn, "deliver": "log", "log": name, "exactlyOnce": how}
    return Copy("rowbus", options, lambda: _rows(log, f"select ev_type, ev_data from {table}"))


def into_parquet(spark: SparkSession, folder: Path) -> Copy:
    """Append to Parquet files."""

    def rows() -> Counter[Row]:
        if not (folder / "_spark_metadata").exists():
            return Counter()
        found = spark.read.schema("ev_type string, ev_data string").parquet(str(folder)).collect()
        return Counter((row.ev_type, row.ev_data) for row in found)

    return Copy("parquet", {"path": str(folder)}, rows)


def _rows(log: Log, query: str) -> Counter[Row]:
    with log.connect() as connection:
        return Counter(connection.execute(query.encode()).fetchall())


@dataclass
class Stream:
    """A stream from the log to a copy, with a checkpoint and a folder for plans of faults."""

    spark: SparkSession
    log: Log
    copy: Copy
    folder: Path
    consumer: str = "spark"
    source: Mapping[str, str] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def faults(self) -> Path:
        return self.folder / "faults"

    def start(self, *, until_done: bool = True) -> StreamingQuery:
        """Start the query; without `until_done` it goes on for ever."""
        options = {"dsn": self.log.dsn, "log": LOG, "consumer": self.consumer, "startingOffsets": "earliest"}
        events = self.spark.readStream.format("rowbus_faulty").options(
            **{**options, **self.source, "faults": str(self.faults)}
        )
        writer = (
            events.load()
            .select("ev_type", "ev_data")
            .writeStream.format(self._sink)
            .options(**self._sink_options)
            .option("checkpointLocation", str(self.checkpoint))
        )
        trigger = (
            writer.trigger(availableNow=True) if until_done else writer.trigger(processingTime="0 seconds")
        )
        return trigger.start()

    @property
    def _sink(self) -> str:
        return "rowbus_faulty" if self.copy.format == "rowbus" else self.copy.format

    @property
    def _sink_options(self) -> dict[str, str]:
        faults = {"faults": str(self.faults)} if self.copy.format == "rowbus" else {}
        return {**self.copy.options, **faults}

    def run(self) -> None:
        """Read all there is; raises what the query fails with."""
        query = self.start()
        assert query.awaitTermination(PATIENCE), "the query did not end"

    def fails(self) -> bool:
        """Read all there is, and say whether the query failed on the way."""
        try:
            self.run()
        except PySparkException:
            return True
        return False

    def lose_last_commit(self) -> bool:
        """Delete the newest entry of the commit log, as if Spark had ended before it was written."""
        commits = self.checkpoint / "commits"
        numbers = [int(file.name) for file in commits.glob("[0-9]*")]
        if not numbers:
            return False
        (commits / str(max(numbers))).unlink()
        (commits / f".{max(numbers)}.crc").unlink(missing_ok=True)
        return True

    def wrong(self) -> dict[str, list[Row]]:
        """Give what is in the copy and should not be there, and what is not there and should be."""
        sent, found = self.log.sent(), self.copy.rows()
        return {
            what: sorted(rows.elements())[:20]
            for what, rows in (("lost", sent - found), ("doubled or invented", found - sent))
            if rows
        }
