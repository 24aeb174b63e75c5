"""The catalogue: the queues of a catalog, how deep they are, what they occupy, and the server they are on.

Invariant: everything here reads, keeping no lock, but for `create_schema` and the grants, which say so.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import instant, lines, load, truth
from rowbus.database.statements import Statement, no_rows, scalar
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.transport.queues.diagnosis import SnapshotHolder, Storage
from rowbus.transport.queues.shape import QueueColumn, Sequence
from rowbus.transport.queues.sqlserver_diagnosis import SqlServerFacts
from rowbus.transport.queues.sqlserver_shape import LAST_POSITION, SqlServerQueueShape, type_name
from rowbus.transport.queues.traffic import QueueState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from rowbus.database.statements import Query, Row, Rows, Steps
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.sqlserver_address import SqlServerAddresses
    from rowbus.transport.queues.diagnosis import Server
    from rowbus.transport.queues.shape import QueueShape

_PLACE = itemgetter(0, 1)


class Catalog:
    """Statements on one catalog of a server: the one that the session is in."""

    def __init__(self, addresses: SqlServerAddresses) -> None:
        """Say how tables of the catalog are addressed. No I/O."""
        self._catalog = addresses.catalog

    def find_queues(self, named: Iterable[QueueAddress] = ()) -> Statement[list[QueueShape]]:
        """Describe every table that is a queue or nearly one, and all those named that exist."""
        query = _load("find_queues", "Failed to look for queues")
        wanted = list(named)
        return Statement(query, {"names": self._names(wanted)}, partial(self._shapes, named=wanted))

    def find_delayed(self, schema: str | None = None) -> Statement[list[QueueAddress]]:
        """Find all tables of delayed messages, or those of one schema."""
        query = _load("find_delayed", "Failed to look for delayed messages")
        return Statement(query, {"schema_name": schema}, self._addresses)

    def find_satellites(self, _queue: QueueAddress) -> None:
        """Return None: nobody has asked for it."""

    def find_subscriptions(self) -> Statement[list[QueueAddress]]:
        """Find all tables of subscriptions."""
        return Statement(_load("find_subscriptions", "Failed to look for subscriptions"), {}, self._addresses)

    def owners(self, _addresses: Iterable[QueueAddress]) -> None:
        """Return None: reading a table runs no code of its owner."""

    def receivers(self, _addresses: Iterable[QueueAddress]) -> None:
        """Return None: receivers hold no lock that others could see."""

    def begin_look(self) -> None:
        """Return None."""

    def positions(self, _shapes: Iterable[QueueShape]) -> None:
        """Return None: `find_queues` says where their sequences stand."""

    def queue_state(self, address: QueueAddress, most: int) -> Statement[QueueState]:
        """Count the messages of a queue not in flight, up to `most`; show the oldest's headers."""
        query = _load("queue_state", f"Failed to count the messages of {address}", **_identifiers(address))
        return Statement(query._replace(queue=str(address)), {"most": most}, _state)

    def count_acknowledgements(self, address: QueueAddress, most: int) -> Statement[int]:
        """Count the messages of an error queue that are acknowledgements for ServiceControl, of up to `most`."""
        query = _load(
            "count_acknowledgements", f"Failed to count the messages of {address}", **_identifiers(address)
        )
        return Statement(query._replace(queue=str(address)), {"most": most}, scalar)

    def count_undispatched(self, address: QueueAddress, most: int) -> Statement[int]:
        """Count what an outbox of .NET's holds that is not sent yet, up to `most`."""
        names = {**_identifiers(address), "outbox": address.table}
        query = _load("count_undispatched", f"Failed to count what {address} holds", **names)
        return Statement(query._replace(queue=str(address)), {"most": most}, scalar)

    def queue_storage(self, addresses: Iterable[QueueAddress]) -> Statement[list[Storage]]:
        """Say what queues occupy, from the server's statistics; missing ones are left out."""
        query = _load("queue_storage", "Failed to read the statistics of queues")
        return Statement(query, {"names": self._names(addresses)}, self._storages)

    def server(self) -> Statement[Server]:
        """Gather the facts about the server."""
        return Statement(_load("server", "Failed to ask the server about itself"), {}, _server)

    def clock(self) -> Statement[datetime]:
        """Ask what time it is by the server's clock; aware."""
        return Statement(_load("clock", "Failed to ask the server for the time"), {}, _instant)

    def snapshot_holders(self) -> Statement[list[SnapshotHolder]]:
        """Find the sessions that have a transaction open and do nothing, the longest idle first."""
        query = _load("snapshot_holders", "Failed to look for open transactions")
        return Statement(query, {}, _holders)

    def find_tables(self, columns: Mapping[str, str]) -> None:
        """Find nothing: tables of sagas and schedules are looked for on PostgreSQL."""

    def ended_loops(self) -> None:
        """Find nothing: sessions there do not say it."""

    def full_disks(self) -> None:
        """Find nothing: sessions there do not say it."""

    def schema_exists(self, schema: str) -> Statement[bool]:
        """Say whether a schema exists."""
        query = _load("schema_exists", f"Failed to look for the schema {schema}")
        return Statement(query, {"schema": schema}, truth)

    def create_schema(self, schema: str) -> Statement[None]:
        """Create a schema if it is missing. Another creator at the same time may make this fail; see `installer`."""
        query = _load("create_schema", f"Failed to create the schema {schema}")
        return Statement(query, {"schema": schema}, no_rows)

    def refuse_foreign(self, schema: str) -> Steps[None]:  # noqa: ARG002 - as the protocol has it
        """Refuse nothing: here a schema's owner owns what is in it, and a trigger runs for who may alter its table."""
        yield from ()

    def grant_receive(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role receive from, peek and purge a queue, and nothing else."""
        return _grant("grant_receive", address, role)

    def grant_send(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role send to a queue, and nothing else."""
        return _grant("grant_send", address, role)

    def grant_view(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role count, look at and judge the messages of a queue, and change nothing."""
        return _grant("grant_view", address, role)

    def grant_monitor(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role measure how long a queue is, and nothing else."""
        return _grant("grant_view", address, role)

    def grant_view_table(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role look at a table of an endpoint that is no queue, and change nothing."""
        return _grant("grant_view", address, role)

    def _address(self, schema: str, table: str) -> SqlServerAddress:
        return SqlServerAddress(schema, table, self._catalog)

    def _names(self, addresses: Iterable[QueueAddress]) -> str:
        """Name the tables that are in this catalog; those in others have ids that mean something else here."""
        return lines(
            address.qualified
            for address in addresses
            if isinstance(address, SqlServerAddress) and address.catalog in {"", self._catalog}
        )

    def _addresses(self, rows: Rows, _count: int) -> list[QueueAddress]:
        return [self._address(schema, table) for schema, table in rows]

    def _shapes(self, rows: Rows, _count: int, *, named: Iterable[QueueAddress]) -> list[QueueShape]:
        """Describe the queues; one that was asked for has the name it was asked for by, however it is listed."""
        listed = {_PLACE(row) for row in rows}
        asked = {
            (one.schema, one.table.lower()): one.table
            for one in named
            if (one.schema, one.table) not in listed
        }
        return [self._shape(list(columns), asked) for _, columns in groupby(rows, _PLACE)]

    def _shape(self, rows: list[Row], asked: Mapping[tuple[str, str], str]) -> QueueShape:
        schema, table, *_, position, readable = rows[0]
        return SqlServerQueueShape(
            self._address(schema, asked.get((schema, table), table)),
            tuple(_column(row) for row in rows),
            (),
            None if position is None else Sequence("RowVersion", int(position), LAST_POSITION),
            readable=bool(readable),
        )

    def _storages(self, rows: Rows, _count: int) -> list[Storage]:
        return [
            Storage(self._address(schema, table), live, 0, size, autovacuum=True, last_vacuum=None)
            for schema, table, live, size in rows
        ]


def guard(_addresses: tuple[QueueAddress, ...]) -> None:
    """Return None: reading a table runs no code of its owner."""


def _load(operation: str, failing: str, **identifiers: str) -> Query:
    path = f"transport/queues/catalog/sql/sqlserver/{operation}.sql"
    return load(path, identifiers=identifiers, failing=failing, prepare=False)


def _identifiers(address: QueueAddress) -> dict[str, str]:
    catalog = address.catalog if isinstance(address, SqlServerAddress) else ""
    return {"catalog": catalog, "schema": address.schema, "queue": address.table}


def _grant(operation: str, address: QueueAddress, role: str) -> Statement[None]:
    names = {**_identifiers(address), "role": role}
    query = _load(operation, f"Failed to grant privileges on {address} to {role}", **names)
    return Statement(query._replace(queue=str(address)), {}, no_rows)


def _column(row: Row) -> QueueColumn:
    _, _, _, name, type_, length, nullable, filled, *_ = row
    return QueueColumn(name, type_name(type_, length), nullable=bool(nullable), filled=bool(filled))


def _state(rows: Rows, _count: int) -> QueueState:
    depth, headers, at = rows[0]
    return QueueState(depth, None, headers, instant(at))


def _server(rows: Rows, _count: int) -> Server:
    version, catalog, login, compatibility, read_only, versions, durability = rows[0]
    return SqlServerFacts(
        version, catalog, login, int(compatibility), bool(read_only), bool(versions), int(durability)
    )


def _instant(rows: Rows, _count: int) -> datetime:
    return instant(rows[0][0])


def _holders(rows: Rows, _count: int) -> list[SnapshotHolder]:
    return [
        SnapshotHolder("session", program or "", pid, login, status, timedelta(milliseconds=int(idle)), 0)
        for program, pid, login, status, idle in rows
    ]


catalog = Catalog
