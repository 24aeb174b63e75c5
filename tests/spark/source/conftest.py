"""A log called "orders", and readers of it as Spark would call them, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from rowbus.database.statements import script
from rowbus.log.schema import table as log_schema
from rowbus.spark.log_source import source as log_source
from rowbus.spark.log_source.readers import LogBatchReader, LogStreamReader
from tests.log.orders import SCRIPT, Orders
from tests.log.queue_q import Connect
from tests.spark.source.reading import Options

ROLE = "rowbus_test_spark_reader"
Streams = Callable[..., LogStreamReader]


@pytest.fixture
def log_script() -> str:
    return SCRIPT


@pytest.fixture
def orders(log_database: str, pgq: psycopg.Connection[Any]) -> Orders:
    """Give a log called "orders", empty, and what tests of its consumers do with it."""
    return Orders(log_database, pgq)


@pytest.fixture
def connect(log_database: str) -> Iterator[Connect]:
    """Give what opens further connections to `log_database`, in which transactions begin by themselves."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(psycopg.connect(log_database))


@pytest.fixture
def reader_dsn(orders: Orders, pgq: psycopg.Connection[Any]) -> Iterator[str]:
    """Give the connection string of a role that may read logs, by exactly what is printed, and nothing else."""
    pgq.execute(f"drop role if exists {ROLE}; create role {ROLE}")
    for statement in (log_schema.set_grants("new"), log_schema.grant_role("pgq_reader", ROLE)):
        pgq.execute(script(statement).encode())
    yield make_conninfo(orders.dsn, options=f"-c role={ROLE}")
    pgq.execute(f"drop owned by {ROLE}; drop role {ROLE}")


@pytest.fixture
def options(orders: Orders) -> Options:
    """Give what makes options: those of the log "orders", and others."""

    def make(**others: object) -> dict[str, str]:
        given = {
            "log": "orders",
            "consumer": "spark",
            "dsn": orders.dsn,
            "lockTimeoutMs": "10s",  # the server notices a closed session when it can
            "pollIntervalMs": 0,
        }
        return {name: str(value) for name, value in (given | others).items() if value is not None}

    return make


@pytest.fixture
def stream(options: Options) -> Iterator[Streams]:
    """Give what makes stream readers; they are closed in the end."""
    made = []

    def make(**others: object) -> LogStreamReader:
        given = options(**others)
        reader = log_source.stream_reader(given, log_source.schema(given))
        assert isinstance(reader, LogStreamReader)
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.stop()


@pytest.fixture
def batch(options: Options) -> Iterator[Callable[..., LogBatchReader]]:
    """Give what makes batch readers."""

    def make(**others: object) -> LogBatchReader:
        given = options(**{"consumer": None, **others})
        reader = log_source.batch_reader(given, log_source.schema(given))
        assert isinstance(reader, LogBatchReader)
        return reader

    yield make
    from rowbus.spark.log_source import readers as log_batch  # noqa: PLC0415 - to close what it holds

    for _, control in log_batch.holds:
        control.close()
    log_batch.holds.clear()
