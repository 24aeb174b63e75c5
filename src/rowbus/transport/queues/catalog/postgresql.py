"""The catalogue: the queues of a database, how deep they are, what they occupy, and the server they are on.

Invariant: everything here reads, but for `create_schema` and the grants, which say so. What waits for a lock says so.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rowbus.database.locks import FULL_DISK_LOCK, receiver_lock
from rowbus.database.statements import Statement, load, load_repeating, no_rows, scalar
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.catalog.table import Guard
from rowbus.transport.queues.diagnosis import EndedLoops, FullDisk, ServerFacts, SnapshotHolder, Storage
from rowbus.transport.queues.owners import find_owners, refuse_foreign_schema
from rowbus.transport.queues.shape import Key, QueueColumn, QueueShape, Sequence
from rowbus.transport.queues.traffic import QueueState, Receivers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from rowbus.database.statements import Query, Row, Rows, Steps
    from rowbus.messages.address import Addresses
    from rowbus.transport.queues.catalog.ownership import Ownership
    from rowbus.transport.queues.catalog.table import Catalog

_FOLDER = "transport/queues/catalog/sql/postgresql"


def catalog(_addresses: Addresses) -> Catalog:
    """Return this module: PostgreSQL's catalogue needs to know nothing of how names become addresses."""
    module: Any = sys.modules[__name__]
    found: Catalog = module
    return found


def find_queues(named: Iterable[QueueAddress] = ()) -> Statement[list[QueueShape]]:
    """Describe every table that is a queue or nearly one, and all those named that exist."""
    return Statement(_load("find_queues", "Failed to look for queues"), _names(named), _shapes)


def find_delayed(schema: str | None = None) -> Statement[list[QueueAddress]]:
    """Find all tables of delayed messages, or those of one schema."""
    query = _load("find_delayed", "Failed to look for delayed messages")
    return Statement(query, {"schema_name": schema}, _addresses)


def find_tables(columns: Mapping[str, str]) -> Statement[list[QueueAddress]]:
    """Find the tables that have these columns, of these types, and no other."""
    parameters = {"column_names": list(columns), "column_types": list(columns.values())}
    return Statement(_load("find_tables", "Failed to look for tables"), parameters, _addresses)


def find_satellites(queue: QueueAddress) -> Statement[list[QueueAddress]]:
    """Find an endpoint's queue and the tables that are called after it."""
    query = _load("find_satellites", "Failed to look for the tables of an endpoint")
    return Statement(query, {"schema_name": queue.schema, "endpoint": queue.table}, _addresses)


def find_subscriptions() -> Statement[list[QueueAddress]]:
    """Find all tables of subscriptions."""
    return Statement(_load("find_subscriptions", "Failed to look for subscriptions"), {}, _addresses)


def receivers(addresses: Iterable[QueueAddress]) -> Statement[list[Receivers]]:
    """Find who receives from queues: processes that listen, by the lock that they share."""
    queues = {str(address): address for address in addresses}
    query = _load("receivers", "Failed to look for endpoints")
    parameters = {"queues": list(queues), "lock_names": [receiver_lock(name) for name in queues]}

    def decode(rows: Rows, _count: int) -> list[Receivers]:
        return [Receivers(queues[name], *found) for name, *found in rows]

    return Statement(query, parameters, decode)


def full_disks() -> Statement[list[FullDisk]]:
    """Find the processes that the server refuses to write for want of room, by the lock that they share."""
    query = _load("receivers", "Failed to look for processes that meet a full disk")
    return Statement(query, {"queues": [""], "lock_names": [FULL_DISK_LOCK]}, _full_disks)


def owners(addresses: Iterable[QueueAddress]) -> Statement[Mapping[QueueAddress, Ownership]]:
    """Say whose tables these are; missing ones are left out. Reads nothing of theirs, and waits for nobody."""
    return find_owners(addresses)


