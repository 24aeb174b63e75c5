"""Every .sql file of the event log: PostgreSQL accepts it, its header says what it does, and code loads it.

The definitions below `log/schema` are run by psql as they are in test_log_schema.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rowbus
from rowbus.database.statements import load

PACKAGE = Path(rowbus.__file__).parent
SQL = PACKAGE / "database" / "sql"
LOG = SQL / "postgresql" / "log"
FILES = sorted(path.relative_to(SQL).as_posix() for path in LOG.glob("*.sql"))
DEFINITIONS = sorted(path.relative_to(SQL).as_posix() for path in (LOG / "schema").rglob("*.sql"))
PREPARABLE = ("select", "with", "insert", "update", "delete")
IDENTIFIERS = {
    "schema": "pgq",
    "table": "event_template",
    "channel": "pgq_1",
    "role": "postgres",
    "function": "version",
}


def body_of(path: str) -> str:
    text = (SQL / path).read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


def test_the_files_are_found() -> None:
    assert len(FILES) >= 40
    assert len(DEFINITIONS) >= 100


@pytest.mark.parametrize("path", [path for path in FILES if body_of(path).startswith(PREPARABLE)])
def test_postgresql_prepares_it(pgq: psycopg.Connection[Any], path: str) -> None:
    query = load(path, identifiers=IDENTIFIERS)
    if path.endswith("/maintain_log.sql"):  # calls a function that a log names, with the log's name
        pgq.execute("create function pgq.version(text) returns int language sql as 'select 1'")

    pgq.execute(b"prepare it as " + query.native)

    prepared = pgq.execute("select cardinality(parameter_types) from pg_prepared_statements").fetchall()
    assert prepared == [(len(query.names),)]


@pytest.mark.parametrize("path", FILES)
def test_its_header_says_what_it_does_what_it_locks_and_what_it_returns(path: str) -> None:
    header = [line for line in (SQL / path).read_text(encoding="utf-8").splitlines() if line.startswith("--")]

    said = " ".join(header).lower()
    assert header
    assert re.search(r"\bb?lock(s|ing)?\b|\bwaits\b|\blets no\b|\binserts\b|\bdeletes\b", said)
    assert re.search(r"returns|answers", said)


@pytest.mark.parametrize("path", FILES)
def test_some_code_loads_it(path: str) -> None:
    stem = Path(path).stem
    stem = re.sub(r"(next|finish)_(coop_)?batch", r"\1_{kind}batch", stem)  # plain and cooperative
    modules = [module.read_text(encoding="utf-8") for module in PACKAGE.rglob("*.py")]

    assert any(re.search(rf'"(?:[\w/{{}}]*/)?{re.escape(stem)}(?:\.sql)?"', module) for module in modules)


@pytest.mark.parametrize("path", DEFINITIONS)
def test_a_definition_begins_with_what_it_is_for(path: str) -> None:
    assert (SQL / path).read_text(encoding="utf-8").startswith("-- ")
