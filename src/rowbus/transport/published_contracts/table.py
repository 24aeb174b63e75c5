"""The contracts that endpoints published: the operations on their table, on every database.

A row is of one endpoint and one version of its contract. Processes of that version note that they were seen, so that of
an endpoint that is being replaced both versions are there.

Invariants: nothing here names a database; documents are texts, which only their readers understand.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.settings import EndpointSettings

CONTRACTS: Final = "Rowbus.Contracts"
"""The name of the table, in the schema of names that are given without one."""

KEPT: Final = timedelta(days=30)
"""The time for which a version is kept after its last process was seen."""

SEEN_EVERY: Final = timedelta(hours=1)
"""The time between two notes of a process; one that starts leaves a note unless another was left half as long ago."""

BESIDE: Final = 2 * SEEN_EVERY
"""The longest time between the last signs of two versions of an endpoint that count as running side by side."""

LARGEST: Final = 4 * 2**20
"""Bytes of a document that is read; some thousand types have as many."""

MOST_READ: Final = 64 * 2**20
"""Bytes of all documents of a table that are read: who may write to it chooses how many there are."""

COLUMNS: Final = {
    "endpoint": "pg_catalog.text",
    "version": "pg_catalog.text",
    "document": "pg_catalog.text",
    "published": "pg_catalog.timestamptz",
    "seen": "pg_catalog.timestamptz",
}
"""By which such a table is found, on PostgreSQL."""


class PublishedDocument(NamedTuple):
    """A version of an endpoint's contract as the table has it; times are aware, by the database's clock."""

    endpoint: str
    version: str
    document: str
    published: datetime
    seen: datetime


class PublishedContractsTable(RecordStatements):
    """Statements on one table of published contracts; each runs in its runner's transaction."""

    folder = "transport/published_contracts"
    variable = "contracts"
    privileges = ("select", "insert", "update", "delete")
    remedy = (
        "the table does not exist; the first endpoint that starts creates it, if its role may, and `rowbus schema "
        "grants MODULE:ENDPOINT --role ROLE` prints it."
    )

    def publish(self, endpoint: str, version: str, document: str) -> Statement[int]:
        """Note that a process of this version is there; forget versions of which none was seen for `KEPT`.

        Waits for others that note the same at the same moment.
        """
        raise NotImplementedError

    def list(self) -> Statement[list[PublishedDocument]]:
        """Return the versions that run, as far as is known: of each endpoint the latest, and those seen beside it.

        Those of an endpoint are together, the latest seen first. Documents above `LARGEST` are left out, and the last
        ones, if all together are above `MOST_READ`.
        """
        raise NotImplementedError


def publishes(settings: EndpointSettings, addresses: Addresses) -> bool:
    """Say whether an endpoint with these settings publishes its contract in this database."""
    return settings.publish_contract and addresses.backend == "postgresql"


def contracts_address(addresses: Addresses) -> QueueAddress:
    """Return the table of published contracts of a database."""
    return addresses.for_endpoint(CONTRACTS)


def contracts_table(address: QueueAddress) -> PublishedContractsTable:
    """Return the statements on a table of published contracts. No I/O."""
    table: PublishedContractsTable = bound_table(
        "rowbus.transport.published_contracts", "PublishedContractsTable", address
    )
    return table
