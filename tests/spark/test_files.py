"""Every .sql file of Spark's layer: PostgreSQL accepts it, its header says what it does, and code loads it.

The definitions of the schema are run as they are in sink/test_spark_schema.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.database.statements import load, split_script
from rowbus.messages.address import QueueAddress
from rowbus.spark.schema import ensure
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.every import every
from tests.fixtures.sql_files import SPARK, can_be_prepared, files_for, header_of, is_loaded, text_of

SPARK_SCHEMA = SPARK / "schema" / "sql" / "postgresql" / "definitions"
DEFINITIONS = files_for("postgresql", of=SPARK_SCHEMA)
FILES = files_for("postgresql", of=SPARK, but=(SPARK_SCHEMA,))
ORDERS = QueueAddress("public", "orders")
IDENTIFIERS = {"schema": "pgq", "table": "event_template", "stage": "texts", "queue": ORDERS.table}
LAKE = {"schema": "ducklake"}
IDENTIFIERS_OF = {
    "lake": LAKE,
    "queue_source": {"schema": ORDERS.schema},
    "send_stage": {"schema": ORDERS.schema, "stage": "messages"},
}
STAGES = f"""
    create table rowbus_spark.texts ({", ".join(f"c{number} text" for number in range(1, 12))});
    create table rowbus_spark.messages (c1 text, c2 uuid, c3 text, c4 bytea);
"""


@pytest.fixture
def installed(pgq: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """Give a connection to a database with a log's schema and ours, a queue, and stages."""
    with Database(pgq.info.dsn).session() as session:
        ensure(session)
        session.run_all(QueueTable(ORDERS).create())
    catalogue = load("spark/lake/sql/postgresql/create_catalogue.sql", identifiers=LAKE)
    for text in (STAGES, "create schema ducklake", *split_script(catalogue.native.decode())):
        pgq.execute(text.encode())
    return pgq


def identifiers_of(path: str) -> dict[str, str]:
    folder, stem = Path(path).parts[1], Path(path).stem
    return {**IDENTIFIERS, **IDENTIFIERS_OF.get(folder, {}), **IDENTIFIERS_OF.get(stem, {})}


def test_the_files_are_found() -> None:
    assert len(FILES) >= 60
    assert len(DEFINITIONS) >= 5


@pytest.mark.every_version
@every("path", [*filter(can_be_prepared, FILES)])
def test_postgresql_prepares_it(installed: psycopg.Connection[Any], path: str) -> None:
    query = load(path, identifiers=identifiers_of(path))

    installed.execute(b"prepare it as " + query.native)

    prepared = installed.execute(
        "select cardinality(parameter_types) from pg_prepared_statements where name = 'it'"
    ).fetchall()
    installed.execute("deallocate it")
    assert prepared == [(len(query.names),)]


@every("path", FILES)
def test_its_header_says_what_it_does_what_it_locks_and_what_it_returns(path: str) -> None:
    said = header_of(path).lower()
    assert re.search(r"\block(s|ed|ing)?\b|\bwaits\b", said)
    assert re.search(r"returns|row count|affects", said)


@every("path", FILES)
def test_some_code_loads_it(path: str) -> None:
    assert is_loaded(Path(path).stem)


@every("path", DEFINITIONS)
def test_a_definition_begins_with_what_it_is_for(path: str) -> None:
    assert text_of(path).startswith("-- ")
