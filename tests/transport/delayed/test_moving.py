"""The mover: who moves, in what order, with whom beside it, and where what cannot be moved ends."""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

import rowbus
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header, Identity
from rowbus.running.critical import Alarm
from rowbus.transport.delayed.mover import MoverService
from rowbus.transport.delayed.moves import DueMoves, Fallback
from rowbus.transport.delayed.postgresql import DelayedTable
from rowbus.transport.queues.destination_rule import moved_destinations
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.on_postgresql import queue
from tests.conformance.transport import (
    eventually,
    within,
)
from tests.transport.delayed.table import Delayed, NetMover, headers_of

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

ACCEPTED = "Shop.Messages.OrderAccepted"
IDENTITY = Identity("Sales", "machine", "0" * 32)
QUICK = rowbus.NativeDelayedDelivery(
    longest_look_delay=timedelta(milliseconds=50), standby_delay=timedelta(milliseconds=50)
)
PATIENT = rowbus.NativeDelayedDelivery(
    longest_look_delay=timedelta(seconds=30), silence_timeout=timedelta(seconds=60)
)
SALES, BILLING, ERROR = queue("Sales"), queue("Billing"), queue("error")
SALES_DELAYED = queue("Sales.Delayed")


class Movers:
    """Makes movers of one table that are stopped in the end; trouble they report fails the test."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._made: list[MoverService] = []

    def make(
        self,
        *,
        own: QueueAddress | None = SALES,
        notifications: bool = True,
        settings: rowbus.NativeDelayedDelivery = QUICK,
    ) -> MoverService:
        mover = MoverService(
            self._backend.database,
            SALES_DELAYED,
            Fallback(own, ERROR, IDENTITY),
            settings,
            Alarm(self._critical),
            notifications=notifications,
        )
        self._made.append(mover)
        return mover

    @staticmethod
    def _critical(text: str, error: BaseException) -> None:
        raise AssertionError(text) from error

    async def stop_all(self) -> None:
        await asyncio.gather(*(mover.stop(5) for mover in self._made))


@pytest.fixture
async def movers(backend: Backend, delayed: Delayed) -> AsyncIterator[Movers]:
    """Give movers of a table that exists, as do the queues Sales, Billing and error."""
    await delayed.create()
    for address in (SALES, BILLING, ERROR):
        await backend.create_queue(address)
    movers = Movers(backend)
    yield movers
    await movers.stop_all()


async def bodies(backend: Backend, address: QueueAddress) -> list[bytes | None]:
    return [row.body for row in await backend.rows(address)]


@pytest.mark.every_version
async def test_what_is_due_goes_straight_to_its_queue_in_the_order_of_its_time(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    for number in reversed(range(120)):
        await delayed.insert(headers_of(str(number), ACCEPTED, BILLING), b"%d" % number, due_in=number - 300)

    await movers.make().start()

    async def moved() -> bool:
        return await backend.count(BILLING) == 120

    await eventually(moved)
    assert await bodies(backend, BILLING) == [b"%d" % number for number in range(120)]
    assert await backend.count(SALES) == 0
    assert await delayed.count() == 0


async def test_a_row_stored_without_a_notification_is_moved_soon_after_others_were(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    await delayed.insert(headers_of("1", ACCEPTED, BILLING), due_in=0)
    await movers.make(settings=PATIENT).start()

    for number in (1, 2, 3):

        async def moved(number: int = number) -> bool:
            return await backend.count(BILLING) == number

        await eventually(moved, 10)  # the next look of an idle mover comes after 30 s
        await delayed.insert(headers_of(str(number), ACCEPTED, BILLING), due_in=0)


async def test_what_does_not_say_where_it_goes_goes_to_the_endpoint_itself(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    for text in ("", "{}", "not headers", '{"NServiceBus.SqlServer.ForwardDestination":null}'):
        await delayed.insert(text, due_in=0)
    await movers.make().start()

    async def moved() -> bool:
        return await backend.count(SALES) == 4

    await eventually(moved)
    assert {row.headers_text for row in await backend.rows(SALES)} >= {"", "{}", "not headers"}


async def test_nothing_is_moved_before_the_clock_of_the_database_says_so(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    await backend.execute(
        "create table early (id uuid, late double precision);"
        " create function note_early() returns trigger language plpgsql as $$ begin"
        " insert into early values (old.id, extract(epoch from clock_timestamp() - old.due)); return null; end $$;"
        ' create trigger note_early after delete on "Sales.Delayed" for each row execute function note_early()'
    )
    await movers.make().start()
    for number in range(40):
        await delayed.insert(headers_of(str(number), ACCEPTED, BILLING), due_in=0.2 + number / 100)

    async def moved() -> bool:
        return await backend.count(BILLING) == 40

    await eventually(moved)
    late = await backend.values("select late from early")
    assert len(late) == 40
    assert min(late) >= 0


async def test_one_mover_leads_and_another_takes_over_when_its_session_ends(
    movers: Movers, backend: Backend
) -> None:
    first, second = movers.make(), movers.make()
    await first.start()
    await within(first.leads.wait())
    await second.start()
    await asyncio.sleep(0.05)
    assert not second.leads.is_set()

    await first.stop()

    await within(second.leads.wait())


async def test_a_mover_whose_session_is_killed_is_replaced_within_seconds(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    first = movers.make()
    await first.start()
    await within(first.leads.wait())
    second = movers.make()
    await second.start()
    await backend.terminate_sessions()

    await delayed.insert(headers_of("1", ACCEPTED, BILLING), due_in=0)

    async def moved() -> bool:
        return await backend.count(BILLING) == 1

    await eventually(moved, 5)


async def test_movers_without_sessions_of_their_own_all_move_and_none_twice(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    """Behind a pooler in transaction mode there are no session locks: rows are locked all the same."""
    for number in range(150):
        await delayed.insert(headers_of(str(number), ACCEPTED, BILLING), due_in=0)
    for mover in (movers.make(notifications=False), movers.make(notifications=False)):
        await mover.start()

    async def moved() -> bool:
        return await delayed.count() == 0

    await eventually(moved)
    assert await backend.count(BILLING) == 150


@pytest.mark.every_version
async def test_a_mover_of_net_works_on_the_same_table_and_none_is_lost_or_doubled(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    for number in range(200):
        await delayed.insert(headers_of(str(number), ACCEPTED, BILLING), due_in=number / 1000)
    await movers.make().start()

    async with await psycopg.AsyncConnection.connect(backend.dsn, autocommit=True) as connection:
        net = NetMover(connection, SALES_DELAYED, SALES)
        while await delayed.count():
            await net.move()
    straight = {row.headers[Header.MESSAGE_ID] for row in await backend.rows(BILLING)}
    through_own = {row.headers[Header.MESSAGE_ID] for row in await backend.rows(SALES)}
    assert len(straight) + len(through_own) == 200
    assert straight | through_own == {str(number) for number in range(200)}


async def test_a_failed_forward_is_retried_as_the_policy_says(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    """NServiceBus sends it to the error queue after one failure (SqlServer#1625)."""
    caplog.set_level(logging.INFO)
    backend = endpoints.backend
    await _refusing_queue(backend)
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=3, delayed=0))

    async with sales:
        await backend.insert(SALES, _text(headers_of("1", ACCEPTED, BILLING)), b"{}")

        async def given_up() -> bool:
            return await backend.count(ERROR) == 1

        await eventually(given_up)
    (row,) = await backend.rows(ERROR)
    assert row.headers[Header.FAILED_QUEUE] == str(BILLING)
    assert caplog.text.count("Immediate Retry") == 3


