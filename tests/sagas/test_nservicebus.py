"""Sagas in NServiceBus's layout: begun by .NET and continued here, begun here and readable there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

import rowbus
from rowbus.sagas.nservicebus.layout import Correlation
from rowbus.sagas.nservicebus.table import shared_table
from tests.conformance.endpoints import ERROR
from tests.conformance.transport import eventually
from tests.sagas.nservicebus import (
    DIGEST,
    INSTALLED,
    ROWS,
    TABLE,
    BuyersRemorseOver,
    OrderSaga,
    SagaRow,
    StartOrder,
    received,
    recorded,
    values_of,
)

if TYPE_CHECKING:
    from tests.conformance.backend import Backend
    from tests.conformance.endpoints import Endpoints

pytestmark = pytest.mark.only("PostgreSQL", reason="on SQL Server the layout is refused")

SHAPE = """
    select concat_ws(' ', column_name, data_type, character_maximum_length, is_nullable)
    from information_schema.columns where table_schema = %s and table_name = 'Sales_OrderSaga' order by 1
"""
INDEXES = """
    select replace(indexdef, schemaname || '.', '') from pg_indexes
    where schemaname = %s and tablename = 'Sales_OrderSaga' order by 1
"""


async def install(backend: Backend, schema: str | None = None) -> None:
    """Make the table as .NET's installer does."""
    for command in INSTALLED:
        await backend.execute(command.format(schema=schema or backend.schema, digest=DIGEST))


async def store(backend: Backend, row: SagaRow) -> None:
    """Write a row as .NET does."""
    await backend.execute(
        f'insert into "{TABLE}" ("Id", "Metadata", "Data", "PersistenceVersion", "SagaTypeVersion", "Concurrency",'
        """ "Correlation_OrderNumber") values (%s, %s, %s, %s, %s, %s, %s::jsonb ->> 'OrderNumber')""",
        *row,
        row.data,
    )


async def stored(backend: Backend) -> list[SagaRow]:
    return [SagaRow._make(row) for row in await backend.values(ROWS)]


async def is_written(backend: Backend, concurrency: int) -> SagaRow:
    """Wait until a saga's row was written so many times, and return it."""
    found: list[SagaRow] = []

    async def there() -> bool:
        found[:] = await stored(backend)
        return [row.concurrency for row in found] == [concurrency]

    await eventually(there)
    return found[0]


async def test_a_saga_that_dotnet_began_goes_on_and_ends_here(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await backend.create_queue("Web")
    await install(backend)
    await store(backend, recorded(0))
    sales = endpoints.make("Sales")
    sales.add(OrderSaga)
    await sales.start()

    (charged,) = received("CardCharged")
    await backend.insert("Sales", charged.headers_text, charged.body)
    assert values_of(await is_written(backend, 2)) == values_of(recorded(1))

    late, second = received("BuyersRemorseOver")
    await backend.insert("Sales", late.headers_text, late.body)
    await eventually(lambda: _count_is(backend, TABLE, 0))
    (answer,) = await backend.rows("Web")
    assert json.loads(answer.body or b"") == {"OrderNumber": "A-1 R-9"}
    (start,) = received("StartOrder")
    assert answer.headers["NServiceBus.CorrelationId"] == (start.headers or {})["NServiceBus.MessageId"]

    await backend.insert("Sales", second.headers_text, second.body)
    await eventually(lambda: _count_is(backend, "Sales", 0))
    assert await backend.count(ERROR) == 0


async def _count_is(backend: Backend, table: str, number: int) -> bool:
    return await backend.count(table) == number


async def test_a_saga_begun_here_has_the_row_that_dotnet_would_have_written(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await backend.create_queue("Billing")
    sales = endpoints.make("Sales")
    sales.add(OrderSaga)
    await sales.start()
    (start,) = received("StartOrder")
    await backend.insert("Sales", start.headers_text, start.body)

    row = await is_written(backend, 1)
    theirs = recorded(0)
    assert json.loads(row.data, parse_float=str) == {"OrderNumber": "A-1", "Total": "19.99"}
    assert json.loads(row.metadata) == json.loads(theirs.metadata)
    assert row.metadata == theirs.metadata
    assert row.saga_type_version == "0.0"
    (correlation,) = await backend.values(f'select "Correlation_OrderNumber" from "{TABLE}"')
    assert correlation == "A-1"

    (timeout,) = await backend.delayed_rows("Sales.Delayed")
    assert timeout.headers["NServiceBus.SagaId"] == row.id == str(UUID(row.id))
    assert timeout.headers["NServiceBus.SagaType"] == "Shop.Endpoints.OrderSaga, Shop.Endpoints"
    assert timeout.headers["NServiceBus.IsSagaTimeoutMessage"] == "True"


async def test_the_table_that_is_made_here_is_dotnets(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales")
    sales.add(OrderSaga)
    await sales.start()
    theirs = await backend.create_schema("theirs")
    await install(backend, theirs)

    for query in (SHAPE, INDEXES):
        expected = await backend.values(query, theirs)
        assert len(expected) >= 2
        assert await backend.values(query, backend.schema) == expected


async def test_two_that_begin_one_saga_are_one(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales")
    sales.add(Quick)
    await sales.start()
    for _ in range(5):
        await sales.send("Sales", StartOrder("A-1"))
    await is_written(backend, 5)
    assert await backend.count(ERROR) == 0


class Quick(OrderSaga, name="Shop.Endpoints.OrderSaga", correlation="order_number", layout="nservicebus"):
    """Asks for nothing."""

    @rowbus.starts(StartOrder, by=lambda message: message.OrderNumber)
    async def started(self, message: StartOrder, context: rowbus.SagaContext) -> None: ...


async def test_timeouts_of_a_completed_saga_are_left_to_come_as_in_dotnet(endpoints: Endpoints) -> None:
    class Completes(
        OrderSaga, name="Shop.Endpoints.OrderSaga", correlation="order_number", layout="nservicebus"
    ):
        @rowbus.starts(StartOrder, by=lambda message: message.OrderNumber)
        async def started(self, message: StartOrder, context: rowbus.SagaContext) -> None:
            await context.request_timeout(BuyersRemorseOver(), after=self.remorse)
            context.complete()

    backend = endpoints.backend
    sales = endpoints.make("Sales")
    sales.add(Completes)
    await sales.start()
    await sales.send("Sales", StartOrder("A-1"))
    await eventually(lambda: _count_is(backend, "Sales.Delayed", 1))
    assert await backend.count(TABLE) == 0


async def test_a_row_that_dotnet_wrote_meanwhile_is_not_overwritten(backend: Backend) -> None:
    await install(backend)
    await store(backend, recorded(0))
    table = shared_table(backend.queue(TABLE), "OrderSaga", Correlation("OrderNumber", "varchar"))
    session = await backend.database.connect()
    try:
        row = await session.run(table.find("A-1"))
        assert row is not None
        assert row == await session.run(table.find_by_id(row.id))
        assert (row.concurrency, row.originator) == (1, '"public"."Web"')
        await backend.execute(f'update "{TABLE}" set "Concurrency" = 2')
        assert await session.run(table.write(row, "{}", 1)) == 0
        assert await session.run(table.delete(row)) == 0
        assert await session.run(table.delete(row._replace(concurrency=2))) == 1
    finally:
        await session.close()
