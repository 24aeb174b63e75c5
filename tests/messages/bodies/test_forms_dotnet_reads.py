"""Bodies by hand that System.Text.Json was given: what it read, we read alike; where we differ is listed here."""

from __future__ import annotations

from dataclasses import make_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from rowbus.errors import MessageDeserializationError
from rowbus.messages.headers import Header
from rowbus.messages.message_types import deserializer
from tests.fixtures.dotnet_rows import Row, rows, scenario
from tests.fixtures.every import every
from tests.fixtures.shop_types import Colour

TYPES: dict[str, Any] = {
    "Utc": datetime,
    "Offset": datetime,
    "SpanDays": timedelta,
    "Colour": Colour,
    "Letter": str,
    "Bytes": bytes,
    "Uri": str,
    "Price": Decimal,
    "Third": float,
    "Int": int,
    "Guid": UUID,
    "Date": date,
    "Time": time,
    "Version": str,
    "ULongMax": int,
    "Int128": int,
    "Half": float,
    "OrderId": UUID,
    "Customer": str,
    "Total": Decimal,
    "Quantity": int,
}
AllTypes = make_dataclass("AllTypes", [(name, kind | None, None) for name, kind in TYPES.items()])

WE_READ_MORE = {
    'Utc "2026-01-02 03:04:05"',  # a space for the T
    'SpanDays "PT1H"',  # ISO 8601
    'SpanDays "P1DT2H"',
    'Colour "Blue"',  # an enum by its name, as JsonStringEnumConverter writes it
    'Letter "xy"',  # Python has no type for one character
    'Price "19.99"',  # a decimal as text
    'Third "NaN"',  # as Newtonsoft writes it
    "Int 1.0",  # a whole decimal
    'Guid "6F9619FF8B86D011B42D00CF4FC964FF"',
    "int-as-1.0",
    "decimal-string",
    "guid-n",
    "null-decimal",  # the field may be None here
}
WE_READ_LESS = {
    'Utc "2026-01-02"',  # a date is no datetime
    'Utc "2026-01-02T03:04Z"',  # a time without seconds
    'Time "01:02"',
}


def given(name: str) -> list[Row]:
    return [row for row in rows(name) if row.is_by_hand]


GIVEN = [*given("times-read"), *given("names-read")]


def case_of(row: Row) -> str:
    return str((row.headers or {}).get(Header.MESSAGE_ID))


def dotnet_read(case: str) -> bool:
    return any(
        case in scenario(name)["facts"]["values_read_by_dotnet"] for name in ("times-read", "names-read")
    )


@every("row", GIVEN, ids=case_of)
def test_what_dotnet_reads_is_read_and_what_it_refuses_refused_but_for_what_is_listed(row: Row) -> None:
    case = case_of(row)
    expected = (dotnet_read(case) or case in WE_READ_MORE) and case not in WE_READ_LESS

    try:
        deserializer(AllTypes, "Shop.AllTypes")(row.body or b"")
        found = True
    except MessageDeserializationError:
        found = False

    assert found == expected


@every(
    "case, name, value",
    [
        ('SpanDays "1.02:03:04"', "SpanDays", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ('SpanDays "00:00:01.5"', "SpanDays", timedelta(seconds=1.5)),
        ('SpanDays "-00:00:01.5000000"', "SpanDays", -timedelta(seconds=1.5)),
        ('Bytes "AAEC"', "Bytes", b"\x00\x01\x02"),
        ("Price 1e2", "Price", Decimal(100)),
        ('Time "01:02:03.5"', "Time", time(1, 2, 3, 500000)),
        ('Date "2026-01-02"', "Date", date(2026, 1, 2)),
        ("Int128 170141183460469231731687303715884105727", "Int128", 2**127 - 1),
        ("guid-upper", "OrderId", UUID("6f9619ff-8b86-d011-b42d-00cf4fc964ff")),
        ("repeated", "Total", Decimal(2)),
        ("exponent", "Total", Decimal(150)),
        ("camel", "Total", None),
    ],
)
def test_the_value_is_the_one_that_dotnet_read(case: str, name: str, value: object) -> None:
    (row,) = [row for row in GIVEN if case_of(row) == case]

    message = deserializer(AllTypes, "Shop.AllTypes")(row.body or b"")

    assert getattr(message, name) == value
