"""The order process of tests/golden/dotnet/saga.json in Python, and the table that .NET makes for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

import rowbus
from tests.conformance.transport import eventually
from tests.fixtures.dotnet_rows import Row, rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.sagas.definition import Layout
    from tests.conformance.backend import Backend

SALES = "Sales"

ASSEMBLY_QUALIFIED = (
    "Shop.Endpoints.OrderSaga, Shop.Endpoints, Version=1.2.0.0, Culture=neutral, PublicKeyToken=null"
)
TABLE = "Sales_OrderSaga"
COLUMNS = ("Id", "Metadata", "Data", "PersistenceVersion", "SagaTypeVersion", "Concurrency")

# NServiceBus.Persistence.Sql's script for a saga that is found by a string, as its installer runs it.
ON_POSTGRESQL = (
    """
    create table {table} (
        "Id" uuid not null,
        "Metadata" text not null,
        "Data" jsonb not null,
        "PersistenceVersion" character varying(23),
        "SagaTypeVersion" character varying(23),
        "Concurrency" int not null,
        primary key("Id")
    )
    """,
    'alter table {table} add column "Correlation_OrderNumber" character varying(200)',
    """
    create unique index "Sales__i_919CC583A044D760C1FA433AD451B9E67BFD7C07" on {table}
        using btree ("Correlation_OrderNumber" asc)
    """,  # SHA-1 of OrderSaga/OrderNumber
)

# The same for SQL Server, as https://docs.particular.net/persistence/sql/sqlserver-scripts has its columns.
ON_SQL_SERVER = (
    """
    create table {table} (
        Id uniqueidentifier not null primary key,
        Metadata nvarchar(max) not null,
        Data nvarchar(max) not null,
        PersistenceVersion varchar(23) not null,
        SagaTypeVersion varchar(23) not null,
        Concurrency int not null,
        Correlation_OrderNumber nvarchar(200)
    )
    """,
    """
    create unique index Index_Correlation_OrderNumber on {table} (Correlation_OrderNumber)
        where Correlation_OrderNumber is not null
    """,
)


class SagaRow(NamedTuple):
    """A row of .NET's table as it lies there, but for its correlation's column."""

    id: str
    metadata: str
    data: str
    persistence_version: str | None
    saga_type_version: str | None
    concurrency: int


def recorded(order: int) -> SagaRow:
    """Return the row that .NET had after a message: what its saga audit told of it, in the forms that it writes."""
    told = [json.loads(row.body or b"", parse_float=Decimal) for row in rows("saga") if is_audit(row)][order]
    data = json.loads(told["SagaState"], parse_float=Decimal)
    saga_id = data.pop("Id")
    begun_by = {name: data.pop(name) for name in ("OriginalMessageId", "Originator")}
    number = str(data.pop("Total"))
    kept = {name: value for name, value in data.items() if value is not None}
    text = json.dumps({**kept, "Total": 0}).replace('"Total": 0', f'"Total": {number}')
    return SagaRow(saga_id, json.dumps(begun_by, indent=2), text, "9.0.3.0", "1.2.0.0", order + 1)


def is_audit(row: Row) -> bool:
    """Say whether a row tells of a saga's change."""
    return b'"SagaState"' in (row.body or b"")


def received(name: str) -> list[Row]:
    """Return what the saga's queue got of a type."""
    return [row for row in rows("saga") if row.table == "Sales" and f"Shop.{name}," in types_of(row)]


def types_of(row: Row) -> str:
    """Return a message's types."""
    return (row.headers or {}).get("NServiceBus.EnclosedMessageTypes") or ""


@rowbus.command("Shop.StartOrder")
@dataclass
class StartOrder:
    OrderNumber: str
    Total: Decimal = Decimal(0)


@rowbus.command("Shop.ChargeCard")
@dataclass
class ChargeCard:
    OrderNumber: str
    Amount: Decimal


@rowbus.message("Shop.CardCharged")
@dataclass
class CardCharged:
    OrderNumber: str
    Receipt: str


@rowbus.message("Shop.BuyersRemorseOver")
@dataclass
class BuyersRemorseOver:
    Note: str | None = None


@rowbus.message("Shop.OrderCompleted")
@dataclass
class OrderCompleted:
    OrderNumber: str


@rowbus.event("Shop.OrderClosed")
@dataclass
class OrderClosed:
    OrderNumber: str


@dataclass
class OrderData:
    order_number: str
    total: Decimal = Decimal(0)
    receipt: str | None = None


