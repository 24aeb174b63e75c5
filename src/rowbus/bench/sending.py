"""Sending, and the message that is measured with: one a transaction, many in one, delayed, published, moved.

Invariants: the sides by hand execute the same statements with the driver alone; the sides by hand send and receive the
very same rows; both move what is due in the order of its time.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat as again
from typing import TYPE_CHECKING, Any, Final

from rowbus.bench import statements
from rowbus.bench.figures import DRIVER, ROWBUS
from rowbus.bench.measuring import Side, repeat, until_over
from rowbus.bench.place import QUEUE
from rowbus.messages.headers import decode_headers, encode_copied_headers, encode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.message_types import command, event, serialize
from rowbus.messages.outgoing import Origin, compose
from rowbus.transport.client import Client
from rowbus.transport.composition import identity_of
from rowbus.transport.delayed.mover import open_session
from rowbus.transport.delayed.moves import DueMoves, Fallback
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.bench.measuring import Watch
    from rowbus.bench.place import Place
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress

ROW_BYTES: Final = 150  # beside headers and body: the row's head, its id, and its entries in two indexes


@command("Rowbus.Bench.PlaceOrder")
@dataclass
class PlaceOrder:
    """A command of a measurement."""

    order_id: str
    total: float


@event("Rowbus.Bench.OrderPlaced")
@dataclass
class OrderPlaced:
    """An event of a measurement."""

    order_id: str
    total: float


MESSAGE: Final = PlaceOrder("42", 9.5)
EVENT: Final = OrderPlaced("42", 9.5)
BODY: Final = serialize(MESSAGE).body


def outgoing() -> OutgoingMessage:
    """Return the message as a client composes it."""
    return compose(
        serialize(MESSAGE),
        intent="Send",
        message_id=str(uuid.uuid4()),
        now=datetime.now(UTC),
        origin=Origin(identity_of(None, None, None)),
    )


def headers_text() -> str:
    """Return its header text."""
    return encode_headers(outgoing().headers)


def headers_for(queue: QueueAddress) -> str:
    """Return its header text in a table of delayed messages, with the queue that it is for."""
    message = OutgoingMessage(decode_headers(headers_text())).bound_for(queue)
    return encode_copied_headers(message.headers)


def bytes_of_one() -> int:
    """Return about how much of the server's memory one message takes."""
    return len(headers_text()) + len(BODY) + ROW_BYTES


LATER: Final = timedelta(hours=1)
SUBSCRIBERS: Final = 10
MANY: Final = 1_000
"""The number of messages that says how fast many in one transaction are."""


def sending_sides(place: Place) -> Iterator[Side]:
    """Give what is measured of sending, each beside the driver."""
    queue, delayed = queue_table(place.queue), delayed_table(delayed_address(place))
    sends, stores = queue.send(outgoing(), notify=True), delayed.store(outgoing(), LATER, notify=True)
    single, many, store = "send, one a transaction", "send, many in one", "delayed store, one a transaction"
    yield Side(single, ROWBUS, partial(_client_sends, place, None))
    yield Side(single, DRIVER, partial(_driver_runs, place, sends, place.queue))
    yield Side(many, ROWBUS, partial(_client_sends_many, place), MANY)
    yield Side(many, DRIVER, partial(_driver_copies, place), MANY)
    yield Side(store, ROWBUS, partial(_client_sends, place, LATER))
    yield Side(store, DRIVER, partial(_driver_runs, place, stores, delayed_address(place)))
    yield Side(f"publish to {SUBSCRIBERS} subscribers", ROWBUS, partial(_client_publishes, place))


def delayed_address(place: Place) -> QueueAddress:
    """Return where messages wait that are sent with a delay to the queue."""
    return place.address(f"{QUEUE}.Delayed")


def prepare_sending(place: Place) -> None:
    """Make the table of delayed messages, and subscribers."""
    routing = subscription_routing(place.address("SubscriptionRouting"))
    topics = serialize(EVENT).types
    with place.session() as session:
        session.run_all([*delayed_table(delayed_address(place)).create(), *routing.create()])
        for queue in _subscribers(place):
            session.run_all(queue_table(queue).create())
            session.run(routing.subscribe(queue.table, topics, queue))


