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
PAUSE = 0.01  # seconds between attempts to connect

count, seed = map(int, sys.argv[1:])
sizes = random.Random(seed)


def connect() -> psycopg.Connection:
    """Connect as soon as there is a server."""
    while True:
        try:
            return psycopg.connect(os.environ["ROWBUS_DATABASE"])
        except psycopg.OperationalError:
            time.sleep(PAUSE)


def send(connection: psycopg.Connection, numbers: range) -> None:
    """Send in one transaction, and say so once it has been confirmed."""
    client = rowbus.Client(connection)
    with connection.transaction():
        for number in numbers:
            connection.execute("insert into sent (number) values (%s)", (number,))
            client.send("Work", {"number": number}, type="Crash.Work")
    print(*numbers, flush=True)


def main() -> None:
    """Send all numbers, each at most once."""
    connection, following = connect(), 0
    while following < count:
        numbers = range(following, min(following + sizes.randint(1, MOST), count))
        following = numbers.stop
        try:
            send(connection, numbers)
        except (psycopg.Error, rowbus.StorageError):
            connection.close()
            connection = connect()


if __name__ == "__main__":
    main()
