"""A producer: sends, publishes and appends, each number once, and journals what it knows about each.

A line is written before a transaction, and one after it: a number without the second is one whose outcome nobody knows.
It is never sent again.

`producer.py NUMBER COUNT RATE` is producer NUMBER of COUNT, with RATE transactions a second. The database is in
ROWBUS_DATABASE, CHAOS_KINDS may be what it sends.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from datetime import timedelta
from itertools import cycle
from typing import Any

import psycopg

import rowbus
from tests.chaos.history import key_of

MIX = "command event delayed event published command event retried process"
KINDS = os.environ.get("CHAOS_KINDS", MIX).split()
PLAIN = {"command": ("Work", "Chaos.Command"), "long": ("Long", "Chaos.Long")}
"""Where messages of some kinds go that have nothing but a number, and their type."""
LOGS = {"event": "chaos", "driven": "chaos", "keyed-event": "keys"}
NOW = "select clock_timestamp()"
PLACE = "select nextval('place')"
"""Who has sent a key and not committed keeps others from sending it: so places are in the order of commits."""
POOLED = os.environ.get("CHAOS_POOLED") == "1"
CLOSED_BY_SERVER = ("57P", "08", "25P03")
RECONNECT = 0.05
LONGEST_BURST = 0.5  # seconds of sends that are made good after a time without any


def connect() -> psycopg.Connection[Any]:
    """Connect as soon as it is possible."""
    while True:
        with suppress(psycopg.Error):
            return psycopg.connect(
                os.environ["ROWBUS_DATABASE"],
                connect_timeout=5,
                prepare_threshold=None if POOLED else 5,
                application_name="chaos producer",
            )
        time.sleep(RECONNECT)


def send(connection: psycopg.Connection[Any], kind: str, number: int) -> dict[str, float]:
    """Do what a kind stands for in the open transaction; return when its work can begin, and its place."""
    now = connection.execute(NOW).fetchone()
    assert now is not None
    moment, message = now[0], {"number": number}
    client = rowbus.Client(connection, reply_to="Follow", delay_through="Later", notify=not POOLED)
    if kind in LOGS:
        rowbus.Log(connection, LOGS[kind]).append(message, type="happened", extra1=str(key_of(number)))
    elif kind == "published":
        client.publish(message, type="Chaos.Published")
    elif kind == "keyed":
        client.send("Lanes", message, type="Chaos.Keyed", key=f"key-{key_of(number)}")
        found = connection.execute(PLACE).fetchone()
        assert found is not None
        return {"ready": moment.timestamp(), "place": found[0]}
    elif kind in PLAIN:
        queue, message_type = PLAIN[kind]
        client.send(queue, message, type=message_type)
    elif kind == "process":
        for step in random.sample(("First", "Second"), 2):
            client.send("Work", message, type=f"Chaos.{step}Step")
    elif kind == "retried":
        client.send("Work", message, type="Chaos.Retried")
        moment += timedelta(seconds=1)  # of the delayed retry
    else:
        delay = timedelta(seconds=random.uniform(0.2, 1.5))
        moment += delay
        client.send("Work", message | {"due": moment.isoformat()}, type="Chaos.Delayed", delay=delay)
    return {"ready": moment.timestamp()}


def journal(**facts: object) -> None:
    """Write a line that a kill cannot take back."""
    os.write(1, json.dumps(facts).encode() + b"\n")


def attempt(connection: psycopg.Connection[Any], kind: str, number: int) -> bool:
    """Send one number in one transaction and journal what is known; say whether the connection is still good."""
    outcome, facts = "failed", {"ready": time.time()}
    journal(number=number, kind=kind, outcome="unknown", **facts)
    try:
        facts = send(connection, kind, number)
        outcome = "unknown"
        connection.commit()
        outcome = "committed"
    except (psycopg.Error, rowbus.RowbusError) as error:
        if outcome == "unknown" and not connection.closed and not _ends_session(error):
            outcome = "failed"  # the server said no
        print(f"{number}: {outcome}: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the run's log
    journal(number=number, kind=kind, outcome=outcome, **facts)
    return outcome == "committed" or _is_reset(connection)


def _ends_session(error: Exception) -> bool:
    state = getattr(error, "sqlstate", None) or "08"
    return str(state).startswith(CLOSED_BY_SERVER)


def _is_reset(connection: psycopg.Connection[Any]) -> bool:
    with suppress(psycopg.Error):
        connection.rollback()
        return not connection.closed
    return False


def main(own: int, count: int, rate: float) -> None:
    """Produce until SIGTERM, which finishes the transaction in hand."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    connection, kinds, number = connect(), cycle(KINDS), own
    due = time.monotonic()
    while not told:
        if not attempt(connection, next(kinds), number):
            connection.close()
            connection = connect()
        number += count
        due = max(due + random.uniform(0, 2 / rate), time.monotonic() - LONGEST_BURST)
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
