"""Every .sql file of Spark's layer: PostgreSQL accepts it, its header says what it does, and code loads it.

The definitions below `spark/schema` are run as they are in sink/test_spark_schema.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import load
from rowbus.model.address import QueueAddress
from rowbus.services.spark_installer import ensure
from rowbus.tables.queue import QueueTable

PACKAGE = Path(rowbus.__file__).parent
SQL = PACKAGE / "database" / "sql"
SPARK = SQL / "postgresql" / "spark"
DEFINITIONS = sorted(path.relative_to(SQL).as_posix() for path in (SPARK / "schema").glob("*.sql"))
FILES = sorted(
    path.relative_to(SQL).as_posix() for path in SPARK.rglob("*.sql") if path.parent != SPARK / "schema"
)
PREPARABLE = ("select", "with", "insert", "update", "delete")
ORDERS = QueueAddress("public", "orders")
IDENTIFIERS = {"schema": "pgq", "table": "event_template", "stage": "texts", "queue": ORDERS.table}
IDENTIFIERS_OF = {
    "claims": {"schema": ORDERS.schema},
    "send_stage": {"schema": ORDERS.schema, "stage": "messages"},
}
STAGES = f"""
    create table rowbus_spark.texts ({", ".join(f"c{number} text" for number in range(1, 12))});
    create table rowbus_spark.messages (c1 text, c2 uuid, c3 text, c4 bytea);
"""


def body_of(path: str) -> str:
    text = (SQL / path).read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


@pytest.fixture
def installed(pgq: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """Give a connection to a database with a log's schema and ours, a queue, and stages."""
    with Database(pgq.info.dsn).session() as session:
        ensure(session)
        session.run(QueueTable(ORDERS).create())
    pgq.execute(STAGES.encode())
    return pgq


def identifiers_of(path: str) -> dict[str, str]:
    folder, stem = Path(path).parent.name, Path(path).stem
    return {**IDENTIFIERS, **IDENTIFIERS_OF.get(folder, {}), **IDENTIFIERS_OF.get(stem, {})}


def test_the_files_are_found() -> None:
    assert len(FILES) >= 60
    assert len(DEFINITIONS) >= 5


@pytest.mark.parametrize("path", [path for path in FILES if body_of(path).startswith(PREPARABLE)])
def test_postgresql_prepares_it(installed: psycopg.Connection[Any], path: str) -> None:
    query = load(path, identifiers=identifiers_of(path))

    installed.execute(b"prepare it as " + query.native)

    prepared = installed.execute("select cardinality(parameter_types) from pg_prepared_statements").fetchall()
    assert prepared == [(len(query.names),)]


@pytest.mark.parametrize("path", FILES)
def test_its_header_says_what_it_does_what_it_locks_and_what_it_returns(path: str) -> None:
    header = [line for line in (SQL / path).read_text(encoding="utf-8").splitlines() if line.startswith("--")]

    said = " ".join(header).lower()
    assert header
    assert re.search(r"\block(s|ed|ing)?\b|\bwaits\b", said)
    assert re.search(r"returns|row count|affects", said)


@pytest.mark.parametrize("path", FILES)
def test_some_code_loads_it(path: str) -> None:
    stem = re.escape(Path(path).stem)
    modules = [module.read_text(encoding="utf-8") for module in PACKAGE.rglob("*.py")]

    assert any(re.search(rf'"(?:[\w/{{}}]*/)?{stem}(?:\.sql)?"', module) for module in modules)


@pytest.mark.parametrize("path", DEFINITIONS)
def test_a_definition_begins_with_what_it_is_for(path: str) -> None:
    assert (SQL / path).read_text(encoding="utf-8").startswith("-- ")