def guard(addresses: tuple[QueueAddress, ...]) -> Guard:
    """Return what is to be run, in a transaction, before tables that were found are read."""
    return Guard((begin_look(), _lock(addresses)), find_owners(addresses))


def _lock(addresses: tuple[QueueAddress, ...]) -> Statement[None]:
    named = [{"schema": each.schema, "queue": each.table} for each in addresses]
    first, *others = addresses
    failing = f"Failed to look into {first}" + (f" and {len(others)} other tables" if others else "")
    lock = load_repeating(f"{_FOLDER}/lock_for_look.sql", named, failing=failing)
    return Statement(lock if others else lock._replace(queue=str(first)), {}, no_rows)


def begin_look() -> Statement[None]:
    """Have the transaction that this is run in wait for no lock for long, and run nothing of a table's owner."""
    return Statement(_load("begin_look", "Failed to begin a look")._replace(prepare=True), {}, no_rows)


def positions(shapes: Iterable[QueueShape]) -> Statement[Mapping[QueueAddress, int | None]]:
    """Say where the sequences of queues stand. Waits for who alters one: to be run after `begin_look`."""
    counted = {(one.address.schema, one.sequence.name): one.address for one in shapes if one.sequence}
    query = _load("sequence_positions", "Failed to read the sequences of queues")
    parameters = {"schemas": [place for place, _ in counted], "sequences": [name for _, name in counted]}

    def decode(rows: Rows, _count: int) -> dict[QueueAddress, int | None]:
        return {counted[place, name]: position for place, name, position in rows}

    return Statement(query, parameters, decode)


def queue_state(address: QueueAddress, most: int) -> Statement[QueueState]:
    """Count the messages of a queue, up to `most`, and those of them in flight; show the oldest's headers."""
    names = {"schema": address.schema, "queue": address.table}
    query = _load("queue_state", f"Failed to count the messages of {address}", names, queue=str(address))
    return Statement(query, {"most": most}, _state)


def count_acknowledgements(address: QueueAddress, most: int) -> Statement[int]:
    """Count the messages of an error queue that are acknowledgements for ServiceControl, of up to `most`."""
    names = {"schema": address.schema, "queue": address.table}
    query = _load(
        "count_acknowledgements", f"Failed to count the messages of {address}", names, queue=str(address)
    )
    return Statement(query, {"most": most}, scalar)


def count_undispatched(address: QueueAddress, most: int) -> Statement[int]:
    """Count what an outbox of .NET's holds that is not sent yet, up to `most`."""
    names = {"schema": address.schema, "outbox": address.table}
    query = _load("count_undispatched", f"Failed to count what {address} holds", names, queue=str(address))
    return Statement(query, {"most": most}, scalar)


def queue_storage(addresses: Iterable[QueueAddress]) -> Statement[list[Storage]]:
    """Say what queues occupy, from the server's statistics; missing ones are left out. Waits as `positions`."""
    query = _load("queue_storage", "Failed to read the statistics of queues")
    return Statement(query, _names(addresses), _storages)


def server() -> Statement[ServerFacts]:
    """Gather the facts about the server."""
    return Statement(_load("server", "Failed to ask the server about itself"), {}, _server)


def clock() -> Statement[datetime]:
    """Ask what time it is by the server's clock."""
    return Statement(_load("clock", "Failed to ask the server for the time"), {}, scalar)


def snapshot_holders() -> Statement[list[SnapshotHolder]]:
    """Find who keeps dead rows from being removed, the oldest first."""
    return Statement(_load("snapshot_holders", "Failed to look for open transactions"), {}, _holders)


def ended_loops() -> Statement[list[EndedLoops]]:
    """Find the programs of which loops ended unasked."""
    return Statement(_load("ended_loops", "Failed to look for loops that ended"), {}, _ended)


def schema_exists(schema: str) -> Statement[bool]:
    """Say whether a schema exists."""
    query = _load("schema_exists", f"Failed to look for the schema {schema}")
    return Statement(query, {"schema": schema}, scalar)


