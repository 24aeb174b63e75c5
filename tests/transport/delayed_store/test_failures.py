"""Messages that cannot be forwarded, and stores and queues that fail for long: counts, the error queue, alarms."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

import rowbus
from rowbus.errors import ConnectionLostError
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header
from rowbus.transport.delayed_store.forwarder import ForeignScopes, SharedScopes
from rowbus.transport.delayed_store.table import DESTINATION, DUE
from rowbus.transport.recoverability.failure_headers import RAW_HEADERS
from tests.conformance.transport import eventually, never
from tests.transport.delayed_store.place import BILLING, ERROR, LATER, SOON, TIMEOUTS, Place, order

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables"),
    pytest.mark.usefixtures("quick_breakers"),
    pytest.mark.one_version,
]

QUICKLY = timedelta(milliseconds=100)
STORED = timedelta(seconds=1)  # in which a busy machine stores it, too: what is due by then is sent at once


async def test_a_message_that_a_stranger_put_into_the_timeouts_queue_reaches_no_other_schema(
    place: Place,
) -> None:
    payroll = rowbus.QueueAddress(await place.backend.create_schema("ledger"), "Payroll")
    await place.backend.create_queue(payroll)
    for due in ("2020-01-01 00:00:00:000000 Z", "2100-01-01 00:00:00:000000 Z"):
        headers = {Header.MESSAGE_ID: "stray", DESTINATION: str(payroll), DUE: due}
        async with place.sales(place.retrying(7)):
            await place.backend.insert(TIMEOUTS, json.dumps(headers), b"1")
            await place.wait_for_rows(1, ERROR)
            await place.wait_until_nothing_is_left()
        (row,) = await place.backend.rows(ERROR)
        assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.DestinationRefusedError"
        assert row.headers[Header.FAILED_QUEUE] == str(TIMEOUTS)
        assert row.headers[DESTINATION] == str(payroll)
        await place.backend.execute("delete from error")
    assert await place.backend.count(payroll) == 0


async def test_a_due_message_reaches_no_table_but_a_queue(place: Place) -> None:
    await place.backend.execute('create table "Notes" (id uuid, expires timestamp, headers text, body bytea)')
    async with place.sales(place.retrying(7)) as sales:
        await sales.send("Notes", order(1), delay=STORED)
        await place.wait_for_rows(1, ERROR)
        await place.wait_until_nothing_is_left()
    (row,) = await place.backend.rows(ERROR)
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.DestinationRefusedError"
    assert await place.backend.count(rowbus.QueueAddress("public", "Notes")) == 0


async def test_a_message_for_a_missing_queue_goes_to_the_error_queue_at_once_with_its_story(
    place: Place,
) -> None:
    async with place.sales(place.retrying(7)) as sales:
        message_id = await sales.send("Billing", order(1), delay=STORED)
        await place.wait_for_rows(1, ERROR)
        await place.wait_until_nothing_is_left()
        (row,) = await place.backend.rows(ERROR)

    assert row.body == b'{"order_id":"001"}'
    assert row.expires_in is None
    assert row.headers[Header.MESSAGE_ID] == message_id
    assert row.headers[Header.FAILED_QUEUE] == TIMEOUTS.canonical
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.QueueNotFoundError"
    assert "Billing" in (row.headers[Header.EXCEPTION_MESSAGE] or "")
    assert row.headers[Header.PROCESSING_ENDPOINT] == "Sales"
    assert row.headers[Header.PROCESSING_MACHINE] == row.headers[Header.HOST_DISPLAY_NAME]
    assert Header.TIME_OF_FAILURE in row.headers
    assert row.headers[DESTINATION] == '"public"."Billing"'
    assert DUE in row.headers


async def test_returned_to_its_failed_queue_it_reaches_the_destination_that_now_exists(place: Place) -> None:
    async with place.sales() as sales:
        await sales.send("Billing", order(1), delay=STORED)
        await place.wait_for_rows(1, ERROR)
        (failed,) = await place.backend.rows(ERROR)
        await place.backend.create_queue(BILLING)

        address = rowbus.QueueAddress.parse(failed.headers[Header.FAILED_QUEUE] or "")
        await place.backend.insert(address, failed.headers_text, failed.body)

        await place.wait_for_rows(1, BILLING)


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("instances", [1, 2])
async def test_a_message_gets_exactly_its_retries_whichever_instance_makes_them(
    place: Place, retries: int, instances: int
) -> None:
    await place.backend.create_queue(BILLING)
    await place.refuse_messages()
    first, *others = [place.sales(place.retrying(retries)) for _ in range(instances)]

    async with first:
        for other in others:
            await other.start()
        await first.send("Billing", order(1), delay=STORED)
        await place.wait_for_rows(1, ERROR)
        await place.wait_until_nothing_is_left()

    assert await place.attempts() == retries + 1
    assert await place.backend.count(ERROR) == 1


async def test_a_failure_is_counted_in_the_store(place: Place) -> None:
    await place.backend.create_queue(BILLING)
    await place.refuse_messages()

    async with place.sales(place.retrying(1000)) as sales:
        await sales.send("Billing", order(1), delay=STORED)

        async def counted() -> bool:
            kept = await place.kept()
            return bool(kept) and kept[0].retries >= 2

        await eventually(counted)
        assert await place.backend.count(ERROR) == 0
        await place.accept_messages()
        await place.wait_for_rows(1)
        await place.wait_until_nothing_is_left()


async def test_what_goes_to_the_error_queue_holds_up_no_others(place: Place) -> None:
    await place.backend.create_queue(BILLING)

    async with place.sales() as sales:
        for number in range(20):
            await sales.send("Missing" if number % 2 else "Billing", order(number), delay=STORED)
        await place.wait_for_rows(10, BILLING)
        await place.wait_for_rows(10, ERROR)
        await place.wait_until_nothing_is_left()


async def test_without_an_error_queue_the_message_stays_until_there_is_one(place: Place) -> None:
    async with place.sales() as sales:
        await place.backend.drop_queue(ERROR)
        await sales.send("Billing", order(1), delay=STORED)
        await eventually(lambda: bool(place.critical))
        assert len(await place.kept()) == 1

        await place.backend.create_queue(ERROR)

        await place.wait_for_rows(1, ERROR)
        await place.wait_until_nothing_is_left()
    assert place.critical == ["Failed to execute error handling for delayed message forwarding"]


async def test_failures_of_the_error_handling_below_the_rate_are_not_critical(place: Place) -> None:
    settings = rowbus.DelayedDeliverySettings(place.store(), maximum_recovery_failures_per_second=100)

    async with place.sales(settings) as sales:
        await place.backend.drop_queue(ERROR)
        await sales.send("Billing", order(1), delay=STORED)
        await never(lambda: bool(place.critical), 0.5)
        await place.backend.create_queue(ERROR)


async def test_dispatching_that_fails_for_long_is_critical_once(place: Place) -> None:
    await place.backend.create_queue(BILLING)
    await place.refuse_messages()
    settings = rowbus.DelayedDeliverySettings(
        place.store(), number_of_retries=1000, time_to_trigger_dispatch_circuit_breaker=QUICKLY
    )

    async with place.sales(settings) as sales:
        await sales.send("Billing", order(1), delay=STORED)
        await eventually(lambda: bool(place.critical))
        await never(lambda: len(place.critical) > 1, 0.2)
        await place.accept_messages()
        await place.wait_for_rows(1)

    assert place.critical == ["Failed to dispatch delayed messages to destination"]


async def test_fetching_that_fails_for_long_is_critical_once_and_then_goes_on(place: Place) -> None:
    await place.backend.create_queue(BILLING)
    settings = rowbus.DelayedDeliverySettings(place.store(), time_to_trigger_fetch_circuit_breaker=QUICKLY)

    async with place.sales(settings) as sales:
        await sales.send("Billing", order(1), delay=timedelta(seconds=3))
        await place.wait_until_kept(1)  # it is not due before the table is away, on a busy machine either
        await place.connection.execute('alter table "Sales.delayed" rename to away')
        await eventually(lambda: bool(place.critical))
        await never(lambda: len(place.critical) > 1, 0.2)
        await place.connection.execute('alter table away rename to "Sales.delayed"')
        await place.wait_for_rows(1)

    assert place.critical == ["Failed to fetch due delayed messages from the storage"]


async def test_storing_that_fails_for_long_is_critical_once_and_then_goes_on(place: Place) -> None:
    settings = rowbus.DelayedDeliverySettings(
        place.store(), number_of_retries=1000, time_to_trigger_store_circuit_breaker=QUICKLY
    )

    async with place.sales(settings) as sales:
        await place.connection.execute('alter table "Sales.delayed" add constraint no check (false)')
        await sales.send("Billing", order(1), delay=LATER)
        await eventually(lambda: bool(place.critical))
        await never(lambda: len(place.critical) > 1, 0.2)
        await place.connection.execute('alter table "Sales.delayed" drop constraint no')
        await place.wait_until_kept(1)

    assert place.critical == ["Failed to store delayed message"]


@pytest.mark.parametrize("retries", [0, 2])
async def test_storing_is_tried_exactly_as_often_as_forwarding(foreign: Place, retries: int) -> None:
    foreign.faults.plan("store", ValueError("full"), times=10)

    async with foreign.sales(foreign.retrying(retries)) as sales:
        await sales.send("Billing", order(1), delay=LATER)
        await foreign.wait_for_rows(1, ERROR)
        (row,) = await foreign.backend.rows(ERROR)

    assert foreign.faults.calls.count("store") == retries + 1
    assert row.headers[Header.FAILED_QUEUE] == TIMEOUTS.canonical
    assert row.headers[Header.EXCEPTION_TYPE] == "ValueError"
    assert row.headers[DESTINATION] == '"public"."Billing"'


async def test_a_store_that_is_away_is_waited_for_and_that_counts_against_no_message(foreign: Place) -> None:
    foreign.faults.plan("store", ConnectionRefusedError(), times=5)
    foreign.faults.plan("store", ValueError("full"), times=1)
    foreign.faults.plan("store", ConnectionRefusedError(), times=5)

    async with foreign.sales(foreign.retrying(1)) as sales:
        await sales.send("Billing", order(1), delay=LATER)
        await foreign.wait_until_kept(1)

    assert await foreign.backend.count(ERROR) == 0


async def test_queues_that_are_away_are_waited_for_and_that_counts_against_no_message(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.backend.create_queue(BILLING)
    outages = iter([ConnectionLostError("away", sqlstate=None, transient=True)] * 5)

    def away(scopes: type) -> None:
        sends = scopes._send  # type: ignore[attr-defined]  # both have it

        async def send(self: object, *what: Send) -> None:
            for error in outages:
                raise error
            await sends(self, *what)

        monkeypatch.setattr(scopes, "_send", send)

    away(SharedScopes)
    away(ForeignScopes)
    async with place.sales() as sales:
        await sales.send("Billing", order(1), delay=STORED)
        await place.wait_for_rows(1)
        await place.wait_until_nothing_is_left()

    assert next(outages, None) is None
    assert "increment_failure_count" not in place.faults.calls
    assert await place.backend.count(ERROR) == 0


async def test_headers_that_somebody_has_spoilt_in_the_store_are_kept_in_the_error_queue(
    place: Place,
) -> None:
    async with place.sales(place.retrying(7)) as sales:
        await sales.send("Billing", order(1), delay=LATER)
        await place.wait_until_kept(1)
        await place.connection.execute(
            'update "Sales.delayed" set headers = %s, time = now()', (b'{"half\xff',)
        )
        await sales.send(
            "Sales", order(2), delay=SOON
        )  # wakes the poller, and fails where nothing handles it
        await place.wait_for_rows(2, ERROR)
        rows = await place.backend.rows(ERROR)

    (row,) = [row for row in rows if RAW_HEADERS in row.headers]
    assert (row.headers[RAW_HEADERS] or "").startswith('{"half')
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.MalformedHeadersError"
    assert row.body == b'{"order_id":"001"}'


@pytest.mark.parametrize("headers", ['{"NServiceBus.MessageId":"1"}', "no JSON", "null"])
async def test_what_is_no_delayed_message_moves_from_the_timeouts_queue_to_the_error_queue(
    shared: Place, headers: str
) -> None:
    async with shared.sales(shared.retrying(7)):
        await shared.backend.insert(TIMEOUTS, headers)
        await shared.wait_for_rows(1, ERROR)
        (row,) = await shared.backend.rows(ERROR)

    assert row.headers[Header.FAILED_QUEUE] == TIMEOUTS.canonical
    assert await shared.backend.count(TIMEOUTS) == 0


async def test_a_due_message_for_a_missing_queue_goes_straight_to_the_error_queue(place: Place) -> None:
    headers = {DESTINATION: "Missing", DUE: "2020-01-01 00:00:00:000000 Z", Header.MESSAGE_ID: "1"}

    async with place.sales(place.retrying(7)):
        await place.backend.insert(TIMEOUTS, json.dumps(headers))
        await place.wait_for_rows(1, ERROR)
        (row,) = await place.backend.rows(ERROR)

    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.QueueNotFoundError"
    assert await place.kept() == []
