"""The diagnosis of a server and its queues, from facts: fine, worth a look, or broken, and what to do about it.

Invariant: pure; each finding that is not fine says what to do, and only `FAIL` means that Rowbus cannot work or that
messages are at risk.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from rowbus.transport.queues.catalog.ownership import advice, not_looked_at
from rowbus.transport.queues.shape import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.owners import Fault
    from rowbus.transport.queues.shape import QueueShape

Amount = TypeVar("Amount", float, timedelta)

OLDEST_VERSION: Final = 15
NEWEST_VERSION: Final = 18

SEQUENCE_WARNING: Final = 0.75
SEQUENCE_FAILURE: Final = 0.95
CONNECTIONS_WARNING: Final = 0.75
CONNECTIONS_FAILURE: Final = 0.95
SNAPSHOT_WARNING: Final = timedelta(minutes=1)
SNAPSHOT_FAILURE: Final = timedelta(hours=1)
SNAPSHOT_WARNING_TRANSACTIONS: Final = 1_000_000  # where only the distance is known
DEAD_ROWS_WARNING: Final = 50_000  # ten times what sets off autovacuum on a queue
BLOAT_WARNING_BYTES: Final = 100 * 2**20
BLOAT_WARNING_BYTES_A_ROW: Final = 2**20


SHORTEST_TIMEOUT: Final = timedelta(minutes=1)
_TIMEOUTS: Final = {  # what each ends
    "idle_in_transaction_session_timeout": "the session of a handler that waits for something else than the database",
    "idle_session_timeout": "sessions that wait for messages, over and over",
    "statement_timeout": "statements of handlers, and of ours on long queues",
    "transaction_timeout": "the transaction that holds a message while its handler runs",
    "lock_timeout": "the attempt of a handler that waits for a row, or for a duplicate of its message",
}
_SHORTEST: Final = {"lock_timeout": timedelta(seconds=5)}  # of those that may be shorter than a minute


class Level(Enum):
    """The gravity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One line of a diagnosis: how bad, about what, what was found, and what to do."""

    level: Level
    subject: str
    text: str
    advice: str = ""


class Server(Protocol):
    """The facts about a server, of either kind, and how they, its sessions and its tables are judged."""

    def findings(self) -> Iterator[Finding]:
        """Judge the server by itself."""
        raise NotImplementedError

    def findings_on_holders(self, holders: Sequence[SnapshotHolder]) -> Iterator[Finding]:
        """Judge those sessions that make queues slow."""
        raise NotImplementedError

    def findings_on_storage(self, storages: Iterable[Storage]) -> Iterator[Finding]:
        """Judge what the queues' tables occupy; says nothing of tables in good order."""
        raise NotImplementedError


_UTC: Final = {"UTC", "ETC/UTC", "GMT", "ETC/GMT", "ETC/UCT", "UCT", "ZULU", "ETC/ZULU"}


class ServerFacts(NamedTuple):
    """The server as a session sees it; the columns of `catalog/server.sql`."""

    version_number: int
    version: str
    database: str
    role: str
    is_standby: bool
    is_read_only: bool
    encoding: str
    time_zone: str
    survives_crashes: bool
    waits_for_commits: bool
    autovacuum: bool
    connection_limit: int
    connections: int
    sees_all_sessions: bool
    timeouts: Mapping[str, int] | None = None
    """The timeouts that are set for the role of the session, in milliseconds."""
    role_time_zones: Mapping[str, str] | None = None
    """The time zones of sessions of those roles that have one of their own, in this database."""

    def findings(self) -> Iterator[Finding]:
        """Judge the server by itself."""
        return diagnose_server(self)

    def findings_on_holders(self, holders: Sequence[SnapshotHolder]) -> Iterator[Finding]:
        """Judge the sessions that keep vacuum from removing dead rows."""
        return diagnose_snapshots(holders, sees_all=self.sees_all_sessions)

    def findings_on_storage(self, storages: Iterable[Storage]) -> Iterator[Finding]:
        """Judge what vacuum has left behind."""
        return diagnose_storage(storages)


class SnapshotHolder(NamedTuple):
    """One that keeps dead rows from being removed; the columns of `catalog/snapshot_holders.sql`."""

    kind: str
    name: str
    pid: int | None
    role: str | None
    state: str
    lasted: timedelta | None
    transactions: int


class EndedLoops(NamedTuple):
    """A program of which loops ended unasked; the columns of `catalog/ended_loops.sql`."""

    name: str
    place: str | None
    times: int


class FullDisk(NamedTuple):
    """Processes at a place (None: not known) that the server refuses to write for want of room."""

    place: str | None
    processes: int


