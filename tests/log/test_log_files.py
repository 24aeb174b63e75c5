"""Every .sql file of the event log: PostgreSQL accepts it, its header says what it does, and code loads it.

The definitions below `log/schema` are run by psql as they are in test_log_schema.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg

from rowbus.database.statements import load
from tests.fixtures.every import every
from tests.fixtures.sql_files import LOG, PACKAGE, can_be_prepared, files_for, header_of, is_loaded, text_of

SCHEMA = LOG / "sql" / "postgresql" / "schema"
FILES = [
    *files_for("postgresql", of=LOG, but=(SCHEMA, SCHEMA.parent / "adopt")),
    *files_for("postgresql", of=PACKAGE / "transport" / "events"),
]
DEFINITIONS = files_for("postgresql", of=SCHEMA)
IDENTIFIERS = {
    "schema": "pgq",
    "table": "event_template",
    "channel": "pgq_1",
    "role": "postgres",
    "function": "version",
}


def test_the_files_are_found() -> None:
    assert len(FILES) >= 40
    assert len(DEFINITIONS) >= 100


@every("path", [*filter(can_be_prepared, FILES)])
def test_postgresql_prepares_it(pgq: psycopg.Connection[Any], path: str) -> None:
    query = load(path, identifiers=IDENTIFIERS)
    if path.endswith("/replica_faults.sql"):  # reads what Spark's schema has, where it is installed
        pgq.execute("create schema rowbus_spark")
        pgq.execute("create table rowbus_spark.replica_table (replica text, source_table text, fault text)")
    if path.endswith("/maintain_log.sql"):  # calls a function that a log names, with the log's name
        pgq.execute("create function pgq.version(text) returns int language sql as 'select 1'")

    pgq.execute(b"prepare it as " + query.native)

    prepared = pgq.execute(
        "select cardinality(parameter_types) from pg_prepared_statements where name = 'it'"
    ).fetchall()
    pgq.execute("deallocate it")
    assert prepared == [(len(query.names),)]


@every("path", FILES)
def test_its_header_says_what_it_does_what_it_locks_and_what_it_returns(path: str) -> None:
    said = header_of(path).lower()
    assert re.search(r"\bb?lock(s|ing)?\b|\bwaits\b|\blets no\b|\binserts\b|\bdeletes\b", said)
    assert re.search(r"returns|answers", said)


@every("path", FILES)
def test_some_code_loads_it(path: str) -> None:
    assert is_loaded(Path(path).stem)


@every("path", DEFINITIONS)
def test_a_definition_begins_with_what_it_is_for(path: str) -> None:
    assert text_of(path).startswith("-- ")
    assert text_of(path).isascii(), "a database in LATIN1 takes no other letters"
