"""An interrupted message is put back at the end of its queue, on every database, by one of those who try."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from rowbus.errors import HandlingInterruptedError
from rowbus.messages.headers import Header, decode_headers
from rowbus.running.in_hand import RowInHand
from rowbus.transport.queues.table import Place as Position
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.interrupted_messages import InterruptedMessages, count_death
from tests.conformance.backend import Backend
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import eventually
from tests.fixtures.backends import POSTGRESQL, Place, Standins
from tests.fixtures.database import Servers

HOW = "was killed by SIGKILL"


async def two(backend: Backend) -> list[str]:
    """Send two messages, the first with a time to be received, and give the ids of their rows."""
    await backend.create_queue("Sales")
    client = backend.client()
    await client.send("Sales", PlaceOrder("1"), time_to_be_received=timedelta(hours=1))
    await client.send("Sales", PlaceOrder("2"))
    return [row.id for row in await backend.rows("Sales")]


async def test_a_message_that_is_put_back_keeps_all_but_its_place_and_counts(backend: Backend) -> None:
    first, second = await two(backend)
    before, _ = await backend.rows("Sales")
    session = await backend.database.connect()
    messages = InterruptedMessages(backend.database, backend.queue("Sales"), notify=True)

    for times in (1, 2):
        now = await messages.put_back(session, first, 1, "said")
        assert now is not None
        assert (now.times, now.said) == (times, "said")
    await session.close()

    other, after = await backend.rows("Sales")
    assert (other.id, after.id, after.body) == (second, first, before.body)
    assert before.expires_in is not None
    assert after.expires_in == pytest.approx(before.expires_in, abs=60)
    added = {Header.FAILED_ATTEMPTS: "2", Header.INTERRUPTION: "said"}
    assert after.headers == {**before.headers, **added}


PAUSE = """
    create or replace function {schema}.pause() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_xact_lock(42);
        return null;
    end $$;
    create trigger pause after insert on {schema}.{table} for each statement execute function {schema}.pause()
"""


async def test_what_its_holder_lets_go_of_while_it_is_put_back_stays(
    backend: Backend, backend_place: Place, backend_dsn: str, servers: Servers, standins: Standins
) -> None:
    """The insert passes over a row in hand; whoever has it lets go before what was put back is deleted."""
    server = backend_place.server
    if server is None:
        pytest.skip("the trigger is PostgreSQL's")
    dsn = backend_dsn if backend_place.backend == POSTGRESQL else standins.on(server).database
    first, _ = await two(backend)
    address = backend.queue("Sales")
    names = {"schema": sql.Identifier(address.schema), "table": sql.Identifier(address.table)}
    session = await backend.database.connect()
    place = await session.run(queue_table(address).locate(first))
    assert place is not None

    async def put_back() -> int:
        async with session.transaction():
            return await session.run(
                queue_table(address).requeue(first, place._replace(headers="{}"), notify=False)
            )

    with psycopg.connect(dsn, autocommit=True) as looking, psycopg.connect(dsn) as holder:
        looking.execute(sql.SQL(PAUSE).format(**names))
        looking.execute("select pg_advisory_lock(42)")
        holder.execute(sql.SQL("select from {schema}.{table} for update").format(**names))
        putting = asyncio.create_task(put_back())
        await eventually(lambda: _somebody_waits(looking))
        holder.rollback()
        looking.execute("select pg_advisory_unlock(42)")
        counted = await putting
        looking.execute(sql.SQL("drop function {schema}.pause cascade").format(**names))
    await session.close()

    assert counted == 0
    assert next(row.id for row in await backend.rows("Sales")) == first


def _somebody_waits(looking: psycopg.Connection) -> bool:
    waiting = "select from pg_locks where locktype = 'advisory' and objid = 42 and not granted"
    return looking.execute(waiting).rowcount > 0


async def test_who_knows_an_old_place_puts_nothing_back(backend: Backend) -> None:
    first, _ = await two(backend)
    table = queue_table(backend.queue("Sales"))
    session = await backend.database.connect()
    place = await session.run(table.locate(first))
    assert place is not None

    counts = []
    for _ in range(2):
        async with session.transaction():
            counts.append(await session.run(table.requeue(first, Position("{}", place.seq), notify=False)))
    await session.close()

    assert counts == [1, 0]
    assert await backend.count("Sales") == 2


async def test_the_server_is_the_same_until_it_is_started_again(backend: Backend) -> None:
    messages = InterruptedMessages(backend.database, backend.queue("Sales"), notify=True)
    session = await backend.database.connect()
    since = await messages.server_started(session)
    await session.close()
    assert since is not None

    witness = await messages.witness(since)

    assert witness is not None
    await witness.close()
    assert await messages.witness(since - timedelta(seconds=1)) is None


async def test_of_several_in_hand_when_a_process_died_none_is_counted_but_one_that_was_alone(
    backend: Backend,
) -> None:
    first, second = await two(backend)
    queue = backend.queue("Sales")

    assert await count_death(
        backend.database,
        [queue],
        [RowInHand(str(queue), first), RowInHand(str(queue), second)],
        HOW,
        notify=False,
    )
    assert await counts(backend) == {first: "0", second: "0"}
    held = [RowInHand(str(queue), first, alone=True), RowInHand(str(queue), second)]
    assert await count_death(backend.database, [queue], held, HOW, notify=False)
    assert await counts(backend) == {first: "1", second: "0"}
    assert await count_death(backend.database, [queue], held[1:], HOW, notify=False)
    assert await counts(backend) == {first: "1", second: "1"}


async def counts(backend: Backend) -> dict[str, str | None]:
    rows = await backend.rows("Sales")
    return {row.id: decode_headers(row.headers_text).get(Header.FAILED_ATTEMPTS) for row in rows}


async def test_a_message_with_too_many_interruptions_is_given_up_on_without_its_handler(
    endpoints: Endpoints,
) -> None:
    backend = endpoints.backend
    endpoint = endpoints.make("Sales")
    handled: list[str] = []

    @endpoint.handler
    async def place(message: PlaceOrder) -> None:
        handled.append(message.order_id)

    first, _ = await two(backend)
    messages = InterruptedMessages(backend.database, backend.queue("Sales"), notify=True)
    session = await backend.database.connect()
    await messages.put_back(session, first, 6, f"The process that handled the message {HOW}.")
    await session.close()

    async with endpoint:
        await eventually_empty(backend)

    assert handled == ["2"]
    (row,) = await backend.rows(ERROR)
    assert HOW in (row.headers[Header.EXCEPTION_MESSAGE] or "")
    assert row.headers[Header.EXCEPTION_TYPE] == f"rowbus.errors.{HandlingInterruptedError.__name__}"
    assert Header.FAILED_ATTEMPTS not in row.headers


async def eventually_empty(backend: Backend) -> None:
    async def is_empty() -> bool:
        return await backend.count("Sales") == 0

    await eventually(is_empty)
