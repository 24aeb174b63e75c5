"""Sending: one message a transaction, many in one, delayed, and published.

Invariant: the sides by hand execute the same statements with the driver alone.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from itertools import repeat as again
from typing import TYPE_CHECKING, Any, Final

from rowbus.bench import statements
from rowbus.bench.figures import DRIVER, ROWBUS
from rowbus.bench.measuring import Side, repeat, until_over
from rowbus.bench.messages import BODY, EVENT, MESSAGE, headers_text, outgoing
from rowbus.bench.place import QUEUE
from rowbus.messages.message_types import serialize
from rowbus.transport.client import Client
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.bench.measuring import Watch
    from rowbus.bench.place import Place
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress

LATER: Final = timedelta(hours=1)
SUBSCRIBERS: Final = 10
MANY: Final = 1_000
"""How many messages say how fast many in one transaction are."""


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