async def test_a_failed_forward_that_is_delayed_goes_on_to_its_destination(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await _refusing_queue(backend)
    sales = endpoints.make(
        "Sales",
        recoverability=rowbus.Recoverability(immediate=0, delayed=1, increase=timedelta(milliseconds=300)),
    )

    async with sales:
        await backend.insert(SALES, _text(headers_of("1", ACCEPTED, BILLING)), b"{}")

        async def waiting() -> bool:
            return await backend.count(SALES_DELAYED) == 1

        await eventually(waiting)
        await backend.execute('alter table "Billing" disable trigger refuse')

        async def arrived() -> bool:
            return await backend.count(BILLING) == 1

        await eventually(arrived)
        assert await backend.count(ERROR) == 0


async def test_a_message_for_a_missing_queue_goes_to_the_error_queue_at_once_and_holds_up_no_other(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    """NServiceBus, When_deferring_a_message_to_invalid_queue."""
    await delayed.insert(headers_of("lost", ACCEPTED, queue("Nowhere")), b'{"order_id":"1"}', due_in=-1)
    await delayed.insert(headers_of("fine", ACCEPTED, BILLING), due_in=0)
    await movers.make().start()

    async def moved() -> bool:
        return await delayed.count() == 0

    await eventually(moved)
    (lost,) = await backend.rows(ERROR)
    assert lost.headers[Header.MESSAGE_ID] == "lost"
    assert lost.headers[Header.FAILED_QUEUE] == '"public"."Nowhere"'
    assert lost.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.QueueNotFoundError"
    assert Header.TIME_OF_FAILURE in lost.headers
    assert Header.FORWARD_DESTINATION not in lost.headers
    assert lost.body == b'{"order_id":"1"}'
    (fine,) = await backend.rows(BILLING)
    assert fine.headers[Header.MESSAGE_ID] == "fine"


async def test_a_message_its_queue_refuses_goes_through_the_own_queue_and_so_under_the_policy(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    await backend.drop_queue(BILLING)
    await _refusing_queue(backend)
    await delayed.insert(headers_of("1", ACCEPTED, BILLING), due_in=0)
    await movers.make().start()

    async def moved() -> bool:
        return await backend.count(SALES) == 1

    await eventually(moved)
    (row,) = await backend.rows(SALES)
    assert row.headers[Header.FORWARD_DESTINATION] == str(BILLING)


async def test_without_an_own_queue_what_cannot_be_moved_goes_to_the_error_queue(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    await backend.drop_queue(BILLING)
    await _refusing_queue(backend)
    await delayed.insert(headers_of("1", ACCEPTED, BILLING), due_in=0)
    await movers.make(own=None).start()

    async def moved() -> bool:
        return await backend.count(ERROR) == 1

    await eventually(moved)
    (row,) = await backend.rows(ERROR)
    assert row.headers[Header.FAILED_QUEUE] == str(BILLING)
    assert "refused" in (row.headers[Header.EXCEPTION_MESSAGE] or "")


async def test_a_message_for_a_table_that_is_no_queue_goes_to_the_error_queue_and_the_others_go(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    await backend.execute('create table "Notes" (id uuid, expires timestamp, headers text, body bytea)')
    await delayed.insert(headers_of("stray", ACCEPTED, queue("Notes")), b"1", due_in=-1)
    await delayed.insert(headers_of("fine", ACCEPTED, BILLING), due_in=0)
    await movers.make().start()

    async def moved() -> bool:
        return await delayed.count() == 0

    await eventually(moved)
    (stray,) = await backend.rows(ERROR)
    assert stray.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.DestinationRefusedError"
    assert stray.body == b"1"
    assert await backend.count(queue("Notes")) == 0
    assert await backend.count(BILLING) == 1


async def test_an_operator_may_say_where_due_messages_go(backend: Backend, delayed: Delayed) -> None:
    await delayed.create()
    for address in (SALES, BILLING, ERROR):
        await backend.create_queue(address)
    await delayed.insert(headers_of("stray", ACCEPTED, BILLING), due_in=-1)
    await delayed.insert(headers_of("fine", ACCEPTED, SALES), due_in=0)
    fallback = Fallback(SALES, ERROR, IDENTITY, moved_destinations(("Sales",), SALES_DELAYED))
    session = await backend.database.connect()

    moved = await DueMoves(DelayedTable(SALES_DELAYED), fallback, 100).move(session)

    await session.close()
    assert moved == 2
    assert [await backend.count(address) for address in (SALES, BILLING, ERROR)] == [1, 0, 1]


@pytest.mark.every_version
async def test_headers_too_large_to_be_read_move_without_being_read(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    large = headers_of("large", ACCEPTED, None) | {"Shop.Large": "x" * 3_000_000}
    await delayed.insert({**large, Header.FORWARD_DESTINATION: str(BILLING)}, due_in=-1)
    await movers.make().start()

    async def moved() -> bool:
        return await backend.count(SALES) == 1

    await eventually(moved)  # from where it is forwarded, or given up on, by its size
    assert await delayed.count() == 0


async def test_what_can_go_nowhere_stays_and_holds_up_no_other(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    await backend.drop_queue(ERROR)
    await delayed.insert(headers_of("lost", ACCEPTED, queue("Nowhere")), due_in=-1)
    await delayed.insert(headers_of("fine", ACCEPTED, BILLING), due_in=0)
    session = await backend.database.connect()

    moved = await DueMoves(DelayedTable(SALES_DELAYED), Fallback(SALES, ERROR, IDENTITY), 100).move(session)

    await session.close()
    assert moved == 1
    assert await backend.count(BILLING) == 1
    assert await delayed.count() == 1


async def lose(backend: Backend, delayed: Delayed, count: int, *, at_once: bool) -> None:
    """Store messages that have long been due, at one moment or one after the other, for a queue that is missing."""
    first = await delayed.insert(headers_of("lost", ACCEPTED, queue("Nowhere")), due_in=-100)
    await backend.execute(
        f"insert into {SALES_DELAYED} (headers, body, due) select headers, body,"
        f" due + make_interval(secs => %s * n / 1000.0) from {SALES_DELAYED}, generate_series(1, %s) as n"
        " where id = %s",
        int(not at_once),
        count - 1,
        first,
    )


@pytest.mark.every_version
@pytest.mark.parametrize("at_once", [False, True])
async def test_what_can_go_nowhere_is_passed_over_for_a_while_and_nothing_of_it_is_lost(
    movers: Movers, backend: Backend, delayed: Delayed, *, at_once: bool
) -> None:
    now = [0.0]
    moves = DueMoves(DelayedTable(SALES_DELAYED), Fallback(SALES, ERROR, IDENTITY), 100, clock=lambda: now[0])
    await backend.drop_queue(ERROR)
    await lose(backend, delayed, 250, at_once=at_once)
    await delayed.insert(headers_of("early", ACCEPTED, BILLING), due_in=3600)
    await delayed.insert(headers_of("fine", ACCEPTED, BILLING), due_in=-1)

    async with backend.database.pool(1).session() as session:
        assert await moves.move_all(session) == 1
        assert isinstance(moves.failure, rowbus.QueueNotFoundError)
        assert (await session.run(moves.next_due()) or 0) > 3000  # when the one that is not due yet will be

        await delayed.insert(headers_of("next", ACCEPTED, BILLING), due_in=0)
        await delayed.insert(headers_of("overtaken", ACCEPTED, BILLING), due_in=-1000)
        assert await moves.move_all(session) == 1
        assert await moves.try_again(session) == 0  # it is not time

        await backend.create_queue(ERROR)
        now[0] += moves.pause()
        assert sum([await moves.try_again(session) for _ in range(3)]) == 251
        assert (
            moves.next_due().query == DelayedTable(SALES_DELAYED).next_due().query
        )  # nothing is passed over

    assert await delayed.count() == 1
    assert await backend.count(BILLING) == 3
    assert len({row.id for row in await backend.rows(ERROR)}) == 250


async def test_a_mover_goes_on_with_what_it_can_move_and_tells_of_what_it_cannot(
    movers: Movers, backend: Backend, delayed: Delayed, caplog: pytest.LogCaptureFixture
) -> None:
    await backend.drop_queue(ERROR)
    await lose(backend, delayed, 150, at_once=False)
    await delayed.insert(headers_of("fine", ACCEPTED, BILLING), due_in=0)

    async def moved() -> bool:
        return await backend.count(BILLING) == 1

    async def given_up() -> bool:
        return await backend.count(ERROR) == 150

    await movers.make().start()
    await eventually(moved)
    assert await delayed.count() == 150
    await eventually(lambda: "trying again until it works: Failed to move delayed messages to" in caplog.text)
    assert caplog.text.count("Delayed messages stay where they are") == 1

    await backend.create_queue(ERROR)
    await eventually(given_up)
    assert await delayed.count() == 0


async def test_an_idle_endpoint_is_woken_for_a_due_message(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", delayed_delivery=PATIENT, peek_delay=timedelta(seconds=10))
    late: list[float] = []
    arrived = asyncio.Event()

    @sales.handler
    async def accepted(message: PlaceOrder) -> None:
        late.append(time.time() - float(message.order_id))
        arrived.set()

    async with sales:
        for _ in range(11):
            arrived.clear()
            delay = timedelta(milliseconds=150)
            await sales.send("Sales", PlaceOrder(str(time.time() + delay.total_seconds())), delay=delay)
            await within(arrived.wait())

    assert min(late) >= -0.001  # the two clocks are one, but for how they round
    assert statistics.median(late) < 5  # half of the time between two looks


async def test_a_message_stored_in_an_open_transaction_wakes_the_mover_when_that_commits(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    """NServiceBus wakes it before the commit, in vain, and is up to a minute late (SqlServer#1554)."""
    arrived = asyncio.Event()
    sales = endpoints.make("Sales", delayed_delivery=PATIENT, peek_delay=timedelta(seconds=10))

    @sales.handler
    async def accepted(message: OrderAccepted) -> None:
        arrived.set()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Sales", OrderAccepted("1"), delay=timedelta(milliseconds=200))

    async with sales:
        await asyncio.sleep(0.05)
        await sales.send("Sales", PlaceOrder("1"))
        await within(arrived.wait(), 5)


async def test_an_idle_mover_asks_the_database_one_question_for_each_look(
    movers: Movers, backend: Backend, delayed: Delayed
) -> None:
    await delayed.insert(headers_of("1", ACCEPTED, BILLING), due_in=3600)
    mover = movers.make()
    await mover.start()
    await within(mover.leads.wait())
    question = DelayedTable(SALES_DELAYED).next_due().query.native.decode()
    asked = (
        "select query from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
    )

    async def settled() -> bool:
        return await backend.values(asked) == [question]

    await eventually(settled)
    for _ in range(30):
        assert await backend.values(asked) == [question]
        await asyncio.sleep(0.01)


def _text(headers: dict[str, str | None]) -> str:
    return json.dumps(headers)


async def _refusing_queue(backend: Backend) -> None:
    """Make the queue Billing such that every insert fails."""
    await backend.create_queue(BILLING)
    await backend.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'refused'; end $$;"
        ' create trigger refuse before insert on "Billing" for each row execute function refuse()'
    )
