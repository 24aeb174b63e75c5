"""Messages that wait are searched, looked at, and sent before they are due: once, whoever else moves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from rowbus.database.sessions import AsyncSession
from rowbus.database.statements import run_steps
from rowbus.errors import QueueNotFoundError, TransactionConflictError
from rowbus.messages.headers import Header
from rowbus.transport.delayed.moves import send_now
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.delayed.waiting import WaitingMessage, WaitingPlace
from rowbus.transport.queues.destination_rule import ANY_QUEUE, Destinations
from tests.conformance.backend import Backend
from tests.fixtures.every import every
from tests.transport.delayed.table import Delayed, headers_of


@pytest.fixture
async def session(backend: Backend, delayed: Delayed) -> AsyncIterator[AsyncSession]:
    """Give a session on a database with the table of delayed messages, and the queues Sales and Billing."""
    await delayed.create()
    for name in ("Sales", "Billing"):
        await backend.create_queue(name)
    session = await backend.database.connect()
    yield session
    await session.close()


async def send(session: AsyncSession, delayed: Delayed, message_id: str, due: datetime | None = None) -> int:
    """Send a message now, in a transaction of its own."""
    own, destinations = delayed.backend.queue("Sales"), Destinations(ANY_QUEUE, delayed.address)
    async with session.transaction():
        return await run_steps(
            session, send_now(delayed_table(delayed.address), own, destinations, message_id, due)
        )


async def wait(delayed: Delayed, *numbers: int, wire_name: str = "Shop.Remind") -> None:
    for number in numbers:
        billing = delayed.backend.queue("Billing")
        headers = headers_of(f"m-{number}", wire_name, billing.canonical)
        await delayed.insert(headers, b"{%d}" % number, due_in=3600 + number)


def ids(found: list[WaitingMessage]) -> list[str]:
    return [one.headers.partition("m-")[2].partition('"')[0] for one in found]


def behind(found: WaitingMessage) -> WaitingPlace:
    return WaitingPlace(found.due, found.id)


@pytest.mark.every_version
async def test_a_page_begins_where_the_one_before_ended(session: AsyncSession, delayed: Delayed) -> None:
    await wait(delayed, *range(7))
    table, pages = delayed_table(delayed.address), list[list[str]]()
    found = await session.run(table.find("", None, 3))
    while found:
        pages.append(ids(found))
        found = await session.run(table.find("", behind(found[-1]), 3))

    assert pages == [["0", "1", "2"], ["3", "4", "5"], ["6"]]


async def test_messages_due_at_the_same_time_are_each_on_one_page(
    session: AsyncSession, delayed: Delayed
) -> None:
    table = delayed_table(delayed.address)
    at = await session.run(table.due(timedelta(hours=1)))
    rows = table.copy_rows([(f'{{"n":"m-{number}"}}', b"") for number in range(5)], at)
    await session.copy(table.copy, rows)
    first = await session.run(table.find("", None, 2))
    rest = await session.run(table.find("", behind(first[-1]), 9))

    assert sorted(ids(first) + ids(rest)) == ["0", "1", "2", "3", "4"]


@pytest.mark.every_version
async def test_a_search_finds_id_type_and_destination_in_any_case(
    session: AsyncSession, delayed: Delayed
) -> None:
    await wait(delayed, 1, 2)
    await wait(delayed, 3, wire_name="Shop.Ünïcode")
    table = delayed_table(delayed.address)

    assert ids(await session.run(table.find("M-2", None, 9))) == ["2"]
    assert ids(await session.run(table.find("shop.remind", None, 9))) == ["1", "2"]
    assert ids(await session.run(table.find("billing", None, 9))) == ["1", "2", "3"]
    assert ids(await session.run(table.find("%", None, 9))) == []


async def test_a_search_reads_so_many_and_says_where_it_stopped(
    session: AsyncSession, delayed: Delayed
) -> None:
    await wait(delayed, *range(5))
    table = delayed_table(delayed.address)

    assert await session.run(table.find("m-4", None, 9, most_read=3)) == []
    stopped = await session.run(table.reach(None, 3))
    assert stopped is not None
    assert ids(await session.run(table.find("m-4", stopped, 9, most_read=3))) == ["4"]
    assert await session.run(table.reach(stopped, 3)) is None


async def test_a_message_is_looked_at_with_the_beginning_of_its_body(
    session: AsyncSession, delayed: Delayed
) -> None:
    await wait(delayed, 12)
    table = delayed_table(delayed.address)
    (one,) = await session.run(table.find("", None, 1))
    looked_at = await session.run(table.look(one.id, 3))

    assert looked_at is not None
    assert (looked_at.id, looked_at.due, looked_at.headers) == one[:3]
    assert (looked_at.body, looked_at.size) == (b"{12", 4)


@every("row_id", ["", "x", "' or 1=1 --", "1@2", "9" * 40 + "@2026-01-01", "{" * 36])
async def test_a_text_that_is_no_rows_id_finds_no_message(
    session: AsyncSession, delayed: Delayed, row_id: str
) -> None:
    await wait(delayed, 1)

    assert await session.run(delayed_table(delayed.address).look(row_id, 10)) is None


@pytest.mark.every_version
async def test_what_is_due_in_a_span_is_counted_up_to_a_limit(
    session: AsyncSession, delayed: Delayed
) -> None:
    await wait(delayed, 0, 60, 120, 180)
    table = delayed_table(delayed.address)
    at = (await session.run(table.state(1))).at
    first, last = at + timedelta(seconds=3630), at + timedelta(seconds=3750)

    assert await session.run(table.count_between(first, last, 10)) == 2
    assert await session.run(table.count_between(None, first, 10)) == 1
    assert await session.run(table.count_between(first, None, 10)) == 3
    assert await session.run(table.count_between(None, None, 2)) == 2


async def test_a_message_sent_now_is_in_its_queue_as_the_mover_would_have_put_it(
    session: AsyncSession, backend: Backend, delayed: Delayed
) -> None:
    await wait(delayed, 1, 2)

    assert await send(session, delayed, "m-1") == 1
    assert await send(session, delayed, "m-1") == 0
    (row,) = await backend.rows("Billing")
    assert row.headers[Header.MESSAGE_ID] == "m-1"
    assert Header.FORWARD_DESTINATION not in row.headers
    assert row.body == b"{1}"
    assert await delayed.count() == 1


async def test_a_message_whose_time_is_known_is_found_by_it(
    session: AsyncSession, backend: Backend, delayed: Delayed
) -> None:
    await wait(delayed, 1, 2)
    first, second = await session.run(delayed_table(delayed.address).find("", None, 2))

    assert await send(session, delayed, "m-1", second.due) == 0
    assert await send(session, delayed, "m-1", first.due) == 1


async def test_a_message_whose_queue_is_missing_waits_on(
    session: AsyncSession, backend: Backend, delayed: Delayed
) -> None:
    missing = backend.queue("Nobody").canonical
    await delayed.insert(headers_of("m-1", "Shop.Remind", missing), due_in=99)

    with pytest.raises(QueueNotFoundError):
        await send(session, delayed, "m-1")
    assert await delayed.count() == 1


async def test_a_delayed_retry_may_be_sent_now(
    session: AsyncSession, backend: Backend, delayed: Delayed
) -> None:
    waiting = headers_of("m-1", "Shop.Remind", backend.queue("Billing").canonical)
    await delayed.insert({**waiting, Header.RETRIES: "1"}, due_in=99)

    assert await send(session, delayed, "m-1") == 1
    assert await backend.count("Billing") == 1


async def test_a_message_without_a_destination_goes_to_the_endpoints_own_queue(
    session: AsyncSession, backend: Backend, delayed: Delayed
) -> None:
    await delayed.insert(headers_of("m-1", "Shop.Remind", None), due_in=99)

    assert await send(session, delayed, "m-1") == 1
    assert (await backend.count("Sales"), await delayed.count()) == (1, 0)


async def test_of_many_who_send_the_same_message_now_one_does(
    session: AsyncSession, backend: Backend, delayed: Delayed
) -> None:
    await wait(delayed, 1)
    sessions = [await backend.database.connect() for _ in range(5)]
    try:
        sent = await asyncio.gather(*(send(one, delayed, "m-1") for one in sessions))
    finally:
        for one in sessions:
            await one.close()

    assert sorted(sent) == [0, 0, 0, 0, 1]
    assert (await backend.count("Billing"), await delayed.count()) == (1, 0)


@pytest.mark.only("PostgreSQL", reason="it holds a row as a mover does")
async def test_a_message_in_the_hands_of_a_mover_is_passed_over(
    session: AsyncSession, backend: Backend, delayed: Delayed
) -> None:
    await wait(delayed, 1)
    async with backend.another_connection() as mover:
        await mover.execute("begin")
        await mover.execute(f"delete from {delayed.address}")

        assert await send(session, delayed, "m-1") == 0
        await mover.execute("rollback")
    assert await send(session, delayed, "m-1") == 1


@pytest.mark.only("SQL Server", reason="a select of Babelfish's locks nothing; PostgreSQL's does")
def test_a_move_of_which_another_session_did_a_part_is_a_conflict(backend: Backend, delayed: Delayed) -> None:
    moving = delayed_table(delayed.address).move(["1@2026-11-29T00:00:00"] * 2, backend.queue("Billing"))

    assert moving.decode([(2,)], 1) == 2
    with pytest.raises(TransactionConflictError, match="moved by another session"):
        moving.decode([(1,)], 1)