class Storage(NamedTuple):
    """The size of a queue: rows are estimates, `bytes` is the file of the table, without indexes and bodies aside."""

    address: QueueAddress
    live_rows: int
    dead_rows: int
    bytes: int
    autovacuum: bool
    last_vacuum: datetime | None


def diagnose_server(server: ServerFacts) -> Iterator[Finding]:
    """Judge the server by itself."""
    yield _version(server)
    yield _connection(server)
    yield _durability(server)
    yield _time_zone(server)
    yield from _role_time_zones(server.role_time_zones or {})
    yield _connections(server)
    yield from _timeouts(server.timeouts or {})
    if not server.autovacuum:
        yield Finding(
            Level.FAIL,
            "autovacuum",
            "is off, so queue tables grow without end",
            "set autovacuum and track_counts to on",
        )


def _timeouts(timeouts: Mapping[str, int]) -> Iterator[Finding]:
    """Judge the timeouts that end what a handler does; none is set by default."""
    for name, milliseconds in sorted(timeouts.items()):
        lasts = timedelta(milliseconds=milliseconds)
        text = f"{duration(lasts)} for this role"
        if lasts >= _SHORTEST.get(name, SHORTEST_TIMEOUT):
            yield Finding(Level.OK, name, text)
            continue
        advice = f"it ends {_TIMEOUTS[name]}; raise it for the role of the endpoints: alter role … set {name} = '10min'"
        yield Finding(Level.WARN, name, text, advice)


def _version(server: ServerFacts) -> Finding:
    major, subject, text = server.version_number // 10000, "server", f"PostgreSQL {server.version}"
    if major < OLDEST_VERSION:
        return Finding(Level.FAIL, subject, text, f"upgrade it to {OLDEST_VERSION} or newer")
    if major > NEWEST_VERSION:
        advice = f"Rowbus is tested with {OLDEST_VERSION} to {NEWEST_VERSION}; look for a newer Rowbus"
        return Finding(Level.WARN, subject, text, advice)
    return Finding(Level.OK, subject, text)


def _connection(server: ServerFacts) -> Finding:
    text = f"database {server.database} as {server.role}"
    if server.is_standby:
        return Finding(Level.FAIL, "connection", f"{text}, on a standby", "connect to the primary server")
    if server.is_read_only:
        advice = "unset default_transaction_read_only for this role and database"
        return Finding(Level.FAIL, "connection", f"{text}, read-only", advice)
    if server.encoding != "UTF8":
        advice = "messages from .NET may hold characters it cannot store; use a database encoded in UTF8"
        return Finding(Level.WARN, "connection", f"{text}, encoded in {server.encoding}", advice)
    return Finding(Level.OK, "connection", text)


def _durability(server: ServerFacts) -> Finding:
    if not server.survives_crashes:
        advice = "set fsync and full_page_writes to on wherever messages matter"
        return Finding(
            Level.WARN, "durability", "a crash of the machine may destroy the database (fsync is off)", advice
        )
    if not server.waits_for_commits:
        advice = "set synchronous_commit to on for the roles that send and receive"
        return Finding(
            Level.WARN, "durability", "a crash may lose the last commits (synchronous_commit is off)", advice
        )
    return Finding(Level.OK, "durability", "what is committed survives a crash")


def _time_zone(server: ServerFacts) -> Finding:
    if _is_utc(server.time_zone):
        return Finding(Level.OK, "time zone", server.time_zone)
    return Finding(
        Level.WARN,
        "time zone",
        f"{server.time_zone} for sessions that set none; Rowbus's own use UTC",
        "give the role or database of .NET endpoints TimeZone 'UTC', or their delayed messages are off by the offset",
    )


def _role_time_zones(zones: Mapping[str, str]) -> Iterator[Finding]:
    for role, zone in sorted(zones.items()):
        if not _is_utc(zone):
            yield Finding(
                Level.WARN,
                f"time zone of {role}",
                f"{zone} for sessions of this role; Rowbus's own use UTC",
                "if .NET endpoints use the role: `alter role … set timezone to 'UTC'`, or their delayed messages are "
                "off by the offset",
            )


def _is_utc(zone: str) -> bool:
    return zone.strip("'\"").upper() in _UTC


def _connections(server: ServerFacts) -> Finding:
    used = server.connections / max(server.connection_limit, 1)
    text = f"{server.connections} of {server.connection_limit} in use"
    level = _above(used, CONNECTIONS_WARNING, CONNECTIONS_FAILURE)
    if level is Level.OK:
        return Finding(level, "connections", text)
    advice = "lower --workers or --concurrency (a worker takes up to 2 * concurrency + 2), or raise max_connections"
    return Finding(level, "connections", text, advice)


