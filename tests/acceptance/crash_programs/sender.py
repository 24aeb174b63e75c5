"""A sender for the crash tests: sends each number once, and writes down which sends were confirmed.

Each transaction sends a few messages to Work and writes their numbers into `sent`. When its commit has returned, the
numbers are printed; when it has failed, in whichever way, they are not sent again: nobody knows whether they are there.

`sender.py COUNT SEED`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import os
import random
import sys
import time

import psycopg

import rowbus

MOST = 5  # messages in a transaction
AHEAD = 200  # messages that may wait: the sender is to be at work as long as the workers are
PAUSE = 0.002  # seconds between two looks

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
    """Wait until few enough messages wait."""
    with connection.transaction():
        while connection.execute("""select from "Work" limit %s""", (AHEAD,)).rowcount == AHEAD:
            time.sleep(PAUSE)


def send(connection: psycopg.Connection, numbers: range) -> None:
    """Send in one transaction, and say so once it has been confirmed."""
    client = rowbus.Client(connection)
    with connection.transaction():
        for number in numbers:
            connection.execute("insert into sent (number) values (%s)", (number,))
            client.send("Work", {"number": number}, type="Crash.Work")
    print(*numbers, flush=True)  # noqa: T201 - the test reads it


def main() -> None:
    """Send all numbers, each at most once."""
    connection, following = connect(), 0
    while following < count:
        try:
            keep_pace(connection)
            numbers = range(following, min(following + sizes.randint(1, MOST), count))
            following = numbers.stop
            send(connection, numbers)
        except (psycopg.Error, rowbus.StorageError):
            connection.close()
            connection = connect()


if __name__ == "__main__":
    main()
