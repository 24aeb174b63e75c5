"""A producer for the log's crash tests: appends each number once, and writes down which appends were confirmed.

Each transaction appends a few events and writes their numbers into `sent`. When its commit has returned the numbers
are printed; when it has failed, in whichever way, they are not appended again: nobody knows whether they are there.

`producer.py COUNT SEED`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import os
import random
import sys
import time

import psycopg

import rowbus

MOST = 8  # events in a transaction
AHEAD = (
    300  # events that the slowest consumer may be behind: the producer is to be at work as long as they are
)
PAUSE = 0.005  # seconds between two looks

count, seed = map(int, sys.argv[1:])
sizes = random.Random(seed)


def connect() -> psycopg.Connection:
    """Connect as soon as there is a server."""
    while True:
        try:
            return psycopg.connect(os.environ["ROWBUS_DATABASE"])
        except psycopg.OperationalError:
            time.sleep(PAUSE)


def keep_pace(connection: psycopg.Connection) -> None:
    """Wait until no consumer is far behind."""
    while connection.execute("select behind from progress where behind > %s", (AHEAD,)).rowcount:
        connection.rollback()
        time.sleep(PAUSE)
    connection.rollback()


def append(connection: psycopg.Connection, numbers: range) -> None:
    """Append in one transaction, and say so once it has been confirmed."""
    log = rowbus.Log(connection, "crash")
    with connection.transaction():
        for number in numbers:
            connection.execute("insert into sent (number) values (%s)", (number,))
        if len(numbers) > 1:
            log.append_many(("numbered", str(number)) for number in numbers)
        else:
            log.append(str(numbers[0]), type="numbered")
    print(*numbers, flush=True)  # noqa: T201 - the test reads it


def main() -> None:
    """Append all numbers, each at most once."""
    connection, following = connect(), 0
    while following < count:
        try:
            keep_pace(connection)
            numbers = range(following, min(following + sizes.randint(1, MOST), count))
            following = numbers.stop
            append(connection, numbers)
        except (psycopg.Error, rowbus.StorageError):
            connection.close()
            connection = connect()


if __name__ == "__main__":
    main()
