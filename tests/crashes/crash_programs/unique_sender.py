"""A sender for the crash tests of unique messages: changes the number of its key, and has a worker look at it.

`unique_sender.py KEY`, with the database in ROWBUS_DATABASE. It goes on until it is killed; some transactions are
rolled back, and after some it waits until a worker has seen the number.
"""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import timedelta
from typing import Any

import psycopg

import rowbus

PAUSE = 0.002  # seconds between two looks
SEEN = """
select coalesce((select max(seen.number) from seen where seen.key = numbers.key), 0) >= numbers.number
from numbers
where key = %s
"""


def send(connection: psycopg.Connection, key: str, chance: random.Random) -> None:
    """Change the number in a transaction, and have it looked at."""
    options: dict[str, Any] = {"on_conflict": chance.choice(["keep", "replace"])}
    if chance.random() < 0.5:
        options["delay"] = timedelta(milliseconds=chance.randrange(20))
    with connection.transaction():
        connection.execute("update numbers set number = number + 1 where key = %s", (key,))
        rowbus.Client(connection).send(
            "Work", {"key": key}, type="Unique.Look", unique=key, while_waiting=True, **options
        )
        if chance.random() < 0.2:
            raise psycopg.Rollback


if __name__ == "__main__":
    own, given = sys.argv[1], random.Random()
    with psycopg.connect(os.environ["ROWBUS_DATABASE"], autocommit=True) as opened:
        while True:
            send(opened, own, given)
            is_patient = given.random() < 0.5
            while is_patient and opened.execute(SEEN, (own,)).fetchone() == (False,):
                time.sleep(PAUSE)
