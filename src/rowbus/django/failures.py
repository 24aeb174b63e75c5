"""The failed messages of a project's endpoints: looked through and retried on Django's connections.

Invariant: only error queues of the project's own endpoints are touched, and a retry is part of the transaction that
Django has open.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import connections, transaction

from rowbus import RowbusError
from rowbus.django.databases import require_psycopg
from rowbus.django.discovery import endpoints
from rowbus.django.endpoint import Endpoint
from rowbus.transport.recoverability.error_queue import error_queue_on
from rowbus.transport.recoverability.failed_message import ALL, Selection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus import QueueAddress
    from rowbus.transport.recoverability.error_queue import ErrorQueue, Result
    from rowbus.transport.recoverability.failed_message import FailedMessage

MOST_SHOWN = 100


class Place(NamedTuple):
    """An error queue in a database of DATABASES."""

    using: str
    address: QueueAddress

    @property
    def key(self) -> str:
        """The name in a form."""
        return f"{self.using} {self.address}"


class Failures(NamedTuple):
    """The finding in an error queue: the oldest messages, whether there are more, and why it could not be read."""

    place: Place
    messages: list[FailedMessage]
    has_more: bool = False
    problem: str = ""


def places() -> dict[str, Place]:
    """Return the error queues of the endpoints that are in databases of DATABASES, by key."""
    found = [
        Place(endpoint.using, endpoint.error_queue)
        for endpoint in endpoints().values()
        if isinstance(endpoint, Endpoint) and endpoint.database is None
    ]
    return {place.key: place for place in found}


def look(place: Place) -> Failures:
    """Return the oldest failed messages. One that cannot be read has its problem said, and raises nothing."""
    try:
        with transaction.atomic(using=place.using):
            found = list(islice(_queue(place).find(ALL), MOST_SHOWN + 1))
    except RowbusError as error:
        return Failures(place, [], problem=str(error))
    return Failures(place, found[:MOST_SHOWN], len(found) > MOST_SHOWN)


def retry(place: Place, ids: Iterable[str]) -> Result:
    """Send messages back to where they failed, within the error queue's schema; see `rowbus errors retry`.

    In Django's transaction, if one is open, else in one of its own. Raises QueueNotFoundError, StorageError.
    """
    with transaction.atomic(using=place.using):
        return _queue(place).retry(Selection(frozenset(ids)))


def _queue(place: Place) -> ErrorQueue:
    connection: Any = require_psycopg(connections[place.using])
    connection.ensure_connection()
    return error_queue_on(connection.connection, place.address)
