"""A saga's state in the forms of NServiceBus.Persistence.Sql: .NET's rows come back as they were."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
import pydantic
import pytest

import rowbus
from rowbus.database.backends import addresses_of
from rowbus.messages.address import PostgresAddresses
from rowbus.sagas.nservicebus.postgresql import index_name
from rowbus.sagas.nservicebus.table import Correlation, NServiceBusForm, correlation_of, table_address
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


FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass
class Times:
    order_id: str = "R1"
    first: datetime = datetime.min  # noqa: DTZ901 - .NET's default
    aware: datetime = FIRST
    late: datetime = datetime(2026, 1, 1)  # noqa: DTZ001 - a default that is not .NET's
    day: date = date.min
    hour: time = time.min
    never: datetime | None = None
    rate: float = 0.0
    moments: list[datetime] = field(default_factory=list)
    by_name: dict[str, datetime] = field(default_factory=dict)


class TimesModel(pydantic.BaseModel):
    order_id: str = "R1"
    first: datetime = datetime.min  # noqa: DTZ901 - .NET's default
    rate: float = 0.0
    never: datetime | None = None


TIMES = NServiceBusForm(Times)
SEVEN = (
    '{"OrderId":"R1","Rate":1.0,"NEVER":"2026-11-26T10:00:00.1234567Z","ByName":{"a":"2026-11-26T10:00:00.1234567",'
    '"A":"2026-11-26T10:00:00.7654321"},"Moments":["2026-11-26T10:00:00.1234567","2026-11-26T10:00:00.7654321"]}'
)


def test_the_first_moment_is_dotnets_default_and_the_last_one_has_all_its_digits() -> None:
    read = TIMES.read('{"OrderId": "R1"}', 1)
    assert (read.first, read.aware, read.late) == (datetime.min, FIRST, datetime.min)  # noqa: DTZ901 - as above
    assert (read.day, read.hour) == (date.min, time.min)
    assert json.loads(TIMES.write(read)) == {"OrderId": "R1", "Moments": [], "ByName": {}}
    read.first, read.never, read.moments = datetime.max, datetime.max.replace(tzinfo=UTC), [datetime.max]  # noqa: DTZ901 - "never"
    written = json.loads(TIMES.write(read))
    assert written["First"] == "9999-12-31T23:59:59.9999999"
    assert written["Never"] == "9999-12-31T23:59:59.9999999Z"
    assert written["Moments"] == ["9999-12-31T23:59:59.9999999"]
    assert TIMES.read(json.dumps(written), 1).first == datetime.max  # noqa: DTZ901 - "never"


@every("kind", [Times, TimesModel])
@every("value, text", [("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")])
def test_floats_that_are_no_number_have_newtonsofts_names(kind: type, value: str, text: str) -> None:
    form: NServiceBusForm[Any] = NServiceBusForm(kind)
    state = form.read(form.write(kind(rate=float(value))), 1)
    assert str(state.rate) == value
    assert json.loads(form.write(state))["Rate"] == text
    form.read_again(state, form.write(state))


def test_what_a_method_did_not_change_keeps_its_seventh_digit() -> None:
    state = TIMES.read(SEVEN, 1)
    assert json.loads(TIMES.write_over(SEVEN, state)) == json.loads(SEVEN)
    state.rate, state.moments[0], state.by_name["b"] = 2.0, datetime(2026, 1, 1), datetime(2026, 1, 1)  # noqa: DTZ001 - as .NET's
    changed = json.loads(TIMES.write_over(SEVEN, state))
    assert changed == {
        **{name: value for name, value in json.loads(SEVEN).items() if name != "NEVER"},
        "Never": "2026-11-26T10:00:00.1234567Z",
        "Rate": 2.0,
        "Moments": ["2026-01-01T00:00:00", "2026-11-26T10:00:00.7654321"],
        "ByName": {**json.loads(SEVEN)["ByName"], "b": "2026-01-01T00:00:00"},
    }


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
