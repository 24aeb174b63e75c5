"""Clients on the user's own connection to SQL Server, whatever library it came through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pymssql
import pytest

import rowbus
from rowbus.database.sqlserver.backend import BorrowedAddresses
from rowbus.database.sqlserver.borrowed import borrow, borrow_async, catalog_of
from rowbus.database.sqlserver.connection import Session
from rowbus.database.sqlserver.receive_session import MessageTransaction, ReceiveSession
from rowbus.database.sqlserver.threads import SessionThread
from rowbus.database.sqlserver.transactions import BEGIN
from rowbus.errors import ConfigurationError
from tests.database.sqlserver.recording import RecordingConnection, RecordingCursor, statement
from tests.fixtures.every import every

SAVE = "save transaction rowbus_message"


class OfPymssql(RecordingConnection):
    """A connection of the library whose mark is `%s`."""

    __module__ = "pymssql._pymssql"


class OfPyodbc(RecordingConnection):
    """A connection of the library that knows its catalog, over a driver that the user has chosen."""

    __module__ = "pyodbc"
    driver = "libmsodbcsql-18.6.so.2.1"

    def getinfo(self, what: int) -> str:
        return {6: self.driver, 16: "Shop"}[what]


class SlottedConnection:
    """A connection that allows no weak references, as those of pymssql and pyodbc."""

    __module__ = "pymssql._pymssql"
    __slots__ = ("_wire",)

    def __init__(self, wire: RecordingConnection) -> None:
        self._wire = wire

    def cursor(self) -> RecordingCursor:
        return self._wire.cursor()


class Alchemy:
    """Parts that are used of a connection of SQLAlchemy's."""

    def __init__(self, driver_connection: object) -> None:
        self.connection = SimpleNamespace(driver_connection=driver_connection)
        self.begun = 0

    def in_transaction(self) -> bool:
        return self.begun > 0

    def begin(self) -> None:
        self.begun += 1

    def begin_nested(self) -> None:
        raise NotImplementedError


class OrmSession:
    """Parts that are used of an ORM session of SQLAlchemy's."""

    def __init__(self, alchemy: Alchemy) -> None:
        self._alchemy = alchemy

    def connection(self) -> Alchemy:
        return self._alchemy

    def flush(self) -> None:
        raise NotImplementedError

    begin = begin_nested = in_transaction = flush


def test_the_recorded_libraries_are_called_as_the_real_ones() -> None:
    assert pymssql.Connection.__module__.partition(".")[0] == OfPymssql.__module__.partition(".")[0]


@every("library", [RecordingConnection, OfPyodbc])
def test_a_connection_of_odbc_gets_question_marks(library: type[RecordingConnection]) -> None:
    wire = library()
    borrow(wire)().run(statement("send ? from [50%?]", x=1))
    assert wire.calls == [("send ? from [50%?]", "1")]


def test_only_a_driver_of_microsofts_takes_values_without_a_size() -> None:
    microsofts, free = OfPyodbc(), OfPyodbc()
    free.driver = "libtdsodbc.so"
    for wire in (microsofts, free):
        borrow(wire)().run(statement("send ?", body=b"1"))
    assert (len(microsofts.sizes), free.sizes) == (1, [])


def test_a_connection_of_pymssql_gets_percent_marks_and_other_percent_signs_doubled() -> None:
    wire = OfPymssql()
    borrow(wire)().run(statement("send ? from [50%?] where 'a?%' = N'?'", x=1))
    assert wire.calls == [("send %s from [50%%?] where 'a?%%' = N'?'", "1")]


def test_a_batch_without_parameters_is_left_as_it_is() -> None:
    wire = OfPymssql()
    borrow(wire)().run(statement("select 10 % 3"))
    assert wire.calls == [("select 10 % 3",)]


def test_a_sqlalchemy_connection_is_used_in_the_transaction_it_begins() -> None:
    wire = RecordingConnection()
    alchemy = Alchemy(wire)
    borrowed = borrow(alchemy)
    assert alchemy.begun == 0
    borrowed().run(statement("send"))
    borrowed().run(statement("send"))
    assert alchemy.begun == 1
    assert wire.texts == ["send", "send"]