class OrderSaga(
    rowbus.Saga[OrderData],
    name="Shop.Endpoints.OrderSaga, Shop.Endpoints",
    correlation="order_number",
    layout="nservicebus",
):
    """Charges the card, and closes the order after a time."""

    remorse = timedelta(days=1)

    @rowbus.starts(StartOrder, by=lambda message: message.OrderNumber)
    async def started(self, message: StartOrder, context: rowbus.SagaContext) -> None:
        self.state.total = message.Total
        await context.send("Billing", ChargeCard(message.OrderNumber, message.Total))
        await context.request_timeout(BuyersRemorseOver("cooling-off"), after=self.remorse)

    @rowbus.handles(CardCharged)
    async def charged(self, message: CardCharged) -> None:
        self.state.receipt = message.Receipt

    @rowbus.timeout(BuyersRemorseOver)
    async def over(self, message: BuyersRemorseOver, context: rowbus.SagaContext) -> None:
        await context.publish(OrderClosed(self.state.order_number))
        await context.reply_to_originator(OrderCompleted(f"{self.state.order_number} {self.state.receipt}"))
        context.complete()


def order_saga(layout: Layout, remorse: timedelta) -> type[OrderSaga]:
    """Return the saga in a layout, under the name that .NET writes, with a timeout that comes after this time."""

    class Order(OrderSaga, name=ASSEMBLY_QUALIFIED, correlation="order_number", layout=layout):
        pass

    Order.remorse = remorse
    return Order


class Sagas:
    """The table of OrderSaga, written and read as .NET does."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._is_postgresql = backend.name == "PostgreSQL"

    def name(self, schema: str | None = None) -> str:
        return f'"{schema or self.backend.schema}"."{TABLE}"'

    async def install(self, schema: str | None = None) -> None:
        """Make the table as .NET's installer does."""
        for command in ON_POSTGRESQL if self._is_postgresql else ON_SQL_SERVER:
            await self.backend.execute(command.format(table=self.name(schema)))

    def insertion(self, row: SagaRow) -> str:
        """Return the command by which .NET writes the row of a saga that begins."""
        number = json.loads(row.data)["OrderNumber"]
        values = ", ".join(f"'{value}'" for value in (*row, number))
        return f'insert into {self.name()} ({_quoted(COLUMNS)}, "Correlation_OrderNumber") values ({values})'

    async def store(self, row: SagaRow) -> None:
        await self.backend.execute(self.insertion(row))

    async def store_on(self, connection: Any, row: SagaRow) -> None:  # noqa: ANN401 - each driver's own
        """Write a row on a connection of the test's, which commits or not."""
        done = connection.execute(self.insertion(row))
        if isawaitable(done):
            await done

    async def rows(self) -> list[SagaRow]:
        """Return the rows there are, with their ids as text in lower case."""
        separator = f"{'chr' if self._is_postgresql else 'nchar'}(31)"
        columns = f", {separator}, ".join(_quoted([name]) for name in COLUMNS)
        found = await self.backend.values(f"select concat({columns}) as content from {self.name()}")
        rows = [text.split(chr(31)) for text in found]
        return [SagaRow._make((each[0].lower(), *each[1:5], int(each[5]))) for each in rows]

    async def written(self, concurrency: int) -> SagaRow:
        """Wait until a saga's row was written so many times, and return it."""
        found: list[SagaRow] = []

        async def there() -> bool:
            found[:] = await self.rows()
            return [row.concurrency for row in found] == [concurrency]

        await eventually(there)
        return found[0]

    def here(self, text: str) -> str:
        """Return headers, or metadata, of the golden rows with the addresses of this place."""
        text = text.replace(r"\u0022", r"\"")
        for queue in ("Web", "Billing", SALES):
            addresses = f'"public"."{queue}"', self.backend.queue(queue).canonical
            theirs, ours = (json.dumps(address)[1:-1] for address in addresses)
            text = text.replace(theirs, ours)
        return text

    async def receives(self, name: str) -> None:
        """Put what .NET's saga got of a type into the saga's queue."""
        for row in received(name):
            await self.backend.insert(SALES, self.here(row.headers_text), row.body)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def values_of(row: SagaRow) -> tuple[Any, ...]:
    """Return a row's values, JSON decoded without losing digits, to be compared."""
    decoded = (json.loads(text, parse_float=str) for text in (row.metadata, row.data))
    return (row.id, *decoded, *row[3:])
