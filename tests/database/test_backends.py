"""A database is chosen by its connection string or by a user's connection, and nobody loads another's modules."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psycopg
import pytest
import sqlalchemy.orm

import rowbus
from rowbus.database import backends
from rowbus.database.location import DATABASE_VARIABLE, resolve_dsn
from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.cursors import CURSORS
from rowbus.errors import ConfigurationError, InvalidAddressError
from rowbus.messages.address import PostgresAddresses, QueueAddress, address_of
from rowbus.messages.sqlserver_address import SqlServerAddress, SqlServerAddresses
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.table import queue_table
from tests.fixtures.every import every

MSSQL = "mssql://user:hunter2@host:1433/shop"
POSTGRESQL = "postgresql://host/shop"


TIMES = [
    ("infinity", "9999-12-31"),
    ("20000-01-01", "9999-12-31"),
    ("-infinity", "0001-01-02"),
    ("0044-03-15 BC", "0001-01-02"),
    ("2026-11-27", "2026-11-27"),
]


@every("time, read", TIMES)
def test_a_time_that_python_has_not_is_read_as_the_nearest(time: str, read: str, session: Session) -> None:
    for kind in ("timestamp", "timestamptz"):
        for binary in (False, True):
            cursor = CURSORS[False](session.connection)
            ((found,),) = cursor.execute(f"select '{time}'::{kind}".encode(), binary=binary)
            assert str(found.date()) == read


# ------------------------------------------------------------------------------------------------ connection strings


@every("dsn", [POSTGRESQL, "host=somewhere dbname=shop", "", "postgres://host/mssql://x"])
def test_whatever_does_not_say_otherwise_is_postgresql(dsn: str) -> None:
    assert backends.addresses_of(dsn) == PostgresAddresses("public")


@every("dsn", [MSSQL, MSSQL.replace("mssql", "MSSQL")])
def test_the_scheme_tells_sql_server(dsn: str) -> None:
    assert backends.addresses_of(dsn) == SqlServerAddresses("dbo", "shop")
    assert backends.addresses_of(dsn, "sales") == SqlServerAddresses("sales", "shop")
    assert not backends.open_database(dsn).notifies


def test_without_a_string_the_environment_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert backends.addresses_of(None) == PostgresAddresses("public")

    monkeypatch.setenv(DATABASE_VARIABLE, MSSQL)

    assert backends.addresses_of(None) == SqlServerAddresses("dbo", "shop")
    assert backends.addresses_of(POSTGRESQL) == PostgresAddresses("public")
    with pytest.raises(ConfigurationError, match="names no database"):
        resolve_dsn(" ")  # as a variable that is not set


def test_an_address_finds_the_tables_of_its_database() -> None:
    for dsn, place in ((POSTGRESQL, "postgresql"), (MSSQL, "sqlserver")):
        addresses = backends.addresses_of(dsn)
        table = queue_table(addresses.for_endpoint("Sales"))

        assert type(table).__module__ == f"rowbus.transport.queues.{place}"
        assert catalog_of(addresses).clock()


def test_what_only_postgresql_has_refuses_another_database() -> None:
    with pytest.raises(ConfigurationError, match="PostgreSQL only"):
        backends.open_postgresql(MSSQL)
    with (
        pytest.raises(ConfigurationError, match="PostgreSQL") as refused,
        rowbus.Log(MSSQL, "orders")._session(),
    ):
        pass
    assert "hunter2" not in str(refused.value)


def test_who_uses_postgresql_loads_no_module_of_sql_server() -> None:
    program = """if True:
        import sys, rowbus, rowbus.cli
        from rowbus.database import backends
        from rowbus.transport.queues.table import queue_table
        queue_table(rowbus.Endpoint("Sales", database="postgresql://host/shop").address)
        backends.open_database("postgresql://host/shop")
        loaded = [name for name in sys.modules if "sqlserver" in name or "mssql" in name]
        print(sorted(set(loaded) - {"rowbus.messages.sqlserver_address"}))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


# -------------------------------------------------------------------------------------------------------- connections


