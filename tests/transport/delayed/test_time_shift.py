"""A shared table of delayed messages that is written by sessions that are not in UTC: found, and said."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rowbus
from rowbus.errors import ShiftedTimesError
from rowbus.messages.headers import Header
from rowbus.messages.message_names import enclosed_types
from rowbus.messages.timestamps import format_timestamp
from rowbus.transport.delayed.diagnosis import shift_of
from tests.conformance.endpoints import Endpoints
from tests.fixtures.dotnet_rows import scenario
from tests.fixtures.every import every
from tests.transport.delayed.table import Delayed

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
DOTNET_STORES = (
    'insert into "Sales.Delayed" (headers, body, due)'
    " values (%s, %s, (now() at time zone 'UTC') + interval '1 hour')"
)
"""A deed of a .NET session: UTC's wall time, taken for the session's own."""


def text(**more: str) -> str:
    return json.dumps({Header.DELIVER_AT: format_timestamp(AT)} | more)


@every("hours", [-14, -5, 1, 2, 5.5, 5.75, 13])
def test_a_time_zone_moves_a_message_by_quarters_of_an_hour(hours: float) -> None:
    shift = timedelta(hours=hours)
    assert shift_of(AT + shift + timedelta(seconds=3), text()) == shift


@every("seconds", [0, 3, -50, 400, 15 * 60 + 90, 15 * 3600, -86_400])
def test_clocks_that_differ_move_none(seconds: float) -> None:
    assert shift_of(AT + timedelta(seconds=seconds), text()) is None


def test_a_delayed_retry_has_no_shift_since_it_keeps_the_first_ones_time() -> None:
    assert shift_of(AT + timedelta(hours=1), text(**{Header.RETRIES: "2"})) is None


@every(
    "types, is_shifted",
    [
        ("Shop.Later, Shop.Messages, Version=1.2.0.0, Culture=neutral, PublicKeyToken=null", True),
        ("Shop.Later, Shop.Messages", True),
        ("Shop.Later", False),
        (enclosed_types(("Shop.Later", "Shop.IEvent")), False),
    ],
)
def test_a_message_of_ours_has_no_shift_if_its_senders_clock_is_off(types: str, *, is_shifted: bool) -> None:
    found = shift_of(AT + timedelta(hours=2), text(**{Header.ENCLOSED_MESSAGE_TYPES: types}))
    assert found == (timedelta(hours=2) if is_shifted else None)


@given(st.text())
def test_any_text_has_a_shift_or_none(headers: str) -> None:
    assert shift_of(AT, headers) is None


def test_no_delayed_row_that_dotnet_wrote_in_utc_has_one() -> None:
    found = [
        shift_of(datetime.fromisoformat(row["due"]), row["headers_text"])
        for name in ("delayed", "retries", "tracing-failures", "saga", "outbox")
        for row in scenario(name)["rows"]
        if row["kind"] == "delayed"
    ]
    assert found
    assert set(found) == {None}


async def store_as_dotnet(delayed: Delayed, zone: str) -> None:
    """Delay a message by an hour in a session of such a zone."""
    headers = {
        Header.DELIVER_AT: format_timestamp(datetime.now(UTC) + timedelta(hours=1)),
        Header.ENCLOSED_MESSAGE_TYPES: "Shop.Later, Shop.Messages, Version=1.2.0.0, Culture=neutral",
    }
    async with await psycopg.AsyncConnection.connect(
        delayed.backend.dsn, options=f"-c TimeZone={zone}"
    ) as own:
        await own.execute(DOTNET_STORES, [json.dumps(headers), b"{}"])


@pytest.mark.only("PostgreSQL", reason="sessions of SQL Server have no time zone")
@pytest.mark.parametrize("zone, is_shifted", [("UTC", False), ("America/Sao_Paulo", True)])
async def test_a_start_fails_where_times_were_moved(
    endpoints: Endpoints, delayed: Delayed, zone: str, *, is_shifted: bool
) -> None:
    await delayed.create()
    await store_as_dotnet(delayed, zone)
    sales = endpoints.make("Sales")

    with pytest.raises(ShiftedTimesError) if is_shifted else nullcontext() as raised:
        await sales.start()
    await sales.stop()

    if raised is not None:
        assert "due 3 h later than NServiceBus.DeliverAt says" in str(raised.value)
        assert "set timezone to 'UTC'" in str(raised.value)
        assert "refuse_shifted_times=False" in str(raised.value)
    assert await delayed.backend.count(delayed.address) == 1


@pytest.mark.only("PostgreSQL", reason="sessions of SQL Server have no time zone")
async def test_a_start_that_may_logs_that_times_were_moved(
    endpoints: Endpoints, delayed: Delayed, caplog: pytest.LogCaptureFixture
) -> None:
    await delayed.create()
    await store_as_dotnet(delayed, "America/Sao_Paulo")
    caplog.set_level(logging.ERROR, "rowbus.delaying")
    own = rowbus.NativeDelayedDelivery(refuse_shifted_times=False)

    async with endpoints.make("Sales", delayed_delivery=own):
        pass

    assert "due 3 h later than NServiceBus.DeliverAt says" in caplog.text
    assert "set timezone to 'UTC'" in caplog.text


@pytest.mark.only("PostgreSQL", reason="sessions of SQL Server have no time zone")
async def test_an_installation_creates_tables_also_where_times_were_moved(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    await delayed.create()
    await store_as_dotnet(delayed, "America/Sao_Paulo")

    await endpoints.make("Sales").install()