def diagnose_snapshots(holders: Sequence[SnapshotHolder], *, sees_all: bool) -> Iterator[Finding]:
    """Judge the sessions that keep vacuum from removing dead rows, the thing that makes queues slow."""
    if not sees_all:
        yield Finding(
            Level.WARN,
            "snapshots",
            "this role cannot see the transactions of others",
            "connect as a role that is a member of pg_read_all_stats",
        )
    old = [holder for holder in holders if _age_level(holder) is not Level.OK]
    yield from map(_old_snapshot, old)
    if sees_all and not old:
        seen = [holder.lasted for holder in holders if holder.lasted is not None]
        text = f"the oldest has lasted {duration(max(seen))}" if seen else "none open"
        yield Finding(Level.OK, "snapshots", text)


def diagnose_ended_loops(programs: Sequence[EndedLoops]) -> Iterator[Finding]:
    """Tell of programs in which something ended that is to go on."""
    for program in programs:
        place = f" at {program.place}" if program.place else ""
        yield Finding(
            Level.WARN,
            f"loops of {program.name}",
            f"ended {program.times} times{place} though nobody asked them to, and were begun anew",
            "its log (CRITICAL) says why, its /livez which; start it anew if they go on ending",
        )


def diagnose_pooler() -> Finding:
    """Tell of a pooler that lends connections for one transaction at a time."""
    return Finding(
        Level.WARN,
        "notifications",
        "LISTEN heard nothing, so there is a pooler in between: receivers look for messages only now and then, and "
        "statements are planned each time",
        "connect endpoints to the server itself, or use the settings of docs/how-to/managed-servers.md#behind-a-pooler",
    )


def diagnose_full_disk(found: Sequence[FullDisk]) -> Iterator[Finding]:
    """Tell of a full disk, which only those know who were refused: the server does not say what is free."""
    if not found:
        return
    places = ", ".join(sorted({one.place for one in found if one.place is not None})) or "hidden places"
    advice = (
        "make room on the server, then all goes on by itself; `snapshots` names what keeps rows from being removed, "
        "`rowbus log list` the sizes of logs"
    )
    count = sum(one.processes for one in found)
    text = f"the server's disk is full: it refuses to write for {count} processes, from {places}"
    yield Finding(Level.FAIL, "disk", text.replace("1 processes", "1 process"), advice)


def _age_level(holder: SnapshotHolder) -> Level:
    if holder.lasted is not None:
        return _above(holder.lasted, SNAPSHOT_WARNING, SNAPSHOT_FAILURE)
    return Level.WARN if holder.transactions >= SNAPSHOT_WARNING_TRANSACTIONS else Level.OK


def _old_snapshot(holder: SnapshotHolder) -> Finding:
    who = " ".join(
        part
        for part in (
            holder.kind,
            repr(holder.name) if holder.name else "",
            f"(pid {holder.pid})" if holder.pid else "",
            f"of role {holder.role}" if holder.role else "",
        )
        if part
    )
    age = (
        f"for {duration(holder.lasted)}"
        if holder.lasted is not None
        else f"since {holder.transactions:,} transactions"
    )
    return Finding(
        _age_level(holder),
        "snapshots",
        f"{who}, {holder.state}, has kept dead rows from being removed {age}",
        f"queues get slower until it ends; {_remedy(holder)}",
    )


def _remedy(holder: SnapshotHolder) -> str:
    if holder.kind == "session":
        return f"finish it, or end it with pg_terminate_backend({holder.pid})"
    if holder.kind == "prepared transaction":
        return "commit prepared or rollback prepared"
    if holder.kind == "standby":
        return "end the long query on the standby, or switch hot_standby_feedback off there"
    return "start its consumer, or drop the slot with pg_drop_replication_slot"


def diagnose_queue(queue: QueueShape) -> Finding:
    """Judge the shape of a queue's table and how far its sequence has come."""
    subject = str(queue.address)
    if queue.left_out:
        return diagnose_left_out(subject, queue.left_out)
    if not queue.readable:
        advice = f"let it look: `rowbus schema grants --queue {queue.address.table} --view --role ROLE`"
        return Finding(Level.WARN, subject, "this role cannot read it, nor say what waits there", advice)
    if found := differences(queue):
        remedy = "put it right, or move the messages to a table made by `rowbus queue create`"
        return Finding(Level.FAIL, subject, "; ".join(found), remedy)
    if queue.sequence is None or queue.sequence.position is None:
        return Finding(Level.OK, subject, "a queue")
    used = queue.sequence.used
    level = _above(used, SEQUENCE_WARNING, SEQUENCE_FAILURE)
    text = f"{used:.0%} of its sequence is used ({queue.sequence.position:,})"
    remedy = "" if level is Level.OK else "restart the sequence while the queue is empty, before sends fail"
    return Finding(level, subject, text, remedy)


