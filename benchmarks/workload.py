"""The messages and tables that every benchmark uses.

Invariant: a message is what an endpoint sends: all standard headers, a small JSON body.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

import rowbus
from rowbus.database.postgresql.connection import Session
from rowbus.database.statements import Statement
from rowbus.messages.headers import Identity, encode_headers
from rowbus.messages.message_types import serialize
from rowbus.messages.outgoing import Origin, compose
from rowbus.transport.composition import identity_of
from rowbus.transport.queues.postgresql import QueueTable

QUEUE = rowbus.QueueAddress("public", "bench")
TABLE = QueueTable(QUEUE)
ERROR = QueueTable(rowbus.QueueAddress("public", "error"))


@rowbus.command("Shop.Messages.PlaceOrder")
@dataclass
class PlaceOrder:
    """The message of the benchmarks."""

    order_id: str
    total: float


MESSAGE = PlaceOrder("42", 9.5)


FROM_ENDPOINT = Origin(Identity("Sales", "machine", "0" * 32), '"public"."Sales"')
FROM_CLIENT = Origin(identity_of(None, None, None))


def headers_text(origin: Origin = FROM_ENDPOINT) -> str:
    """Return the header text of one message, as an endpoint or a client sends it."""
    outgoing = compose(
        serialize(MESSAGE),
        intent="Send",
        message_id=str(uuid.uuid4()),
        now=datetime.now(UTC),
        origin=origin,
    )
    return encode_headers(outgoing.headers)


BODY = serialize(MESSAGE).body


def run(dsn: str, *statements: Statement[object]) -> None:
    """Run statements in autocommit mode."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        session = Session(connection)
        for statement in statements:
            session.run(statement)


def empty(dsn: str) -> None:
    """Make the queue new and empty."""
    run(dsn, TABLE.drop(), *TABLE.create(), *ERROR.create())


def fill(dsn: str, messages: int) -> None:
    """Make the queue new, with so many messages, vacuumed and analysed."""
    empty(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        add(connection, messages)
        connection.execute("vacuum analyze bench")


def add(connection: psycopg.Connection[Any], messages: int) -> None:
    """Add so many messages to the queue."""
    connection.execute(
        "insert into bench (id, headers, body) select gen_random_uuid(), %s, %s from generate_series(1, %s)",
        (headers_text(), BODY, messages),
    )
