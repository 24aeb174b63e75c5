"""A producer for the crash tests: sends, or appends, each number once, and writes down which of that was confirmed.

Each transaction sends a few messages to Work, or appends a few events to the log "crash", and writes their numbers into
`sent`. When its commit has returned, the numbers are printed; when it has failed, in whichever way, they are not
produced again: nobody knows whether they are there.

`producer.py WHAT COUNT SEED`, where WHAT is `messages` or `events`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import psycopg

import rowbus

PAUSE = 0.005  # seconds between two looks


def send(connection: psycopg.Connection, numbers: range) -> None:
    """Send a message for each number."""
    client = rowbus.Client(connection)
    for number in numbers:
        client.send("Work", {"number": number}, type="Crash.Work")


def append(connection: psycopg.Connection, numbers: range) -> None:
    """Append an event for each number."""
    log = rowbus.Log(connection, "crash")
    if len(numbers) > 1:
        log.append_many(("numbered", str(number)) for number in numbers)
    else:
        log.append(str(numbers[0]), type="numbered")


class Kind(NamedTuple):
    """A statement that produces numbers; `most` in a transaction, and only while `enough` gives no row.

    The producer is to be at work as long as those who receive are.
    """

    produce: Callable[[psycopg.Connection, range], None]
    most: int
    enough: bytes


KINDS = {
    "messages": Kind(send, 5, b'select from "Work" offset 199 limit 1'),
    "events": Kind(append, 8, b"select from progress where behind > 300"),
}


def connect() -> psycopg.Connection:
    """Connect as soon as there is a server."""
    while True:
        try:
            return psycopg.connect(os.environ["ROWBUS_DATABASE"])
        except psycopg.OperationalError:
            time.sleep(PAUSE)


def keep_pace(connection: psycopg.Connection, enough: bytes) -> None:
    """Wait until nobody is far behind."""
    while connection.execute(enough).rowcount:
        connection.rollback()
        time.sleep(PAUSE)
    connection.rollback()


def main(kind: Kind, count: int, sizes: random.Random) -> None:
    """Produce all numbers, each at most once, and say which were confirmed."""
    connection, following = connect(), 0
    while following < count:
        try:
            keep_pace(connection, kind.enough)
            numbers = range(following, min(following + sizes.randint(1, kind.most), count))
            following = numbers.stop
            with connection.transaction():
                for number in numbers:
                    connection.execute("insert into sent (number) values (%s)", (number,))
                kind.produce(connection, numbers)
            print(*numbers, flush=True)  # noqa: T201 - the test reads it
        except (psycopg.Error, rowbus.StorageError):
            connection.close()
            connection = connect()


if __name__ == "__main__":
    main(KINDS[sys.argv[1]], int(sys.argv[2]), random.Random(sys.argv[3]))
