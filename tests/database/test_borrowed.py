"""Borrowed connections: psycopg's and SQLAlchemy's, sync and async; their transactions remain their owner's."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import sqlalchemy
from psycopg.abc import Buffer
from psycopg.types.string import TextBinaryLoader
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as async_alchemy

from rowbus import AsyncClient, Client, ConfigurationError
from rowbus.database.backends import borrow
from rowbus.database.postgresql.connection import Session
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.every import every
from tests.fixtures.sessions import bodies

ORDER = {"order_id": "42"}


def send(connection: object) -> None:
    Client(connection).send("Sales", ORDER, type="Shop.PlaceOrder")


async def send_async(connection: object) -> None:
    await AsyncClient(connection).send("Sales", ORDER, type="Shop.PlaceOrder")


def waiting(session: Session, queue: QueueTable) -> int:
    return len(bodies(session, queue))


@pytest.fixture
def engine(database: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database))
    yield engine
    engine.dispose()


@pytest.fixture
async def async_engine(database: str) -> AsyncIterator[async_alchemy.AsyncEngine]:
    pytest.importorskip(
        "greenlet", reason="SQLAlchemy's asyncio needs it: sqlalchemy[asyncio] in the dev group"
    )

    async def connect() -> psycopg.AsyncConnection:
        return await psycopg.AsyncConnection.connect(database)

    engine = async_alchemy.create_async_engine("postgresql+psycopg://", async_creator=connect)
    yield engine
    await engine.dispose()


# ----------------------------------------------------------------------------------------------------------- psycopg


def test_a_connection_of_a_pool_is_a_connection(database: str, session: Session, queue: QueueTable) -> None:
    with ConnectionPool(database, min_size=1, max_size=1, open=True) as pool, pool.connection() as connection:
        send(connection)
        assert waiting(session, queue) == 0

    assert waiting(session, queue) == 1


class Odd(TextBinaryLoader):
    """A loader of the user's, for text of all types."""

    def load(self, data: Buffer) -> str:
        return bytes(data).decode().upper()


@every("encoding", ["sql_ascii", "utf8"])
def test_what_the_user_does_with_values_is_theirs(
    database: str, session: Session, queue: QueueTable, encoding: str
) -> None:
    send(session.connection)
    with psycopg.connect(database, client_encoding=encoding) as connection:
        for name in ("text", "varchar") if encoding == "utf8" else ():
            connection.adapters.register_loader(name, Odd)
        (peeked,) = borrow(connection).session().run(queue.peek(1))
        (ours,) = session.run(queue.peek(1))
        assert peeked == ours

        theirs = connection.execute("select 'a'", binary=True).fetchone()
        assert theirs == (("A",) if encoding == "utf8" else (b"a",))


async def test_so_is_one_of_an_asynchronous_pool(database: str, session: Session, queue: QueueTable) -> None:
    async with (
        AsyncConnectionPool(database, min_size=1, max_size=1, open=False) as pool,
        pool.connection() as connection,
    ):
        await send_async(connection)

    assert waiting(session, queue) == 1


@pytest.mark.one_version
@every(
    "other", [None, "postgresql://…", object(), sqlite3.connect(":memory:")], ids=lambda o: type(o).__name__
)
async def test_what_is_no_connection_is_refused_by_its_name(other: object) -> None:
    kind = f"{type(other).__module__}.{type(other).__qualname__}"

    with pytest.raises(ConfigurationError, match=rf"^Client needs a psycopg\.Connection.*{kind}\.$"):
        send(other)
    with pytest.raises(
        ConfigurationError, match=rf"^AsyncClient needs a psycopg\.AsyncConnection.*{kind}\.$"
    ):
        await send_async(other)


async def test_the_two_kinds_of_connection_are_told_apart(database: str) -> None:
    with (
        psycopg.connect(database) as synchronous,
        pytest.raises(ConfigurationError, match=r"given a psycopg\.Conn"),
    ):
        await send_async(synchronous)
    async with await psycopg.AsyncConnection.connect(database) as asynchronous:
        with pytest.raises(ConfigurationError, match=r"given a psycopg\.\S*AsyncConnection"):
            send(asynchronous)


@pytest.mark.one_version
def test_sqlalchemy_over_another_driver_is_refused() -> None:
    engine = sqlalchemy.create_engine("sqlite://")

    with engine.connect() as connection, pytest.raises(ConfigurationError) as refused:
        send(connection)
    engine.dispose()

    assert str(refused.value) == (
        "Client was given a SQLAlchemy Connection that is not over psycopg 3 as Client needs it: psycopg.Connection. "
        "Make the engine with the URL postgresql+psycopg://…; for an asynchronous one, create_async_engine and "
        "AsyncClient."
    )


# ------------------------------------------------------------------------------------------------ SQLAlchemy, sync


def test_sqlalchemys_connection(engine: sqlalchemy.Engine, session: Session, queue: QueueTable) -> None:
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("select 1"))
        send(connection)
        Client(connection).send_many("Sales", [ORDER], type="Shop.PlaceOrder")
        assert waiting(session, queue) == 0

    assert waiting(session, queue) == 2


