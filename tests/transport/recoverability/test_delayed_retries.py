"""Delayed retries as endpoints carry them out: how many, when, with which headers, and in one place all the while."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.messages.headers import Header, encode_copied_headers
from rowbus.messages.timestamps import format_timestamp, parse_timestamp
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import (
    NONE,
    RECEIVE_ONLY,
    SENDS_ATOMIC,
    SENDS_ATOMIC_ROLLBACK,
    SimulatedError,
    eventually,
    in_transaction_modes_failing,
)

if TYPE_CHECKING:
    from rowbus.transport.recoverability.policy import Verdict

SOON = timedelta(milliseconds=20)
SALES, DELAYED = "Sales", "Sales.Delayed"
PLACE_ORDER = "Shop.Messages.PlaceOrder"
TRACEPARENT = "00-b23c64f57b0edf3acb3bca9024eeb523-ba5bd5bebb5731a5-01"


@dataclass
class Attempts:
    """Sights of a handler that fails, attempt by attempt."""

    at: list[datetime] = field(default_factory=list)
    headers: list[dict[str, str | None]] = field(default_factory=list)
    works_at: int = 0  # the attempt that does not fail; 0 for none

    def serve(self, endpoint: rowbus.Endpoint) -> None:
        @endpoint.handler
        async def place(message: PlaceOrder, context: rowbus.Context) -> None:
            self.at.append(datetime.now(UTC))
            self.headers.append(dict(context.headers))
            context.headers["Changed"] = "by the handler"
            if len(self.at) != self.works_at:
                await context.send("Sales", PlaceOrder("never sent"))
                raise SimulatedError

    @property
    def retries(self) -> list[str | None]:
        return [headers.get(Header.RETRIES) for headers in self.headers]


def failing(
    endpoints: Endpoints, policy: rowbus.Recoverability, *, works_at: int = 0
) -> tuple[rowbus.Endpoint, Attempts]:
    sales = endpoints.make("Sales", recoverability=policy)
    attempts = Attempts(works_at=works_at)
    attempts.serve(sales)
    return sales, attempts


async def wait_for(endpoints: Endpoints, count: int, name: str = "error") -> None:
    async def there() -> bool:
        return await endpoints.backend.count(name) == count

    await eventually(there)


# --------------------------------------------------------------------------------------------------- how many, and when


@in_transaction_modes_failing
@pytest.mark.parametrize("immediate", [0, 2])
async def test_a_message_has_as_many_delayed_retries_as_configured(
    endpoints: Endpoints, immediate: int
) -> None:
    policy = rowbus.Recoverability(immediate=immediate, delayed=2, increase=SOON)
    sales, attempts = failing(endpoints, policy)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1)

    each = immediate + 1
    assert attempts.retries == [None] * each + ["1"] * each + ["2"] * each
    assert await endpoints.backend.count(SALES) == 0
    assert await endpoints.backend.count(DELAYED) == 0


@pytest.mark.one_version
async def test_a_delayed_retry_says_when_it_is_due_as_the_first_did_and_begins_a_trace(
    endpoints: Endpoints,
) -> None:
    policy = rowbus.Recoverability(immediate=0, delayed=2, increase=SOON)
    sales, attempts = failing(endpoints, policy)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"), headers={"traceparent": TRACEPARENT})
        await wait_for(endpoints, 1)

    sent, first, second = attempts.headers
    (copy,) = await endpoints.backend.rows(ERROR)
    assert Header.DELIVER_AT not in sent
    due = parse_timestamp(first[Header.DELIVER_AT] or "")
    assert due == parse_timestamp(first[Header.RETRIES_TIMESTAMP] or "") + SOON
    assert first[Header.DELIVER_AT] == second[Header.DELIVER_AT] == copy.headers[Header.DELIVER_AT]
    wishes = [headers[Header.START_NEW_TRACE] for headers in (sent, first, second, copy.headers)]
    assert wishes == ["False", "True", "True", "True"]
    assert {headers["traceparent"] for headers in (sent, first, second, copy.headers)} == {TRACEPARENT}


@pytest.mark.one_version
async def test_a_delayed_message_keeps_the_time_it_was_due_in_its_retries_and_copies(
    endpoints: Endpoints,
) -> None:
    sales, attempts = failing(endpoints, rowbus.Recoverability(immediate=0, delayed=1, increase=SOON))

    async with sales:
        await sales.send("Sales", PlaceOrder("1"), delay=SOON)
        await wait_for(endpoints, 1)

    (copy,) = await endpoints.backend.rows(ERROR)
    due = {headers[Header.DELIVER_AT] for headers in (*attempts.headers, copy.headers)}
    assert len(due) == 1
    assert copy.headers[Header.START_NEW_TRACE] == "False"


@pytest.mark.one_version
async def test_a_message_that_works_at_a_delayed_retry_is_done(endpoints: Endpoints) -> None:
    sales, attempts = failing(
        endpoints, rowbus.Recoverability(immediate=1, delayed=3, increase=SOON), works_at=4
    )

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: len(attempts.at) >= 4)
        await sales.stop()

    assert attempts.retries == [None, None, "1", "1"]
    assert await endpoints.backend.count(ERROR) == 0
    assert await endpoints.backend.count(DELAYED) == 0


@pytest.mark.one_version
async def test_each_delayed_retry_waits_longer_and_none_comes_early(endpoints: Endpoints) -> None:
    step = timedelta(milliseconds=150)
    sales, attempts = failing(endpoints, rowbus.Recoverability(immediate=0, delayed=2, increase=step))

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1)

    first, second, third = attempts.at
    assert second - first >= step
    assert third - second >= 2 * step


@pytest.mark.one_version
async def test_by_default_the_first_delayed_retry_comes_after_ten_seconds_by_the_databases_clock(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = rowbus.EndpointSettings(schema=endpoints.backend.schema)
    sales = rowbus.Endpoint("Sales", database=endpoints.backend.dsn, settings=settings)
    attempts = Attempts()
    attempts.serve(sales)

    async with sales:
        sent = time.monotonic()
        message_id = await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1, "Sales.Delayed")
        (waiting,) = await endpoints.backend.delayed_rows(DELAYED)
        elapsed = time.monotonic() - sent

    assert 10 - elapsed - 0.01 <= waiting.due_in <= 10.01, "ten seconds after some moment since it was sent"
    assert len(attempts.at) == 6
    messages = [record.getMessage() for record in caplog.records if record.name == "rowbus.recoverability"]
    place = f"{Attempts.__module__}.Attempts.serve.<locals>.place"
    name = f"'{message_id}' ({PLACE_ORDER} in {place})"
    immediate = f"Immediate Retry is going to retry message {name} because of an exception: SimulatedError()"
    delayed = (
        f"Delayed Retry will reschedule message {name} after a delay of 00:00:10 because of an exception: "
        "SimulatedError()"
    )
    assert messages == [*[immediate] * 5, delayed]
    assert [record.levelname for record in caplog.records if "Delayed Retry" in record.message] == ["WARNING"]


async def test_a_handler_has_retries_of_its_own(endpoints: Endpoints) -> None:
    sales, attempts = (
        endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=5)),
        list[object](),
    )

    @sales.handler(
        PLACE_ORDER, retries=rowbus.Retries(2, backoff=lambda _retry: SOON, give_up_on=(KeyError,))
    )
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts.append(context.headers.get(Header.RETRIES))
        raise KeyError("hopeless") if message.order_id == "hopeless" else SimulatedError

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1)
        assert attempts == [None, "1", "2"]
        await sales.send("Sales", PlaceOrder("hopeless"))
        await wait_for(endpoints, 2)
    assert attempts == [None, "1", "2", None]


# -------------------------------------------------------------------------------------------------------------- headers


@pytest.mark.parametrize("case", [RECEIVE_ONLY, SENDS_ATOMIC], ids=str)
async def test_the_retry_is_the_message_as_it_was_received_with_the_count_and_when_it_was_asked_for(
    endpoints: Endpoints,
) -> None:
    sales, attempts = failing(endpoints, rowbus.Recoverability(immediate=0, delayed=1, increase=SOON))
    before = datetime.now(UTC)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"), headers={"Shop": "Kraków"})
        await wait_for(endpoints, 1)

    original, again = attempts.headers
    asked_at = parse_timestamp(again.pop(Header.RETRIES_TIMESTAMP) or "")
    assert before <= asked_at <= datetime.now(UTC)
    assert again.pop(Header.DELIVER_AT) == format_timestamp(asked_at + SOON)
    assert again == {**original, Header.RETRIES: "1"}
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.body == b'{"order_id":"1"}'
    assert Header.RETRIES not in row.headers
    assert row.headers[Header.RETRIES_TIMESTAMP] == format_timestamp(asked_at)
    assert row.headers[Header.FAILED_QUEUE] == endpoints.queue(SALES).canonical
    assert "Changed" not in row.headers
    assert Header.FORWARD_DESTINATION not in row.headers


@pytest.mark.one_version
async def test_a_message_without_an_id_has_the_same_one_at_its_delayed_retries(endpoints: Endpoints) -> None:
    sales, attempts = failing(endpoints, rowbus.Recoverability(immediate=0, delayed=1, increase=SOON))

    async with sales:
        row_id = await endpoints.backend.insert(
            SALES, encode_copied_headers({Header.ENCLOSED_MESSAGE_TYPES: PLACE_ORDER}), b'{"order_id":"1"}'
        )
        await wait_for(endpoints, 1)

    assert [headers.get(Header.MESSAGE_ID) for headers in attempts.headers] == [row_id, row_id]


@pytest.mark.one_version
async def test_a_delayed_retry_does_not_expire_like_the_original(endpoints: Endpoints) -> None:
    sales, attempts = failing(
        endpoints, rowbus.Recoverability(immediate=0, delayed=1, increase=timedelta(seconds=3))
    )

    async with sales:
        await sales.send("Sales", PlaceOrder("1"), time_to_be_received=timedelta(seconds=2.5))
        await wait_for(endpoints, 1)

    assert len(attempts.at) == 2


@pytest.mark.one_version
@pytest.mark.parametrize("hours, delays", [(23, True), (25, False)])
async def test_a_day_after_its_last_delayed_retry_a_message_gets_no_further_one(
    endpoints: Endpoints, hours: int, *, delays: bool
) -> None:
    sales, _ = failing(endpoints, rowbus.Recoverability(immediate=0))
    headers = {
        Header.ENCLOSED_MESSAGE_TYPES: PLACE_ORDER,
        Header.RETRIES: "1",
        Header.RETRIES_TIMESTAMP: format_timestamp(datetime.now(UTC) - timedelta(hours=hours)),
    }

    async with sales:
        await endpoints.backend.insert(SALES, encode_copied_headers(headers), b'{"order_id":"1"}')
        await wait_for(endpoints, 1, "Sales.Delayed" if delays else "error")


# --------------------------------------------------------------------------------------------------------------- counts


@pytest.mark.one_version
@pytest.mark.parametrize("case", [RECEIVE_ONLY, SENDS_ATOMIC], ids=str)
async def test_two_instances_together_make_exactly_as_many_attempts_as_the_policy_says(
    endpoints: Endpoints,
) -> None:
    counts: Counter[str] = Counter()
    policy = rowbus.Recoverability(immediate=1, delayed=2, increase=SOON)
    first, second = (endpoints.make("Sales", recoverability=policy) for _ in range(2))

    async def place(message: PlaceOrder) -> None:
        counts[message.order_id] += 1
        raise SimulatedError

    first.handler(place)
    second.handler(place)
    async with first, second:
        client = endpoints.backend.client()
        await client.send_many("Sales", (PlaceOrder(str(number)) for number in range(20)))
        await wait_for(endpoints, 20)

    assert counts == dict.fromkeys(map(str, range(20)), 6)


@pytest.mark.one_version
async def test_the_count_survives_a_restart_between_two_delayed_retries(endpoints: Endpoints) -> None:
    policy = rowbus.Recoverability(immediate=0, delayed=2, increase=timedelta(milliseconds=300))
    first, before = failing(endpoints, policy)
    async with first:
        await first.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1, "Sales.Delayed")
    second, after = failing(endpoints, policy)

    async with second:
        await wait_for(endpoints, 1)

    assert before.retries == [None]
    assert after.retries == ["1", "2"]


# ------------------------------------------------------------------------------------------------------------ one place


@pytest.mark.one_version
@in_transaction_modes_failing
async def test_what_a_failed_attempt_sent_is_not_sent_when_the_message_waits(endpoints: Endpoints) -> None:
    sales, _ = failing(endpoints, rowbus.Recoverability(immediate=1))

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1, "Sales.Delayed")

    assert await endpoints.backend.count(SALES) == 0


@pytest.mark.only("PostgreSQL", reason="it has PostgreSQL refuse rows")
@pytest.mark.one_version
@pytest.mark.parametrize("case", [RECEIVE_ONLY, SENDS_ATOMIC, SENDS_ATOMIC_ROLLBACK], ids=str)
async def test_when_the_delayed_copy_cannot_be_stored_the_message_is_kept(endpoints: Endpoints) -> None:
    sales, attempts = failing(endpoints, rowbus.Recoverability(immediate=0))

    async with sales:
        await endpoints.backend.execute('alter table "Sales.Delayed" add check (false)')
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: len(attempts.at) >= 1)
        await sales.stop(1)

    kept = [await endpoints.backend.count(name) for name in (SALES, ERROR, DELAYED)]
    assert kept in (
        [1, 0, 0],
        [0, 1, 0],
    )  # in the error queue after the third refusal, where the stop comes late


@pytest.mark.one_version
async def test_a_message_of_an_instances_own_queue_comes_back_to_it(endpoints: Endpoints) -> None:
    sales = endpoints.make(
        "Sales",
        recoverability=rowbus.Recoverability(immediate=0, delayed=1, increase=SOON),
        discriminator="one",
    )
    attempts = Attempts()
    attempts.serve(sales)

    async with sales:
        await sales.send(endpoints.queue("Sales.one"), PlaceOrder("1"))
        await wait_for(endpoints, 1)

    (row,) = await endpoints.backend.rows(ERROR)
    assert attempts.retries == [None, "1"]
    assert row.headers[Header.FAILED_QUEUE] == endpoints.queue("Sales.one").canonical


# -------------------------------------------------------------------------------------------------- policies and limits


class Wait(rowbus.Recoverability):
    """A policy of one's own: wait twice, whatever the default says."""

    def decide(self, attempt: rowbus.FailedAttempt) -> Verdict:
        if attempt.delayed_retries < 2:
            return rowbus.DelayedRetry(SOON)
        return rowbus.MoveToErrorQueue()


