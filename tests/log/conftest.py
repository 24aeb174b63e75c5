"""Fixtures of the event log's tests: the real extension to compare with, and logs with something in them.

`oracle` is a database with PgQ's C extension, where the PostgreSQL 15 of this machine has one. `log_database` and `pgq`
are in tests/fixtures/log.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.database import DEBIAN_15, EXTERNAL, Server, Servers
from tests.fixtures.log import Templates, copy_of
from tests.log.orders import SCRIPT, Orders
from tests.log.queue_q import Connect

EXTENSION = Path("/usr/share/postgresql/15/extension/pgq.control")
FIFTEEN = Server("pg15", durable=False)


@pytest.fixture
def oracle_database(servers: Servers, templates: Templates) -> Iterator[str]:
    """Give the DSN of a database on PostgreSQL 15 with PgQ's own C extension; skip where there is none."""
    if EXTERNAL or not DEBIAN_15.exists() or not EXTENSION.exists():
        pytest.skip("PgQ's C extension is not installed beside PostgreSQL 15 (Debian: postgresql-15-pgq3)")
    server = servers.dsn(FIFTEEN)
    with copy_of(server, templates.real(server)) as dsn:
        yield dsn


@pytest.fixture
def oracle(oracle_database: str) -> Iterator[psycopg.Connection]:
    """Give a connection, in autocommit mode, to `oracle_database`."""
    with psycopg.connect(oracle_database, autocommit=True) as connection:
        yield connection


SCRIPTS = {
    "orders": SCRIPT,
    "queue": """
        select pgq.create_queue('q'), pgq.set_queue_config('q', 'ticker_max_lag', '0');
        select pgq.register_consumer('q', 'c');
    """,
}


@pytest.fixture
def log_script(request: pytest.FixtureRequest) -> str:
    """Give what makes the log of `orders` or `queue`, for a test that asks for one of them."""
    return next((script for name, script in SCRIPTS.items() if name in request.fixturenames), "")


@pytest.fixture
def orders(log_database: str, pgq: psycopg.Connection) -> Orders:
    """Give a log called "orders", empty, and what tests of its consumers do with it."""
    return Orders(log_database, pgq)


@pytest.fixture
def queue(pgq: psycopg.Connection) -> psycopg.Connection:
    """Give a connection, in autocommit mode; there is a queue "q" with a consumer "c"."""
    return pgq


@pytest.fixture
def connect(log_database: str) -> Iterator[Connect]:
    """Give what opens further connections to `log_database`, in which transactions begin by themselves."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(psycopg.connect(log_database))
