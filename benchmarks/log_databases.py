"""The databases of the log's comparisons: the same queue in our schema `pgq`, in the C extension's and in PgQue's.

Invariant: each is new when it is asked for, and all are on one server.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from benchmarks.reporting import NotRunError
from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
PACKAGES = "apt-get install postgresql-15 postgresql-15-pgq3 python3-pgq, as .ci/run does"
PGQUE_SQL = "PGQUE_SQL"
"""The environment variable with the path of PgQue's SQL; no package of PyPI, npm or Debian has that file."""

QUEUE = "bench"
CONSUMER = "reader"


@dataclass(frozen=True, slots=True)
class LogDatabase:
    """A database with one queue, and what its schema is called."""

    name: str
    dsn: str
    schema: str = "pgq"

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Connect in autocommit mode."""
        return psycopg.connect(self.dsn, autocommit=True)

    def empty(self) -> None:
        """Forget the events of the queue, and the rows of the table that is captured, if there is one."""
        with self.connect() as connection:
            found = connection.execute(f"select {self.schema}.current_event_table(%s)", (QUEUE,)).fetchone()
            assert found is not None
            connection.execute(f"truncate {found[0]}")
            if connection.execute("select to_regclass('captured') is not null").fetchone() == (True,):
                connection.execute("truncate captured")

    def tick(self) -> None:
        """Tick, now."""
        with self.connect() as connection:
            connection.execute(f"select {self.schema}.ticker(%s)", (QUEUE,))


def ours(server: str, name: str = "ours") -> LogDatabase:
    """Give a database with the schema that Rowbus installs."""
    made = LogDatabase("Rowbus", _create(server, name))
    with Database(made.dsn).session() as session:
        install_now(session)
    return _with_queue(made)


def extension(server: str) -> LogDatabase:
    """Give a database with the C extension."""
    made = LogDatabase("pgq, C extension", _create(server, "extension"))
    with made.connect() as connection:
        try:
            connection.execute("create extension pgq")
        except psycopg.errors.FeatureNotSupported as error:
            raise NotRunError(f"the extension pgq is not installed on this server ({PACKAGES})") from error
    return _with_queue(made)


def pgque(server: str) -> LogDatabase | None:
    """Give a database with PgQue; None if nobody said where its SQL is."""
    file = os.environ.get(PGQUE_SQL)
    if not file:
        return None
    made = LogDatabase("PgQue", _create(server, "pgque"), "pgque")
    command = [DEBIAN_15 / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, made.dsn]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return _with_queue(made)


def _create(server: str, name: str) -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        identifier = sql.Identifier(f"bench_{name}")
        connection.execute(sql.SQL("drop database if exists {} with (force)").format(identifier))
        connection.execute(sql.SQL("create database {}").format(identifier))
    return make_conninfo(server, dbname=f"bench_{name}")


def _with_queue(made: LogDatabase) -> LogDatabase:
    with made.connect() as connection:
        connection.execute(f"select {made.schema}.create_queue(%s)", (QUEUE,))
        for name in ("ticker_max_lag", "ticker_idle_period"):
            connection.execute(f"select {made.schema}.set_queue_config(%s, %s, '0')", (QUEUE, name))
    return made
