"""The contracts that endpoints published, read back: those of the versions that run now.

Invariant: tables of strangers, and documents that are none or too large, are passed over; nothing waits for a lock for
long.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rowbus.contracts.asyncapi import from_asyncapi
from rowbus.contracts.conflicts import diagnose_conflicts, diagnose_different_programs, find_conflicts
from rowbus.contracts.contract import PublishedContract
from rowbus.errors import ConfigurationError
from rowbus.transport.published_contracts.table import COLUMNS, contracts_table
from rowbus.transport.queues.catalog.looking import find_tables, look_at_each
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import diagnose_left_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.published_contracts.table import PublishedDocument
    from rowbus.transport.queues.diagnosis import Finding


class Publications(NamedTuple):
    """The contracts of the versions that run, or ran last, and the tables that are not read, with the reason."""

    contracts: list[PublishedContract]
    left_out: Mapping[QueueAddress, str]


def look_for_published(session: Session, addresses: Addresses) -> Publications:
    """Find what endpoints published; nothing on SQL Server. Raises StorageError.

    In transactions of its own, with the locks of a read; what this role may not read is not there.
    """
    found = find_tables(session, catalog_of(addresses), COLUMNS)
    looked = look_at_each(session, found.tables, lambda address: contracts_table(address).list())
    contracts = [one for documents in looked.answers.values() for one in _read(documents)]
    return Publications(contracts, found.left_out | looked.left_out)


def find_published(session: Session, addresses: Addresses) -> list[PublishedContract]:
    """Return the contracts of `look_for_published`."""
    return look_for_published(session, addresses).contracts


def examine_contracts(session: Session, addresses: Addresses) -> list[Finding]:
    """Find messages that another endpoint's handler refuses, and endpoints of two programs. Raises StorageError."""
    found = look_for_published(session, addresses)
    left_out = [diagnose_left_out(str(address), reason) for address, reason in found.left_out.items()]
    conflicts = diagnose_conflicts(find_conflicts(found.contracts))
    return [*left_out, *conflicts, *diagnose_different_programs(found.contracts)]


def _read(documents: Iterable[PublishedDocument]) -> Iterator[PublishedContract]:
    for endpoint, version, text, published, seen in documents:
        with suppress(ConfigurationError, msgspec.DecodeError, ValueError, TypeError, RecursionError):
            document = msgspec.json.decode(text, type=dict[str, Any])
            yield PublishedContract(endpoint, version, from_asyncapi(document), published, seen)