def diagnose_lanes(queue: QueueShape, lanes: Sequence[QueueShape]) -> Iterator[Finding]:
    """Judge a queue with its lanes: those in good order are one finding, that of the fullest sequence."""
    every = [(diagnose_queue(one), one) for one in (queue, *lanes)]
    good = [(finding, one) for finding, one in every if finding.level is Level.OK]
    yield from (finding for finding, _ in every if finding.level is not Level.OK)
    if good:
        fullest, _ = max(good, key=lambda each: _used(each[1]))
        alone = f"{len(good)} lanes of {queue.address}"
        is_good = good[0][1] is queue
        yield fullest._replace(subject=named_with_lanes(queue.address, len(good) - 1) if is_good else alone)


def named_with_lanes(queue: QueueAddress, lanes: int) -> str:
    """Return what a queue is called together with so many lanes."""
    return f"{queue} and {lanes} lanes" if lanes else str(queue)


def _used(queue: QueueShape) -> float:
    return 0.0 if queue.sequence is None or queue.sequence.position is None else queue.sequence.used


def diagnose_outbox(endpoint: str, subject: str, waiting: int) -> Finding:
    """Judge an outbox of .NET's of an endpoint that Python serves, too."""
    if not waiting:
        return Finding(Level.OK, subject, "NServiceBus's outbox, of which all is sent")
    remedy = (
        f"stop the Python instances of {endpoint} and start one of .NET: what they take of it is never sent. A shared "
        "endpoint uses SendsAtomicWithReceive and no outbox"
    )
    return Finding(Level.WARN, subject, f"{waiting:,} messages of NServiceBus's outbox are not sent", remedy)


def diagnose_left_out(subject: str, reason: str) -> Finding:
    """Tell of a table of which nothing is read."""
    return Finding(Level.WARN, subject, not_looked_at(reason), advice(reason))


def diagnose_fault(fault: Fault) -> Finding:
    """Judge what a queue's table is in the hands of."""
    return Finding(Level.FAIL if fault.is_grave else Level.WARN, fault.table, fault.text, fault.advice)


def diagnose_storage(storages: Iterable[Storage]) -> Iterator[Finding]:
    """Judge what vacuum has left behind; says nothing of tables in good order."""
    for storage in storages:
        subject = str(storage.address)
        if not storage.autovacuum:
            advice = "alter table … reset (autovacuum_enabled)"
            yield Finding(Level.WARN, subject, "autovacuum is switched off for this table", advice)
        if storage.dead_rows > DEAD_ROWS_WARNING and storage.dead_rows > storage.live_rows:
            yield Finding(Level.WARN, subject, _dead_rows(storage), "see `snapshots`; then run vacuum on it")
        elif _is_bloated(storage):
            size = storage.bytes // 2**20
            text = f"its file is {size:,} MiB for about {storage.live_rows:,} messages"
            yield Finding(Level.WARN, subject, text, "vacuum full, in a quiet moment: it locks the queue")


def _dead_rows(storage: Storage) -> str:
    last = f"last {storage.last_vacuum:%Y-%m-%d %H:%M} UTC" if storage.last_vacuum else "never since a reset"
    return f"{storage.dead_rows:,} dead rows wait for vacuum beside {storage.live_rows:,} messages ({last})"


def _is_bloated(storage: Storage) -> bool:
    share = storage.bytes / max(storage.live_rows, 1)
    return storage.bytes > BLOAT_WARNING_BYTES and share > BLOAT_WARNING_BYTES_A_ROW


def _above(value: Amount, warning: Amount, failure: Amount) -> Level:
    if value < warning:
        return Level.OK
    return Level.WARN if value < failure else Level.FAIL


def duration(span: timedelta) -> str:
    """Write a span in its two largest units: `3 d 4 h`, `12 min 5 s`, `0 s`."""
    seconds = max(int(span.total_seconds()), 0)
    counts = {"d": seconds // 86400, "h": seconds // 3600 % 24, "min": seconds // 60 % 60, "s": seconds % 60}
    units = list(counts)
    first = next((position for position, unit in enumerate(units) if counts[unit]), len(units) - 1)
    largest, *next_one = units[first : first + 2]
    return " ".join(
        f"{counts[unit]} {unit}" for unit in (largest, *next_one) if counts[unit] or unit == largest
    )