def test_sqlalchemys_connection_rolled_back(
    engine: sqlalchemy.Engine, session: Session, queue: QueueTable
) -> None:
    with engine.connect() as connection:
        send(connection)
        Client(connection).send_many("Sales", [ORDER], type="Shop.PlaceOrder")
        connection.rollback()
        connection.commit()

    assert waiting(session, queue) == 0


def test_a_send_begins_sqlalchemys_transaction_as_a_statement_would(
    engine: sqlalchemy.Engine, session: Session, queue: QueueTable
) -> None:
    """SQLAlchemy commits only what it knows to have begun."""
    with engine.connect() as connection:
        client = Client(connection)
        for count in (1, 2):
            client.send("Sales", ORDER, type="Shop.PlaceOrder")
            connection.commit()
            assert waiting(session, queue) == count


def test_many_messages_begin_it_too(engine: sqlalchemy.Engine, session: Session, queue: QueueTable) -> None:
    with engine.connect() as connection:
        Client(connection).send_many("Sales", [ORDER], type="Shop.PlaceOrder")
        assert waiting(session, queue) == 0
        connection.commit()

    assert waiting(session, queue) == 1


def test_sqlalchemys_orm_session(engine: sqlalchemy.Engine, session: Session, queue: QueueTable) -> None:
    with orm.Session(engine) as unit_of_work:
        send(unit_of_work)
        assert waiting(session, queue) == 0
        unit_of_work.commit()
        assert waiting(session, queue) == 1
        send(unit_of_work)
        unit_of_work.rollback()
    scoped = orm.scoped_session(orm.sessionmaker(engine))  # as Flask-SQLAlchemy's db.session
    send(scoped)
    scoped.commit()
    send(scoped)
    scoped.remove()

    assert waiting(session, queue) == 2
    with pytest.raises(ConfigurationError, match="in which of its databases"):
        send(orm.Session(binds={dict: engine}))


def test_a_client_follows_its_orm_session_to_the_connection_of_the_next_transaction(
    engine: sqlalchemy.Engine, session: Session, queue: QueueTable
) -> None:
    """After its commit the session's connection is the pool's again, perhaps already somebody else's."""
    with orm.Session(engine) as unit_of_work:
        client = Client(unit_of_work)
        client.send("Sales", ORDER, type="Shop.PlaceOrder")
        unit_of_work.commit()
        with engine.connect() as somebody_else:
            somebody_else.execute(sqlalchemy.text("select 1"))
            client.send("Sales", ORDER, type="Shop.PlaceOrder")
            unit_of_work.commit()
            somebody_else.rollback()

    assert waiting(session, queue) == 2


def test_sqlalchemys_savepoint(engine: sqlalchemy.Engine, session: Session, queue: QueueTable) -> None:
    with engine.begin() as connection:
        send(connection)
        with connection.begin_nested() as savepoint:
            send(connection)
            savepoint.rollback()

    assert waiting(session, queue) == 1


def test_sqlalchemy_in_autocommit_mode(
    engine: sqlalchemy.Engine, session: Session, queue: QueueTable
) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        send(connection)
        assert waiting(session, queue) == 1


# ----------------------------------------------------------------------------------------------- SQLAlchemy, async


async def test_sqlalchemys_asynchronous_connection(
    async_engine: async_alchemy.AsyncEngine, session: Session, queue: QueueTable
) -> None:
    async with async_engine.begin() as connection:
        await send_async(connection)
        await AsyncClient(connection).send_many("Sales", [ORDER], type="Shop.PlaceOrder")
        assert waiting(session, queue) == 0

    assert waiting(session, queue) == 2


async def test_a_send_begins_sqlalchemys_asynchronous_transaction_too(
    async_engine: async_alchemy.AsyncEngine, session: Session, queue: QueueTable
) -> None:
    async with async_engine.connect() as connection:
        client = AsyncClient(connection)
        for count in (1, 2):
            await client.send("Sales", ORDER, type="Shop.PlaceOrder")
            await connection.commit()
            assert waiting(session, queue) == count
        await client.send("Sales", ORDER, type="Shop.PlaceOrder")
        await connection.rollback()

    assert waiting(session, queue) == 2


async def test_sqlalchemys_asynchronous_orm_session(
    async_engine: async_alchemy.AsyncEngine, session: Session, queue: QueueTable
) -> None:
    async with async_alchemy.AsyncSession(async_engine) as unit_of_work:
        client = AsyncClient(unit_of_work)
        await client.send("Sales", ORDER, type="Shop.PlaceOrder")
        assert waiting(session, queue) == 0
        await unit_of_work.commit()
        assert waiting(session, queue) == 1
        async with async_engine.connect() as somebody_else:
            await somebody_else.execute(sqlalchemy.text("select 1"))
            await client.send("Sales", ORDER, type="Shop.PlaceOrder")
            await unit_of_work.commit()
            await somebody_else.rollback()
    scoped = async_alchemy.async_scoped_session(async_alchemy.async_sessionmaker(async_engine), lambda: 1)
    await send_async(scoped)
    await scoped.commit()
    await scoped.remove()

    assert waiting(session, queue) == 3
