"""Publishing: an event to many subscribers, in a transaction.

Invariant: the bare side writes the same rows in as few round trips as psycopg can: one pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

import rowbus
from benchmarks.measuring import Side, ratio
from benchmarks.reporting import Bench, Result, show
from benchmarks.workload import BODY, FROM_CLIENT, headers_text, run
from rowbus.database.statements import control
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.postgresql import QueueTable

SUBSCRIBERS = 50
SCHEMA = "publishing"
TOPIC = "Shop.Messages.OrderPlaced"
ROUTING = subscription_routing(rowbus.QueueAddress(SCHEMA, "SubscriptionRouting"))


@rowbus.event(TOPIC)
@dataclass
class OrderPlaced:
    """The event."""

    order_id: str
    total: float


EVENT = OrderPlaced("42", 9.5)


def create_schema(dsn: str) -> None:
    """Make the schema new, without subscribers."""
    run(
        dsn,
        control(b"drop schema if exists publishing cascade", "Failed to drop the schema"),
        control(b"create schema publishing", "Failed to create the schema"),
        *ROUTING.create(),
    )


def subscribe(dsn: str, number: int) -> None:
    """Make one more subscriber's queue, and subscribe it."""
    queue = QueueTable(rowbus.QueueAddress(SCHEMA, _queue(number)))
    run(dsn, *queue.create(), ROUTING.subscribe(queue.address.table, [TOPIC], queue.address))


def publish(bench: Bench) -> list[Result]:
    """(d2) An event to fifty subscribers, in a transaction, against an insert for each in one pipeline."""
    create_schema(bench.dsn)
    for number in range(SUBSCRIBERS):
        subscribe(bench.dsn, number)
    events = bench.messages(500)
    ours, bare = _client(bench.dsn, events), _pipeline(bench.dsn, events)
    runs = bench.meter.alternate([ours, bare], bench.rounds)
    title = f"(d2) publish to {SUBSCRIBERS} subscribers"
    show(title, runs, "event")
    return [Result(f"{title}, against {bare.name}", ratio(runs[ours.name], runs[bare.name]), 0.7)]


def _client(dsn: str, events: int) -> Side:
    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            client = rowbus.Client(connection, schema=SCHEMA)
            for _ in range(events):
                with connection.transaction():
                    client.publish(EVENT)
        return events

    return Side("Client.publish", lambda: _empty(dsn), work)


def _pipeline(dsn: str, events: int) -> Side:
    insert = sql.SQL("insert into {} (id, headers, body) select gen_random_uuid(), %s, %s")
    statements = [
        insert.format(sql.Identifier(SCHEMA, _queue(number))).as_bytes(None) for number in range(SUBSCRIBERS)
    ]
    parameters = (headers_text(FROM_CLIENT), BODY)

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.prepared_max = 2 * SUBSCRIBERS
            for _ in range(events):
                with connection.pipeline(), connection.transaction():
                    for statement in statements:
                        connection.execute(statement, parameters, prepare=True)
        return events

    return Side("an insert for each, in one pipeline", lambda: _empty(dsn), work)


def _empty(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(SUBSCRIBERS):
            connection.execute(sql.SQL("truncate {}").format(sql.Identifier(SCHEMA, _queue(number))))


def _queue(number: int) -> str:
    return f"subscriber{number}"
