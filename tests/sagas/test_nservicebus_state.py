"""A saga's state in the forms of NServiceBus.Persistence.Sql: .NET's rows come back as they were."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
import pydantic
import pytest

import rowbus
from rowbus.database.backends import addresses_of
from rowbus.messages.addresses import PostgresAddresses
from rowbus.sagas.nservicebus.postgresql import index_name
from rowbus.sagas.nservicebus.state import NServiceBusForm
from rowbus.sagas.nservicebus.table import Correlation, correlation_of, table_address
from tests.fixtures.every import every
from tests.sagas.nservicebus import OrderData, OrderSaga, StartOrder

if TYPE_CHECKING:
    from collections.abc import Callable


ID = UUID("6f9619ff-8b86-d011-b42d-00cf4fc964ff")


class Stage(IntEnum):
    OPEN = 0
    PAID = 1


@dataclass
class Line:
    sku: str = ""
    count: int = 0


@dataclass
class State:
    order_id: UUID
    seen: int = 7
    price: Decimal = Decimal("1.00")
    is_paid: bool = True
    stage: Stage = Stage.PAID
    took: timedelta = timedelta(seconds=1)
    other: UUID = ID
    note: str | None = "none yet"
    tries: int | None = None
    begun: datetime | None = None
    secret: bytes | None = None
    lines: list[Line] = field(default_factory=list)
    by_name: dict[str, Line] = field(default_factory=dict)
    gaps: list[Line | None] = field(default_factory=list)


FORM = NServiceBusForm(State)
FULL = (
    '{"OrderId": "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "Seen": 2, "Price": 19.90, "IsPaid": true, "Stage": 1,'
    ' "Took": "1.02:03:04.0050000", "Other": "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "Note": "", "Tries": 0,'
    ' "Begun": "2026-11-22T10:50:18.722704Z", "Secret": "AAE=", "Lines": [{"Sku": "A"}, {"Sku": "", "Count": 2}],'
    ' "ByName": {"a": {"Sku": "", "Count": 1}}, "Gaps": [null, {"Sku": "B"}]}'
)
EMPTY = '{"OrderId": "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "Lines": [], "ByName": {}, "Gaps": []}'


@every("text", [FULL, EMPTY])
def test_a_row_of_dotnet_is_written_back_as_it_was(text: str) -> None:
    assert json.loads(FORM.write(FORM.read(text, 1)), parse_float=str) == json.loads(text, parse_float=str)


def test_what_dotnet_left_out_is_its_default_and_not_the_classes() -> None:
    state = FORM.read(EMPTY, 1)
    zeros = (0, Decimal(0), False, Stage.OPEN, timedelta(), UUID(int=0))
    assert (state.seen, state.price, state.is_paid, state.stage, state.took, state.other) == zeros
    assert FORM.read(FULL, 1).begun == datetime(2026, 11, 22, 10, 50, 18, 722704, tzinfo=UTC)


def test_names_are_found_in_any_case() -> None:
    assert FORM.read(f'{{"orderid": "{ID}", "SEEN": 3}}', 1).seen == 3


class Struct(msgspec.Struct):
    order_number: str
    total: Decimal = Decimal(5)


class Model(pydantic.BaseModel):
    order_number: str
    total: Decimal = Decimal(5)


@every("kind", [Struct, Model, OrderData])
def test_states_are_of_any_kind(kind: type) -> None:
    form: NServiceBusForm[Any] = NServiceBusForm(kind)
    without, text = '{"OrderNumber":"A-1"}', '{"OrderNumber":"A-1","Total":19.90}'
    assert form.read(without, 1).total == 0
    assert json.loads(form.write(form.read(text, 1)), parse_float=str) == json.loads(text, parse_float=str)


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(rowbus.SagaStateError, match="its state is not a State"):
        FORM.read('{"OrderId": 1}', 1)
    with pytest.raises(rowbus.SagaStateError, match="no State but a dict"):
        FORM.write({})  # type: ignore[arg-type]  # that is what is wrong


@every(
    "saga, name, digest",  # of scripts that NServiceBus.Persistence.Sql made for public projects
    [
        ("ShippingPolicy", "OrderId", "5D8D82A47AD779F2DBE19ABD3100848585121B83"),
        ("AgendaSaga", "AgendaId", "BEA1BD5917ADCB107C0309EFCA716D0E7F57477E"),
    ],
)
def test_the_index_is_called_as_in_dotnet(saga: str, name: str, digest: str) -> None:
    assert index_name(f"Shop_{saga}", saga, Correlation(name, "id")) == f"Shop__i_{digest}"


def test_the_table_and_its_column_are_called_as_in_dotnet() -> None:
    assert table_address("Shop.Sales", "OrderSaga", PostgresAddresses()).table == "Shop_Sales_OrderSaga"
    assert correlation_of("Saga", State, "order_id") == Correlation("OrderId", "id")
    assert correlation_of("Saga", State, "seen").column == "Correlation_Seen"
    with pytest.raises(
        rowbus.ConfigurationError, match="up to 20 characters there, and 'Shop_Sales_Department_' has"
    ):
        table_address("Shop.Sales.Department", "OrderSaga", PostgresAddresses())


def without_correlation() -> None:
    class Refused(rowbus.Saga[OrderData], layout="nservicebus"):
        @rowbus.starts(StartOrder, by="id")
        async def started(self, message: StartOrder) -> None: ...


def by_a_list() -> None:
    class Refused(rowbus.Saga[State], layout="nservicebus", correlation="lines"):
        @rowbus.starts(StartOrder, by="id")
        async def started(self, message: StartOrder) -> None: ...


def with_a_version() -> None:
    class Refused(OrderSaga, layout="nservicebus", correlation="order_number", version=2):
        pass


def of_no_layout() -> None:
    class Refused(OrderSaga, layout="nhibernate", correlation="order_number"):  # type: ignore[arg-type]  # that is what is wrong
        pass


REFUSED = {
    without_correlation: 'layout="nservicebus" needs correlation',
    by_a_list: "State.lines must be a str, an int or a UUID",
    with_a_version: "NServiceBus's rows have no version",
    of_no_layout: "layout='nhibernate' is none",
}


@every("declare", REFUSED, ids=lambda declare: declare.__name__)
def test_what_dotnet_could_not_read_is_refused(declare: Callable[[], None]) -> None:
    with pytest.raises(rowbus.ConfigurationError) as refused:
        declare()
    assert REFUSED[declare] in str(refused.value)


def test_names_are_as_long_as_a_name_of_the_database() -> None:
    addresses = addresses_of("mssql://sa:secret@nowhere/shop")
    assert (
        table_address("Shop.Sales.Department", "OrderSaga", addresses).table
        == "Shop_Sales_Department_OrderSaga"
    )