def connection_of(module: str, **attributes: object) -> Any:  # noqa: ANN401 - of no library that is here
    names: dict[str, object] = {"__module__": module, "cursor": lambda _self: None, **attributes}
    return type("Connection", (), names)()


@every("module", ["mssql_python.connection", "pymssql._pymssql", "pyodbc"])
def test_a_connection_is_known_by_its_drivers_package(module: str) -> None:
    assert backends.borrow(connection_of(module)).addresses.backend == SqlServerAddress.backend
    assert backends.borrow_async(connection_of(module)).addresses.backend == SqlServerAddress.backend


@every(
    "module, backend",
    [
        ("rowbus.database.sqlserver.handler_connection", "sqlserver"),
        ("rowbus.database.postgresql.handler_connection", "postgresql"),
        ("rowbus.endpoint.context", ""),
        ("shop.database.sqlserver", ""),
    ],
)
def test_a_handlers_connection_is_known_by_our_module_that_made_it(module: str, backend: str) -> None:
    assert backends.backend_of(connection_of(module)) == backend


def test_a_connection_of_sqlalchemy_is_known_by_its_dialect() -> None:
    engine = sqlalchemy.create_engine("postgresql+psycopg://host/shop")  # connects to nobody
    with sqlalchemy.orm.Session(engine) as session:
        assert backends.borrow(session).addresses == PostgresAddresses("public")


@every("what", [None, 1, "mssql://", connection_of("sqlite3")])
def test_what_is_no_connection_is_refused(what: object) -> None:
    with pytest.raises(ConfigurationError, match=r"psycopg\.Connection"):
        backends.borrow(what)
    with pytest.raises(ConfigurationError, match=r"psycopg\.AsyncConnection"):
        backends.borrow_async(what)


def test_a_connection_of_the_other_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        backends.borrow(object.__new__(psycopg.AsyncConnection))


# ----------------------------------------------------------------------------------------------------------- endpoints


def test_an_endpoints_addresses_are_those_of_its_database() -> None:
    endpoint = rowbus.Endpoint("Sales", database=MSSQL)

    assert endpoint.address == SqlServerAddress("dbo", "Sales", "shop")
    assert endpoint.error_queue == SqlServerAddress("dbo", "error", "shop")
    assert str(endpoint.parts.delayed) == "Sales.Delayed@[dbo]@[shop]"
    assert str(endpoint.subscription_table) == "SubscriptionRouting@[dbo]@[shop]"

    endpoint.database = POSTGRESQL

    assert endpoint.address == QueueAddress("public", "Sales")
    assert str(endpoint.parts.delayed) == '"public"."Sales.Delayed"'


async def test_an_endpoint_does_not_start_in_a_database_it_was_not_made_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint = rowbus.Endpoint("Sales")
    monkeypatch.setenv(DATABASE_VARIABLE, MSSQL)

    with pytest.raises(ConfigurationError, match=DATABASE_VARIABLE):
        await endpoint.start()


@every("kind", [rowbus.PostgresDelayedMessageStore, rowbus.SqlServerDelayedMessageStore])
def test_a_store_refuses_a_database_of_another_kind(kind: Any) -> None:  # noqa: ANN401 - both take a string
    other = MSSQL if kind is rowbus.PostgresDelayedMessageStore else POSTGRESQL

    with pytest.raises(ConfigurationError, match=kind.__name__):
        kind(other)


@every(
    "given, addresses",
    [
        (QueueAddress("public", "Sales"), SqlServerAddresses("dbo", "shop")),
        (SqlServerAddress("dbo", "Sales", "shop"), PostgresAddresses()),
    ],
)
def test_an_address_of_another_database_is_refused(
    given: QueueAddress, addresses: PostgresAddresses | SqlServerAddresses
) -> None:
    with pytest.raises(InvalidAddressError, match="give the queue's name instead"):
        address_of(given, addresses)
    assert address_of("Sales", addresses).table == "Sales"
    assert address_of(addresses.from_user("Sales"), addresses) == addresses.from_user("Sales")