def create_schema(schema: str) -> Statement[None]:
    """Create a schema if it is missing. Another creator at the same time may make this fail; see `installer`."""
    query = _load("create_schema", f"Failed to create the schema {schema}", {"schema": schema})
    return Statement(query, {}, no_rows)


def refuse_foreign(schema: str) -> Steps[None]:
    """Raise ConfigurationError for a schema of a role that this one cannot trust."""
    return refuse_foreign_schema(schema)


def grant_receive(address: QueueAddress, role: str) -> Statement[None]:
    """Let a role receive from, peek and purge a queue, and nothing else."""
    return Statement(_grant("grant_receive", address, role), {}, no_rows)


def grant_send(address: QueueAddress, role: str) -> Statement[None]:
    """Let a role send to a queue, and nothing else."""
    return Statement(_grant("grant_send", address, role), {}, no_rows)


def grant_view(address: QueueAddress, role: str) -> Statement[None]:
    """Let a role count, look at and judge the messages of a queue, and change nothing."""
    return Statement(_grant("grant_view", address, role), {}, no_rows)


def grant_monitor(address: QueueAddress, role: str) -> Statement[None]:
    """Let a role measure how long a queue is and what went through it, as ServiceControl does, and nothing else."""
    return Statement(_grant("grant_monitor", address, role), {}, no_rows)


def grant_view_table(address: QueueAddress, role: str) -> Statement[None]:
    """Let a role look at a table of an endpoint that is no queue, and change nothing."""
    return Statement(_grant("grant_view_table", address, role), {}, no_rows)


def _grant(operation: str, address: QueueAddress, role: str) -> Query:
    names = {
        "schema": address.schema,
        "queue": address.table,
        "sequence": address.sequence,
        "role": role,
    }
    return _load(operation, f"Failed to grant privileges on {address} to {role}", names, queue=str(address))


def _load(
    operation: str, failing: str, identifiers: dict[str, str] | None = None, *, queue: str | None = None
) -> Query:
    path = f"{_FOLDER}/{operation}.sql"
    return load(path, identifiers=identifiers, failing=failing, queue=queue, prepare=False)


def _names(addresses: Iterable[QueueAddress]) -> dict[str, list[str]]:
    named = list(addresses)
    return {"schemas": [one.schema for one in named], "tables": [one.table for one in named]}


def _shapes(rows: Rows, _count: int) -> list[QueueShape]:
    return [_shape(row) for row in rows]


def _shape(row: Row) -> QueueShape:
    schema, name, persistence, columns, keys, sequence, last, readable = row
    return QueueShape(
        QueueAddress(schema, name),
        tuple(QueueColumn(**column) for column in columns),
        tuple(Key(tuple(key["columns"]), is_primary=key["is_primary"]) for key in keys or ()),
        None if sequence is None else Sequence(sequence, None, last),
        is_logged=persistence != "u",
        readable=readable,
    )


def _state(rows: Rows, _count: int) -> QueueState:
    return QueueState._make(rows[0])


def _storages(rows: Rows, _count: int) -> list[Storage]:
    return [Storage(QueueAddress(schema, name), *facts) for schema, name, *facts in rows]


def _server(rows: Rows, _count: int) -> ServerFacts:
    return ServerFacts._make(rows[0])


def _holders(rows: Rows, _count: int) -> list[SnapshotHolder]:
    return [SnapshotHolder._make(row) for row in rows]


def _ended(rows: Rows, _count: int) -> list[EndedLoops]:
    return [EndedLoops._make(row) for row in rows]


def _full_disks(rows: Rows, _count: int) -> list[FullDisk]:
    return [FullDisk(place, processes) for _, place, processes, *_ in rows]


def _addresses(rows: Rows, _count: int) -> list[QueueAddress]:
    return [QueueAddress(schema, name) for schema, name in rows]
