"""The order process of tests/golden/dotnet/saga.json in Python, and the table that .NET made for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import rowbus
from tests.fixtures.dotnet_rows import Row, rows

TABLE = "Sales_OrderSaga"
ROWS = """
    select jsonb_build_array("Id", "Metadata", "Data"::text, "PersistenceVersion", "SagaTypeVersion", "Concurrency")
    from "Sales_OrderSaga"
"""

# NServiceBus.Persistence.Sql's script for a saga that is found by a string, as its installer runs it.
INSTALLED = (
    """
    create table "{schema}"."Sales_OrderSaga" (
        "Id" uuid not null,
        "Metadata" text not null,
        "Data" jsonb not null,
        "PersistenceVersion" character varying(23),
        "SagaTypeVersion" character varying(23),
        "Concurrency" int not null,
        primary key("Id")
    )
    """,
    'alter table "{schema}"."Sales_OrderSaga" add column "Correlation_OrderNumber" character varying(200)',
    """
    create unique index "Sales__i_{digest}" on "{schema}"."Sales_OrderSaga"
        using btree ("Correlation_OrderNumber" asc)
    """,
)
DIGEST = "919CC583A044D760C1FA433AD451B9E67BFD7C07"  # SHA-1 of OrderSaga/OrderNumber


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
        await context.reply_to_originator(OrderCompleted(f"{self.state.order_number} {self.state.receipt}"))
        context.complete()


def values_of(row: SagaRow) -> tuple[Any, ...]:
    """Return a row's values, JSON decoded without losing digits, to be compared."""
    decoded = (json.loads(text, parse_float=str) for text in (row.metadata, row.data))
    return (row.id, *decoded, *row[3:])
