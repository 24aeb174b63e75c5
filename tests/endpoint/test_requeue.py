"""An interrupted message is put back at the end of its queue, on every database, by one of those who try."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowbus.errors import HandlingInterruptedError
from rowbus.messages.headers import Header, decode_headers
from rowbus.running.in_hand import RowInHand
from rowbus.transport.queues.table import Place, queue_table
from rowbus.transport.receiving.interrupted_messages import InterruptedMessages, count_death
from tests.conformance.backend import Backend
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import eventually

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


async def test_who_knows_an_old_place_puts_nothing_back(backend: Backend) -> None:
    first, _ = await two(backend)
    table = queue_table(backend.queue("Sales"))
    session = await backend.database.connect()
    place = await session.run(table.locate(first))
    assert place is not None

    counts = []
    for _ in range(2):
        async with session.transaction():
            counts.append(await session.run(table.requeue(first, Place("{}", place.seq), notify=False)))
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