def _subscribers(place: Place) -> list[QueueAddress]:
    return [place.address(f"subscriber{number}") for number in range(SUBSCRIBERS)]


def _client_sends(place: Place, delay: timedelta | None, count: int, watch: Watch) -> None:
    with place.session() as session:
        session.run(statements.truncate(place.queue if delay is None else delayed_address(place)))
        client = Client(session.connection, schema=place.schema)
        repeat(lambda: client.send(QUEUE, MESSAGE, delay=delay), count, watch)


def _driver_runs(
    place: Place, statement: Statement[None], table: QueueAddress, count: int, watch: Watch
) -> None:
    with place.session() as session:
        session.run(statements.truncate(table))
        connection, text, parameters = session.connection, statement.query.text, statement.parameters
        repeat(lambda: connection.execute(text, parameters, prepare=True), count, watch)


def _client_sends_many(place: Place, count: int, watch: Watch) -> None:
    with place.session() as session:
        session.run(statements.truncate(place.queue))
        client = Client(session.connection, schema=place.schema)
        client.send_many(QUEUE, [MESSAGE])
        watch.start()
        watch.stop(client.send_many(QUEUE, until_over(again(MESSAGE, count), watch)))


def _driver_copies(place: Place, count: int, watch: Watch) -> None:
    queue, text = queue_table(place.queue), headers_text()
    with place.session() as session:
        session.run(statements.truncate(place.queue))
        connection: Any = session.connection
        rows = queue.copy_rows(again((text, BODY), count), None)
        watch.start()
        with connection.cursor().copy(queue.copy.text) as copy:
            done = 0
            for row in until_over(rows, watch):
                copy.write_row(row)
                done += 1
        watch.stop(done)


def _client_publishes(place: Place, count: int, watch: Watch) -> None:
    with place.session() as session:
        for queue in _subscribers(place):
            session.run(statements.truncate(queue))
        client = Client(session.connection, schema=place.schema)
        repeat(lambda: client.publish(EVENT), count, watch)


BATCH: Final = 100
MOST: Final = 300_000


def moving_sides(place: Place) -> Iterator[Side]:
    """Give the two sides."""
    name = f"delayed move, batches of {BATCH}"
    yield Side(name, ROWBUS, partial(_mover_moves, place), 5 * BATCH, MOST)
    yield Side(name, DRIVER, partial(_driver_moves, place), 5 * BATCH, MOST)


def _fill(place: Place, messages: int) -> None:
    table = delayed_address(place)
    with place.session() as session:
        session.run(statements.truncate(place.queue))
        session.run(statements.truncate(table))
        session.run(statements.fill_delayed(table, messages, headers_for(place.queue), BODY))
        session.run(statements.vacuum(table))


def _mover_moves(place: Place, count: int, watch: Watch) -> None:
    _fill(place, count + BATCH)
    asyncio.run(_move(place, count, watch))


async def _move(place: Place, count: int, watch: Watch) -> None:
    table = delayed_table(delayed_address(place))
    moves = DueMoves(table, Fallback(None, place.address("error"), identity_of(None, None, None)), BATCH)
    session = await open_session(place.database, table, configured=place.is_direct)
    try:
        await moves.move(session)
        watch.start()
        done = 0
        while done < count and not watch.is_over:
            done += await moves.move(session)
        watch.stop(done)
    finally:
        await session.close()


def _driver_moves(place: Place, count: int, watch: Watch) -> None:
    _fill(place, count + BATCH)
    statement = statements.move_due(delayed_address(place), place.queue, BATCH)
    text, parameters = statement.query.text, statement.parameters
    with place.session() as session:
        session.connection.execute(text, parameters, prepare=True)
        watch.start()
        done = 0
        while done < count and not watch.is_over:
            done += session.connection.execute(text, parameters, prepare=True).rowcount
        watch.stop(done)
