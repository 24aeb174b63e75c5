"""The contracts that endpoints published, read back: those of the versions that run now.

Invariant: tables of strangers, and documents that are none, are passed over; nothing waits for a lock for long.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rowbus.contracts.asyncapi import from_asyncapi
from rowbus.contracts.conflicts import diagnose_conflicts, find_conflicts
from rowbus.contracts.contract import PublishedContract
from rowbus.errors import ConfigurationError, QueueNotFoundError
from rowbus.transport.published_contracts.table import COLUMNS, SEEN_EVERY, contracts_table
from rowbus.transport.queues.catalog.looking import NotLookedAtError, find_tables, look
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses
    from rowbus.transport.published_contracts.table import PublishedDocument
    from rowbus.transport.queues.diagnosis import Finding

BESIDE: Final = 2 * SEEN_EVERY
"""The longest time between the last signs of two versions of an endpoint that count as running side by side."""


def find_published(session: Session, addresses: Addresses) -> list[PublishedContract]:
    """Return the contracts of the versions that run, or ran last; none on SQL Server. Raises StorageError.

    In transactions of their own, with the locks of a read; what this role may not read is not there.
    """
    found = list[PublishedContract]()
    for address in find_tables(session, catalog_of(addresses), COLUMNS).tables:
        with suppress(NotLookedAtError, QueueNotFoundError):
            found += _read(current(look(session, address, contracts_table(address).list())))
    return found


def examine_contracts(session: Session, addresses: Addresses) -> list[Finding]:
    """Say which endpoints send what handlers of others refuse, as the doctor does. Raises StorageError."""
    return diagnose_conflicts(find_conflicts(find_published(session, addresses)))


def current(documents: Sequence[PublishedDocument]) -> list[PublishedDocument]:
    """Return the versions of each endpoint that run, as far as is known: the latest, and those seen beside it."""
    latest: dict[str, datetime] = {}
    for one in documents:
        latest[one.endpoint] = max(one.seen, latest.get(one.endpoint, one.seen))
    return [one for one in documents if latest[one.endpoint] - one.seen <= BESIDE]


def _read(documents: Iterable[PublishedDocument]) -> Iterator[PublishedContract]:
    for endpoint, version, text, published, seen in documents:
        with suppress(ConfigurationError, msgspec.DecodeError, ValueError, TypeError, RecursionError):
            document = msgspec.json.decode(text, type=dict[str, Any])
            yield PublishedContract(endpoint, version, from_asyncapi(document), published, seen)
