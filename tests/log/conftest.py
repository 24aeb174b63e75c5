"""What the tests of the event log share: databases with the schema `pgq`, and the real extension to compare with.

The schema is installed once a server, into a template; a test's own database is a copy of it, which takes
milliseconds. `oracle` is a database with PgQ's C extension, where the PostgreSQL 15 of this machine has one.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from rowbus.database.postgresql.database import Database
from rowbus.services.log_installer import install_now
from tests.fixtures.database import DEBIAN_15, EXTERNAL, Server, Servers, with_database
from tests.log.orders import Orders
from tests.log.queue_q import Connect

EXTENSION = Path("/usr/share/postgresql/15/extension/pgq.control")
FIFTEEN = Server("pg15", durable=False)


class Templates:
    """The databases that tests copy, each made when a test first needs it."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], str] = {}

    def installed(self, server: str) -> str:
        """Give the name of a database with our schema."""
        if (server, "ours") not in self._made:
            name = self._made[server, "ours"] = _create(server, "template0")
            with Database(with_database(server, name)).session() as session:
                install_now(session)
        return self._made[server, "ours"]

    def real(self, server: str) -> str:
        """Give the name of a database with the C extension."""
        if (server, "real") not in self._made:
            name = self._made[server, "real"] = _create(server, "template0")
            with psycopg.connect(with_database(server, name), autocommit=True) as connection:
                connection.execute("create extension pgq")
        return self._made[server, "real"]

    def drop(self) -> None:
        for (server, _kind), name in self._made.items():
            _drop(server, name)


@pytest.fixture(scope="session")
def templates(servers: Servers) -> Iterator[Templates]:
    templates = Templates()
    yield templates
    templates.drop()


@pytest.fixture
def log_database(postgres_server: str, templates: Templates) -> Iterator[str]:
    """Give the DSN of a database of this test's own, with the schema `pgq` and no queues."""
    with _copy(postgres_server, templates.installed(postgres_server)) as dsn:
        yield dsn


@pytest.fixture
def pgq(log_database: str) -> Iterator[psycopg.Connection]:
    """Give a connection, in autocommit mode, to `log_database`."""
    with psycopg.connect(log_database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def oracle_database(servers: Servers, templates: Templates) -> Iterator[str]:
    """Give the DSN of a database on PostgreSQL 15 with PgQ's own C extension; skip where there is none."""
    if EXTERNAL or not DEBIAN_15.exists() or not EXTENSION.exists():
        pytest.skip("PgQ's C extension is not installed beside PostgreSQL 15 (Debian: postgresql-15-pgq3)")
    server = servers.dsn(FIFTEEN)
    with _copy(server, templates.real(server)) as dsn:
        yield dsn


@pytest.fixture
def oracle(oracle_database: str) -> Iterator[psycopg.Connection]:
    """Give a connection, in autocommit mode, to `oracle_database`."""
    with psycopg.connect(oracle_database, autocommit=True) as connection:
        yield connection


@contextmanager
def _copy(server: str, template: str) -> Generator[str]:
    name = _create(server, template)
    try:
        yield with_database(server, name)
    finally:
        _drop(server, name)


def _create(server: str, template: str) -> str:
    name = f"rowbus_log_{secrets.token_hex(6)}"
    create = sql.SQL("create database {} template {} strategy file_copy")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
    return name


def _drop(server: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def orders(log_database: str, pgq: psycopg.Connection) -> Orders:
    """Give a log called "orders", empty, and what tests of its consumers do with it."""
    return Orders(log_database, pgq)


@pytest.fixture
def queue(pgq: psycopg.Connection) -> psycopg.Connection:
    """Give a connection, in autocommit mode; there is a queue "q" with a consumer "c"."""
    pgq.execute("select pgq.create_queue('q'), pgq.set_queue_config('q', 'ticker_max_lag', '0')")
    pgq.execute("select pgq.register_consumer('q', 'c')")
    return pgq


@pytest.fixture
def connect(log_database: str) -> Iterator[Connect]:
    """Give what opens further connections to `log_database`, in which transactions begin by themselves."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(psycopg.connect(log_database))
