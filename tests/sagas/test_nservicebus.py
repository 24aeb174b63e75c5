"""Sagas in NServiceBus's layout: begun by .NET and continued here, begun here and readable there, on every database."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

import rowbus
from rowbus.sagas.nservicebus.table import Correlation, SagaTable, shared_table
from rowbus.sagas.store import DatabaseStore
from rowbus.sagas.table import Beginning
from rowbus.transport.queues.installer import create_table
from tests.conformance.endpoints import ERROR
from tests.conformance.transport import eventually
from tests.fixtures.every import every
from tests.sagas.nservicebus import (
    SALES,
    TABLE,
    BuyersRemorseOver,
    OrderSaga,
    Sagas,
    StartOrder,
    received,
    recorded,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowbus.database.sessions import AsyncSession
    from tests.conformance.backend import Backend
    from tests.conformance.endpoints import Endpoints

LONG_ENOUGH = 1.0  # seconds for a statement that waits for nobody
SHAPES = {
    "PostgreSQL": (
        """
        select concat_ws(' ', column_name, data_type, character_maximum_length, is_nullable)
        from information_schema.columns where table_schema = '{schema}' and table_name = 'Sales_OrderSaga' order by 1
        """,
        """
        select replace(indexdef, schemaname || '.', '') from pg_indexes
        where schemaname = '{schema}' and tablename = 'Sales_OrderSaga' order by 1
        """,
    ),
    "SQL Server": (
        """
        select concat(c.name, N' ', t.name, N' ', c.max_length, N' ', c.is_nullable) as shape
        from sys.columns as c inner join sys.types as t on c.user_type_id = t.user_type_id
        where c.object_id = object_id(N'[{schema}].[Sales_OrderSaga]') order by shape
        """,
        """
        select concat(name, N' ', is_unique, N' ', has_filter) as shape from sys.indexes
        where object_id = object_id(N'[{schema}].[Sales_OrderSaga]') and is_primary_key = 0 order by shape
        """,
    ),
}


@pytest.fixture
def sagas(backend: Backend) -> Sagas:
    return Sagas(backend)


@pytest.fixture
async def session(backend: Backend) -> AsyncIterator[AsyncSession]:
    session = await backend.database.connect()
    yield session
    await session.close()


@pytest.fixture
def table(backend: Backend) -> SagaTable:
    return shared_table(backend.queue(TABLE), "OrderSaga", Correlation("OrderNumber", "text"))


async def test_a_saga_that_dotnet_began_goes_on_and_ends_here(endpoints: Endpoints, sagas: Sagas) -> None:
    backend = endpoints.backend
    await backend.create_queue("Web")
    await sagas.install()
    begun = recorded(0)
    await sagas.store(begun._replace(metadata=sagas.here(begun.metadata)))
    sales = endpoints.make(SALES)
    sales.add(OrderSaga)
    await sales.start()

    await sagas.receives("CardCharged")
    row = await sagas.written(2)
    assert values_of(row)[2:3] == values_of(recorded(1))[2:3]
    assert (row.persistence_version, row.saga_type_version) == ("rowbus", "0.0")  # who wrote it last

    late, second = received("BuyersRemorseOver")
    await backend.insert_delayed("Sales.Delayed", sagas.here(late.headers_text), late.body, due_in=0.05)
    await eventually(lambda: _count_is(backend, TABLE, 0))
    (answer,) = await backend.rows("Web")
    assert json.loads(answer.body or b"") == {"OrderNumber": "A-1 R-9"}
    (start,) = received("StartOrder")
    assert answer.headers["NServiceBus.CorrelationId"] == (start.headers or {})["NServiceBus.MessageId"]

    await backend.insert(SALES, sagas.here(second.headers_text), second.body)
    await eventually(lambda: _count_is(backend, SALES, 0))
    assert await backend.count(ERROR) == 0


async def _count_is(backend: Backend, table: str, number: int) -> bool:
    return await backend.count(table) == number


async def test_a_saga_begun_here_has_the_row_that_dotnet_would_have_written(
    endpoints: Endpoints, sagas: Sagas
) -> None:
    backend = endpoints.backend
    await backend.create_queue("Billing")
    sales = endpoints.make(SALES)
    sales.add(OrderSaga)
    await sales.start()
    await sagas.receives("StartOrder")

    row = await sagas.written(1)
    assert json.loads(row.data, parse_float=str) == {"OrderNumber": "A-1", "Total": "19.99"}
    assert row.metadata == sagas.here(recorded(0).metadata)
    assert row.persistence_version == "rowbus"
    assert row.saga_type_version == "0.0"
    assert await backend.values(f'select "Correlation_OrderNumber" from {sagas.name()}') == ["A-1"]

    (timeout,) = await backend.delayed_rows("Sales.Delayed")
    assert timeout.headers["NServiceBus.SagaId"] == row.id == str(UUID(row.id))
    assert timeout.headers["NServiceBus.SagaType"] == "Shop.Endpoints.OrderSaga, Shop.Endpoints"
    assert timeout.headers["NServiceBus.IsSagaTimeoutMessage"] == "True"


async def test_the_table_that_is_made_here_is_dotnets_and_for_one_property_only(
    endpoints: Endpoints, sagas: Sagas
) -> None:
    backend = endpoints.backend
    sales = endpoints.make(SALES)
    sales.add(OrderSaga)
    await sales.start()
    theirs = await backend.create_schema("theirs")
    await sagas.install(theirs)

    columns, indexes = SHAPES[backend.name]
    for query, least in ((columns, 7), (indexes, 1)):
        expected = await backend.values(query.format(schema=theirs))
        assert len(expected) >= least
        assert await backend.values(query.format(schema=backend.schema)) == expected

    another = endpoints.make(SALES)
    another.add(ByIdent)
    with pytest.raises(
        rowbus.ConfigurationError, match=r"(?i)has no column for that: it has Correlation_OrderNumber"
    ):
        await another.start()


@dataclass
class Data:
    ident: str


class ByIdent(rowbus.Saga[Data], name="Shop.Endpoints.OrderSaga", correlation="ident", layout="nservicebus"):
    """Is found by another property."""

    @rowbus.starts(StartOrder, by=lambda message: message.OrderNumber)
    async def started(self, message: StartOrder) -> None: ...


async def test_two_that_begin_one_saga_are_one(endpoints: Endpoints, sagas: Sagas) -> None:
    sales = endpoints.make(SALES)
    sales.add(Quick)
    await sales.start()
    for _ in range(5):
        await sales.send(SALES, StartOrder("A-1"))
    await sagas.written(5)
    assert await endpoints.backend.count(ERROR) == 0


class Quick(OrderSaga, name="Shop.Endpoints.OrderSaga", correlation="order_number", layout="nservicebus"):
    """Asks for nothing."""

    @rowbus.starts(StartOrder, by=lambda message: message.OrderNumber)
    async def started(self, message: StartOrder, context: rowbus.SagaContext) -> None: ...


async def test_a_saga_that_dotnet_begins_in_the_same_instant_is_found(
    backend: Backend, sagas: Sagas, session: AsyncSession, table: SagaTable
) -> None:
    await sagas.install()
    beginning = Beginning("A-1", 1, None, "m-1")
    assert await session.run(table.find("A-1")) is None  # so that the session is quick from here on
    async with backend.another_connection() as dotnet, session.transaction():
        await sagas.store_on(dotnet, recorded(0))
        ours = asyncio.create_task(_store(table, session).find_or_begin(beginning))
        done, _ = await asyncio.wait([ours], timeout=LONG_ENOUGH)
        assert not done
        await backend.end(dotnet, commits=True)
        row = await ours

    assert (row.id, row.concurrency) == (recorded(0).id, 1)


async def test_another_saga_is_begun_beside_the_one_that_dotnet_began(
    sagas: Sagas, session: AsyncSession, table: SagaTable
) -> None:
    await sagas.install()
    await sagas.store(recorded(0))
    async with session.transaction():
        row = await session.run(table.find_or_begin(Beginning("A-2", 1, None, "m-2")))

    assert row is not None
    assert (row.correlation, row.concurrency) == ("A-2", 0)


def _store(table: SagaTable, session: AsyncSession) -> DatabaseStore:
    class Attempt:
        run = session.run
        sends = ()

    return DatabaseStore(table, Attempt(), None)  # type: ignore[arg-type] # all that it uses


async def test_timeouts_of_a_completed_saga_are_left_to_come_as_in_dotnet(endpoints: Endpoints) -> None:
    class Completes(
        OrderSaga, name="Shop.Endpoints.OrderSaga", correlation="order_number", layout="nservicebus"
    ):
        @rowbus.starts(StartOrder, by=lambda message: message.OrderNumber)
        async def started(self, message: StartOrder, context: rowbus.SagaContext) -> None:
            await context.request_timeout(BuyersRemorseOver(), after=self.remorse)
            context.complete()

    backend = endpoints.backend
    sales = endpoints.make(SALES)
    sales.add(Completes)
    await sales.start()
    await sales.send(SALES, StartOrder("A-1"))
    await eventually(lambda: _count_is(backend, "Sales.Delayed", 1))
    assert await backend.count(TABLE) == 0


async def test_a_row_that_dotnet_wrote_meanwhile_is_not_overwritten(
    backend: Backend, sagas: Sagas, session: AsyncSession, table: SagaTable
) -> None:
    await sagas.install()
    await sagas.store(recorded(0))
    row = await session.run(table.find("A-1"))
    assert row is not None
    assert row == await session.run(table.find_by_id(row.id))
    assert (row.concurrency, row.originator) == (1, '"public"."Web"')
    await backend.execute(f'update {sagas.name()} set "Concurrency" = 2')
    assert await session.run(table.write(row, "{}", 1)) == 0
    assert await session.run(table.delete(row)) == 0
    assert await session.run(table.delete(row._replace(concurrency=2))) == 1


async def test_a_row_whose_metadata_cannot_be_read_is_named(
    backend: Backend, sagas: Sagas, session: AsyncSession, table: SagaTable
) -> None:
    await sagas.install()
    for metadata in ("", "null"):
        await backend.execute(f"delete from {sagas.name()}")
        await sagas.store(recorded(0)._replace(metadata=metadata))
        with pytest.raises(rowbus.SagaStateError, match=f"Saga {recorded(0).id}: its Metadata is no JSON"):
            await session.run(table.find("A-1"))


@every(
    "correlation, value, text",
    [
        (
            Correlation("OrderId", "id"),
            "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
            "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        ),
        (Correlation("Number", "number"), "42", "42"),
        (Correlation("Name", "text"), "Ünsal's [A]", "Ünsal's [A]"),
    ],
)
async def test_sagas_are_found_by_values_of_every_type(
    backend: Backend, session: AsyncSession, correlation: Correlation, value: str, text: str
) -> None:
    table = shared_table(backend.queue(f"Sales_{correlation.name}"), correlation.name, correlation)
    await create_table(session, table, "the table of the saga")
    async with session.transaction():
        begun = await session.run(table.find_or_begin(Beginning(value, 1, None, "m-1")))
    assert begun is not None
    assert (begun.correlation, begun.original_message_id, begun.originator) == (text, "m-1", None)
    assert await session.run(table.find(value)) == begun
    assert await session.run(table.find_by_id(begun.id)) == begun
