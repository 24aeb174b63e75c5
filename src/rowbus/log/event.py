"""Events of a log, and the ticks and batches that divide it.

Invariant: an event's fields are in the order of the columns of `pgq.get_batch_events`, so that a row becomes an event
as it is. Source: docs/wire-format.md#log-tables and docs/wire-format.md#batches.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import NamedTuple


class Event(NamedTuple):
    """One event of a log, as a consumer is given it."""

    id: int
    """Its number in the log. Numbers are given when events are written, not when they commit."""

    time: datetime
    """When it was written: the start of the writing transaction."""

    txid: int
    """The transaction that wrote it; of an event that was retried, the one that put it back."""

    retry: int | None
    """How many times this consumer has retried it; None at the first delivery."""

    type: str | None
    data: str | None
    extra1: str | None = None
    extra2: str | None = None
    extra3: str | None = None
    extra4: str | None = None

    def json(self) -> object:
        """Return the data, read as JSON (None for NULL). Raises ValueError."""
        return None if self.data is None else json.loads(self.data)


class Tick(NamedTuple):
    """A point in a log: everything committed before it is behind it."""

    id: int
    time: datetime
    event_seq: int
    """The event sequence when it was made: a hint of how many events lie between two ticks, no more."""


class Batch(NamedTuple):
    """The events between two ticks, held by one consumer."""

    id: int
    from_tick: int
    """The consumer's last tick: its events are not in the batch."""

    to_tick: int
    from_time: datetime
    to_time: datetime


class DeadEvent(NamedTuple):
    """An event that a consumer has given up on."""

    id: int
    """The dead letter's number, not the event's."""

    time: datetime
    """When it was given up on."""

    reason: str
    event: Event
