"""Messages that faults send themselves, beside the producers, each under a number of its own.

Invariant: a send is noted when its transaction has committed; one that fails breaks the run.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

import rowbus
from tests.chaos.history import Outcome, Send

if TYPE_CHECKING:
    from tests.chaos.system import System

FIRST = 1_000_000_000
"""No producer comes that far."""


class Letters:
    """The sends of one transaction."""

    def __init__(self, connection: psycopg.Connection[Any], numbers: Iterator[int]) -> None:
        self.kinds: dict[int, str] = {}
        self._client = rowbus.Client(connection, reply_to="Follow")
        self._log = rowbus.Log(connection, "chaos")
        self._numbers = numbers

    def send(self, kind: str, message_type: str, **body: object) -> None:
        """Send a message to Work."""
        self._client.send("Work", self._numbered(kind) | body, type=message_type)

    def publish(self, **body: object) -> None:
        """Publish to both endpoints."""
        self._client.publish(self._numbered("published") | body, type="Chaos.Published")

    def append(self, kind: str, **body: object) -> None:
        """Append an event."""
        self._log.append(self._numbered(kind) | body, type="happened")

    def _numbered(self, kind: str) -> dict[str, object]:
        number = next(self._numbers)
        self.kinds[number] = kind
        return {"number": number}


class Post:
    """Opens transactions in which a fault sends, and keeps a journal of what they sent."""

    def __init__(self, system: System) -> None:
        self.sends: list[Send] = []
        self._system = system
        self._numbers = itertools.count(FIRST)

    @contextmanager
    def letters(self, fault: str) -> Iterator[Letters]:
        """Open a transaction, and commit what was sent in it."""
        with self._system.connect() as connection:
            with connection.transaction():
                letters = Letters(connection, self._numbers)
                yield letters
            ready = time.time()
        for number, kind in letters.kinds.items():
            self.sends.append(Send(number, kind, Outcome.COMMITTED, ready, fault=fault))