def test_an_orm_session_is_asked_for_its_connection_each_time() -> None:
    first, second = RecordingConnection(), RecordingConnection()
    alchemy = Alchemy(first)
    borrowed = borrow(OrmSession(alchemy))
    borrowed().run(statement("send"))
    alchemy.connection.driver_connection = second
    borrowed().run(statement("send"))
    assert (first.texts, second.texts) == (["send"], ["send"])


@every("unusable", [object(), None, "mssql://db/Sales"])
def test_anything_else_is_refused_by_what_it_is(unusable: object) -> None:
    for lend in (borrow, borrow_async):
        with pytest.raises(ConfigurationError, match=r"needs a connection of mssql-python.*builtins"):
            lend(unusable)


def test_sqlalchemy_over_another_driver_is_refused_at_the_first_use() -> None:
    with pytest.raises(ConfigurationError, match="over one of them"):
        borrow(Alchemy(object()))()


async def test_an_asynchronous_client_uses_the_same_connections_in_a_thread() -> None:
    wire = RecordingConnection()
    for connection in (wire, Alchemy(wire), OrmSession(Alchemy(wire))):
        session = await borrow_async(connection)()
        await session.run(statement("send"))
    assert wire.texts == ["send"] * 3


async def test_a_client_on_a_handlers_connection_is_part_of_the_attempt() -> None:
    wire = RecordingConnection()
    transaction = MessageTransaction(wire)
    receiving = ReceiveSession(transaction, SessionThread(transaction))
    await receiving.begin(statement("receive"))
    receiving.start_attempt()
    client = await borrow_async(receiving.handler_connection)()
    await client.run(statement("send ?", x=1))
    borrow(receiving.sync_handler_connection)().run(statement("send too ?", x=2))
    assert wire.calls == [(BEGIN,), ("receive",), (SAVE,), ("send ?", "1"), ("send too ?", "2")]
    await receiving.close()


async def test_a_transaction_within_a_handlers_connection_is_a_savepoint() -> None:
    wire = RecordingConnection()
    transaction = MessageTransaction(wire)
    receiving = ReceiveSession(transaction, SessionThread(transaction))
    await receiving.begin(statement("receive"))
    receiving.start_attempt()
    client = await borrow_async(receiving.handler_connection)()
    async with client.transaction():
        await client.run(statement("send"))
    assert "save transaction rowbus_block_1" in wire.texts
    assert wire.open == 1
    await receiving.close()


def test_the_catalog_is_the_drivers_to_tell_and_else_asked_for() -> None:
    assert catalog_of(OfPyodbc()) == "Shop"
    wire = OfPymssql()
    wire.answer("db_name", ("Shop",))
    assert catalog_of(wire) == "Shop"
    assert catalog_of(Alchemy(wire)) == "Shop"


def test_a_client_publishes_through_a_connection_that_allows_no_weak_references() -> None:
    wire = RecordingConnection()
    wire.answer("db_name", ("Shop",))
    rowbus.Client(SlottedConnection(wire)).publish({}, type="Shop.OrderPlaced")
    assert any("SubscriptionRouting" in text for text in wire.texts)


async def test_a_handlers_connection_knows_its_catalog() -> None:
    wire = RecordingConnection()
    transaction = MessageTransaction(wire)
    transaction.catalog = "Shop"
    receiving = ReceiveSession(transaction, SessionThread(transaction))
    assert catalog_of(receiving.handler_connection) == "Shop"
    assert catalog_of(receiving.sync_handler_connection) == "Shop"
    assert wire.calls == []


def test_addresses_ask_for_the_catalog_once_and_only_when_one_is_made() -> None:
    wire: Any = OfPymssql()
    wire.answer("db_name", ("Shop",))
    addresses = BorrowedAddresses(None, wire)
    assert (wire.calls, addresses.schema) == ([], "dbo")
    assert str(addresses.from_user("Sales")) == "Sales@[dbo]@[Shop]"
    assert str(addresses.for_endpoint("Sales", qualifier="Delayed")) == "Sales.Delayed@[dbo]@[Shop]"
    assert addresses.parse("Sales@[x]").catalog == addresses.catalog == "Shop"
    assert len(wire.calls) == 1


def test_a_borrowed_session_closes_nothing_of_the_users() -> None:
    wire = RecordingConnection()
    session = borrow(wire)()
    assert isinstance(session, Session)
    session.run(statement("send"))
    del session
    assert not wire.closed
