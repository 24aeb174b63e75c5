"""Sending: one message at a time, and many by COPY.

Invariant: the bare sides send rows whose header texts were made beforehand; Rowbus makes its own for every message.
"""

from __future__ import annotations

import uuid

import psycopg

import rowbus
from benchmarks.measuring import Side
from benchmarks.workload import BODY, FROM_CLIENT, MESSAGE, TABLE, empty, headers_text
from rowbus.messages.message import OutgoingMessage


def client_send(dsn: str, messages: int) -> Side:
    """`Client.send`, each in a transaction of its own."""

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            client = rowbus.Client(connection)
            for _ in range(messages):
                client.send("bench", MESSAGE)
        return messages

    return Side("Client.send", lambda: empty(dsn), work)


def client_for_each_send(dsn: str, messages: int) -> Side:
    """`Client.send`, each by a new client in a transaction of its own."""

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for _ in range(messages):
                rowbus.Client(connection).send("bench", MESSAGE)
        return messages

    return Side("Client.send, a new client each", lambda: empty(dsn), work)


def bare_send(dsn: str, messages: int) -> Side:
    """The same statement by plain psycopg."""
    query = TABLE.send(OutgoingMessage({}, BODY), notify=True).query.text
    parameters = {
        "headers": headers_text(FROM_CLIENT),
        "body": BODY,
        "time_to_be_received": None,
        "notify": True,
    }

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for _ in range(messages):
                connection.execute(query, parameters, prepare=True)
        return messages

    return Side("psycopg, the same statement", lambda: empty(dsn), work)


def bare_insert(dsn: str, messages: int) -> Side:
    """A plain insert by psycopg, which wakes nobody: what NServiceBus does."""
    query = "insert into bench (id, expires, headers, body) values (gen_random_uuid(), null, %s, %s)"
    parameters = (headers_text(FROM_CLIENT), BODY)

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for _ in range(messages):
                connection.execute(query, parameters, prepare=True)
        return messages

    return Side("psycopg, plain insert", lambda: empty(dsn), work)


def client_send_many(dsn: str, messages: int) -> Side:
    """`Client.send_many`."""

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            return rowbus.Client(connection).send_many("bench", (MESSAGE for _ in range(messages)))

    return Side("Client.send_many", lambda: empty(dsn), work)


def bare_copy(dsn: str, messages: int) -> Side:
    """psycopg's COPY of rows that are ready."""
    text = headers_text(FROM_CLIENT)
    rows = [(uuid.uuid4(), None, text, BODY) for _ in range(messages)]

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            query = "copy bench (id, expires, headers, body) from stdin (format binary)"
            with connection.cursor().copy(query) as copy:
                for row in rows:
                    copy.write_row(row)
        return messages

    return Side("psycopg, COPY", lambda: empty(dsn), work)