@pytest.mark.one_version
async def test_a_policy_of_ones_own_says_how_long_a_message_waits(endpoints: Endpoints) -> None:
    sales, attempts = failing(endpoints, Wait())

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1)

    assert attempts.retries == [None, "1", "2"]


@pytest.mark.one_version
@pytest.mark.parametrize("case", [NONE], ids=str)
async def test_in_mode_none_a_policy_that_wants_to_wait_moves_the_message(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    sales, attempts = failing(endpoints, Wait(immediate=0, delayed=0))

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1)

    assert len(attempts.at) == 1
    assert "The policy asks for a delayed retry, which mode NONE cannot give" in caplog.text


@pytest.mark.one_version
async def test_without_delayed_delivery_a_policy_that_wants_to_wait_moves_the_message(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    sales = endpoints.make("Sales", recoverability=Wait(delayed=0), delayed_delivery=None)
    attempts = Attempts()
    attempts.serve(sales)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1)

    assert len(attempts.at) == 1
    assert "which an endpoint without delayed delivery cannot give" in caplog.text


def test_retries_that_an_endpoint_cannot_give_are_refused() -> None:
    without = rowbus.EndpointSettings(transaction_mode=rowbus.TransactionMode.NONE)

    with pytest.raises(rowbus.ConfigurationError, match=r"Recoverability\(immediate=0, delayed=0\)"):
        rowbus.Endpoint("Sales", settings=without, recoverability=rowbus.Recoverability(immediate=0))
    with pytest.raises(rowbus.ConfigurationError, match="Without delayed delivery"):
        rowbus.Endpoint("Sales", delayed_delivery=None, recoverability=rowbus.Recoverability())
    with pytest.raises(rowbus.ConfigurationError, match=r"Retries\(immediate=0, delayed=0\)"):
        rowbus.Endpoint("Sales", settings=without).handler("A", retries=rowbus.Retries(0, immediate=1))
    with pytest.raises(rowbus.ConfigurationError, match="Without delayed delivery"):
        rowbus.Endpoint("Sales", delayed_delivery=None).handler("A", retries=rowbus.Retries(1))
    with pytest.raises(rowbus.ConfigurationError, match=r"retries is 5; give rowbus\.Retries"):
        rowbus.Endpoint("Sales").handler("A", retries=5)  # type: ignore[call-overload]  # the mistake
