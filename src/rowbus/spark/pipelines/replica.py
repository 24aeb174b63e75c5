"""Replicas of captured tables: described, copied at first, then changed without a gap.

The consumer is registered before the snapshot is taken, so the log delivers every change that the snapshot does not
see. Changes that it does see are recognised by their transaction and skipped.

Invariants: the snapshot of a copy is recorded in the transaction that fills the table, and a batch in the one that
applies it. So each change is in the replica once, wherever a process died. A table's rows and the record of their
snapshot commit together in the target; an interrupted copy leaves nothing and is repeated. A table of a replica that is
there never stops the others: what keeps it from being copied or changed is noted, and it stands still until a later
run, or `resync`, copies it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from glob import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.postgresql.transfer import pass_on
from rowbus.database.statements import Query, Statement, control, each, load, no_rows, scalar
from rowbus.errors import ConfigurationError, StorageError
from rowbus.log.consumers.table import ConsumerTable, log_not_found
from rowbus.spark.captured import BEGIN_COPY, DEFERRABLE, CopyStart
from rowbus.spark.log_source.snapshot_range import list_logs
from rowbus.spark.options import tables_named
from rowbus.spark.schema import ensure

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import Session
    from rowbus.database.postgresql.database import Database
    from rowbus.database.statements import Rows

ALL: Final = "*"
LEFT: Final = ""
_FOLDER = "spark/pipelines/sql/postgresql"

BEGIN = control(b"begin transaction isolation level repeatable read read only", "Could not begin to copy")
END = control(b"commit", "Could not end copying")
CHECK = control(b"set constraints all immediate", "Could not check the copy")


class CapturedTable(NamedTuple):
    """A table whose changes a trigger writes to the log; fields in the order of `describe_tables.sql`."""

    name: str
    """Schema and table joined by a dot, as events name it."""

    schema: str
    table: str
    format: str
    arguments: list[str]
    columns: list[str]
    types: list[str]
    required: list[str] | None
    key: list[str]
    copying: str
    """The COPY that writes its rows."""

    shape: str
    """Another text after each change of its shape that the log was told, and with other partitions."""

    is_deferrable: bool
    """Whether two rows may have one key for a moment; see `captured.DEFERRABLE`."""


class ReplicaTable(NamedTuple):
    """A table of a replica."""

    source: str
    target: str
    """Its quoted name."""

    columns: list[str]
    types: list[str]
    """Those of the source when it was copied; none where they were not noted."""

    key: list[str]
    shape: str | None
    """That of the source when it was copied; None where it was not noted, LEFT once it is captured no longer."""

    fault: str | None
    """Why it stands still; None where it does not."""

    connected: list[str]
    """The sources of the copies that foreign keys connect with its own."""

    def is_of(self, source: CapturedTable) -> bool:
        """Return whether it follows a source of this shape, with these columns and this key."""
        ours, theirs = (
            dict(zip(it.columns, it.types or source.types, strict=False)) for it in (self, source)
        )
        same = self.shape in {None, source.shape}
        return same and not self.fault and ours == theirs and set(self.key) == set(source.key)


def identify_database() -> Statement[tuple[str, str]]:
    """Return the identity of this database, the same for all its sessions."""
    query = _load("identify_database", "Could not look which database this is")
    return Statement(query, {}, _pair)


def begin_copy() -> Statement[CopyStart]:
    """Return the start of a copy in this transaction, a repeatable read; sets how values and names look."""
    return Statement(BEGIN_COPY, {}, _start)


def describe_tables(log: str) -> Statement[list[CapturedTable]]:
    """Return the tables captured into a log; run it after `begin_copy`, in the same transaction."""
    query = _load("describe_tables", f'Could not look for the tables captured into log "{log}"')
    return Statement(query, {"log": log}, each(CapturedTable._make))


def hold_replica(replica: str) -> Statement[int | None]:
    """Lock a replica until the transaction ends, or create it; returns its last batch. Waits."""
    return Statement(_load("hold_replica", _failing(replica)), {"replica": replica}, scalar)


def reset_replica(replica: str) -> Statement[None]:
    """Delete the record of a replica's tables and position; it may have a new checkpoint from now on."""
    return Statement(_load("reset_replica", _failing(replica)), {"replica": replica}, no_rows)


def list_replica_tables(replica: str) -> Statement[list[ReplicaTable]]:
    """Return a replica's tables; none when it does not exist."""
    return Statement(
        _load("list_replica_tables", _failing(replica)), {"replica": replica}, each(ReplicaTable._make)
    )


def prepare_table(replica: str, source: CapturedTable, schema: str, snapshot: str) -> Statement[str]:
    """Create or empty the copy of a table, and record its snapshot; returns the COPY that fills it.

    Locks the table until the transaction ends. Raises StorageError when a table with other columns exists.
    """
    parameters = {
        "replica": replica,
        "source": source.name,
        "schema": schema,
        "table": source.table,
        "columns": source.columns,
        "types": source.types,
        "required": source.required or [],
        "key": source.key,
        "snapshot": snapshot,
    }
    query = _load("prepare_table", f"Could not prepare the copy of {source.name}")
    return Statement(query, parameters, scalar)


def note_shape(replica: str, source: CapturedTable) -> Statement[None]:
    """Note the shape that the copy of a table shows."""
    query = _load("note_shape", f"Could not note the shape of {source.name}")
    return Statement(query, {"replica": replica, "source": source.name, "shape": source.shape}, no_rows)


def empty_tables(targets: Sequence[str]) -> Statement[None]:
    """Empty copies that refer to each other; those that others refer to are emptied one by one, later."""
    query = _load("empty_tables", "Could not empty copies")
    return Statement(query, {"targets": list(targets)}, no_rows)


def note_fault(replica: str, source: str, fault: str) -> Statement[None]:
    """Note why a table of a replica stands still."""
    query = _load("note_fault", f"Could not note the fault of {source}")
    return Statement(query, {"replica": replica, "source": source, "fault": fault}, no_rows)


def leave_table(replica: str, source: str) -> Statement[None]:
    """Leave a table of a replica as it is, until it is copied anew."""
    query = _load("leave_table", f"Could not leave the copy of {source}")
    return Statement(query, {"replica": replica, "source": source}, no_rows)


def apply_changes(
    replica: str, query_id: str | None, batch: int, stages: Sequence[str]
) -> Statement[int | None]:
    """Apply staged changes; returns how many, None for a batch that was applied before.

    In the caller's transaction. Raises StorageError when batches are missing, the checkpoint is another one, or a
    table was altered.
    """
    parameters = {"replica": replica, "query": query_id, "batch": batch, "stages": list(stages)}
    return Statement(
        _load("apply_changes", f'Could not bring replica "{replica}" up to date'), parameters, scalar
    )


def copying(text: str, table: str) -> Query:
    """Return the query of a COPY that the server wrote."""
    return control(text.encode(), f"Could not copy {table}").query


def _failing(replica: str) -> str:
    return f'Could not look for replica "{replica}"'


def _load(operation: str, failing: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing=failing, prepare=False)


def _start(rows: Rows, _count: int) -> CopyStart:
    return CopyStart.read(rows[0][0])


def _pair(rows: Rows, _count: int) -> tuple[str, str]:
    return rows[0][0], rows[0][1]


Tell = Callable[[str], object]

OF_A_TABLE: Final = frozenset({"0A", "21", "22", "23", "2B", "2F", "38", "39", "3F", "42", "44", "54", "P0"})
"""The classes of SQLSTATEs that say that a table, or what people have made of it, does not take its rows.

`is_of_table` knows the same.
"""

_CHANGED_BY: Final = (
    "ev_",
    "when=",
    "deny",
)  # arguments of triggers that make events differ from the table's rows


class ReplicaPlan(NamedTuple):
    """The tables to replicate, and their names in the replica."""

    log: str
    consumer: str
    replica: str
    schema: str | None
    """The schema of the copies; None: the schema of each source, in another database."""

    tables: Sequence[str] | None
    """The chosen tables, as `schema.table`, in the schema public also as `table`; None: all captured ones."""

    again: bool = False
    """Whether to copy tables that were copied before."""

    resync: Sequence[str] = ()
    """Patterns of tables to copy once more, while the others stay as they are."""

    begun: bool = False
    """Whether the job runs: a table that was renamed, dropped or released since is left as it is."""


class TableChoice(NamedTuple):
    """The tables to replicate, and why others cannot be, by name."""

    tables: list[CapturedTable]
    faults: dict[str, str]


class _CopySessions(NamedTuple):
    """The sessions of a copy, and what its snapshot shows."""

    reading: Session
    writing: Session
    plan: ReplicaPlan
    snapshot: str
    held: dict[str, ReplicaTable]
    """The tables of the replica, by their sources."""


def copy_tables(source: Database, target: Database, plan: ReplicaPlan, tell: Tell) -> dict[str, int]:
    """Register the consumer, and copy the tables that the replica lacks, or that were altered; return the rows of each.

    Locks the replica meanwhile. Raises ConfigurationError for tables that are not captured, or not in a format that can
    be replicated, LogNotFoundError, StorageError.
    """
    with source.session() as reading, target.session() as writing:
        ensure(writing)
        same = reading.run(identify_database()) == writing.run(identify_database())
        if plan.schema is None and same:
            raise ConfigurationError(
                "Source and target are the same database: name another schema for the copies."
            )
        check_tables(reading, plan, writing.run(list_replica_tables(plan.replica)))
        reading.run(ConsumerTable(plan.log, plan.consumer).register())
        with writing.transaction():
            writing.run(hold_replica(plan.replica))  # first: a batch after the snapshot would be undone
            return _copy_in_snapshot(reading, writing, plan, tell, same=same)


def _copy_in_snapshot(
    reading: Session, writing: Session, plan: ReplicaPlan, tell: Tell, *, same: bool
) -> dict[str, int]:
    with _snapshot(reading) as snapshot:
        captured = reading.run(describe_tables(plan.log))
        wanted = wanted_tables(captured, plan, writing.run(list_replica_tables(plan.replica)))
        _refuse_itself(wanted.tables, plan, same=same)
        _leave_released(writing, plan, {table.name for table in captured}, tell)
        for name, fault in wanted.faults.items():
            writing.run(note_fault(plan.replica, name, fault))
        held = {table.source: table for table in writing.run(list_replica_tables(plan.replica))}
        if plan.again:
            writing.run(reset_replica(plan.replica))
        return _copy(_CopySessions(reading, writing, plan, snapshot, held), wanted.tables, tell)


def copy_beside(source: Database, target: Database, plan: ReplicaPlan, tell: Tell) -> dict[str, int] | None:
    """Copy the tables of `resync` while another process keeps the replica; None where none does.

    Its next batch waits meanwhile, and goes on with all tables. Raises as `copy_tables` does.
    """
    with source.session() as session:
        if not plan.resync or not session.run(ConsumerTable(plan.log, plan.consumer).leaders()):
            return None
        with _snapshot(session), target.session() as writing:
            held = writing.run(list_replica_tables(plan.replica))
            wanted = wanted_tables(session.run(describe_tables(plan.log)), plan, held)
    again = sorted(named([table.name for table in wanted.tables], plan.resync))
    return copy_tables(source, target, plan._replace(tables=again, resync=[*map(escape, again)]), tell)


def named(tables: Collection[str], patterns: Sequence[str]) -> set[str]:
    """Return the tables that patterns such as `shop.*` name; raises ConfigurationError for one that names none."""
    found: set[str] = set()
    for pattern in patterns:
        matching = tables_named(tables, pattern)
        if not matching:
            raise ConfigurationError(
                f"No table of {', '.join(sorted(tables))} is named {pattern}.", option="resync"
            )
        found |= set(matching)
    return found


def check_replica(source: Database, target: Database, plan: ReplicaPlan) -> None:
    """Raise what speaks against this plan, before anything is begun or registered."""
    with source.session() as reading, target.session() as writing:
        ensure(writing)
        check_tables(reading, plan, writing.run(list_replica_tables(plan.replica)))


def check_tables(source: Session, plan: ReplicaPlan, held: Sequence[ReplicaTable] = ()) -> None:
    """Raise what speaks against replicating these tables to a replica that has others."""
    if not source.run(list_logs([plan.log])):
        raise log_not_found(plan.log)
    with _snapshot(source):
        wanted = wanted_tables(source.run(describe_tables(plan.log)), plan, held)
    named([table.name for table in wanted.tables], plan.resync)


@contextmanager
def _snapshot(session: Session) -> Generator[str]:
    session.run(BEGIN)
    try:
        yield session.run(begin_copy()).snapshot
    finally:
        session.run(END)


def _leave_released(writing: Session, plan: ReplicaPlan, captured: Collection[str], tell: Tell) -> None:
    """Leave tables that are gone or captured no longer: what the log told of their end would stop each batch."""
    for table in writing.run(list_replica_tables(plan.replica)):
        if table.source not in captured and (table.shape != LEFT or table.fault):
            writing.run(leave_table(plan.replica, table.source))
            tell(f"{table.source} is captured no longer: {table.target} stays as it is")


def _copy(sessions: _CopySessions, tables: Sequence[CapturedTable], tell: Tell) -> dict[str, int]:
    plan, held = sessions.plan, sessions.held
    rows: dict[str, int] = {}
    names = [table.name for table in tables]
    again = {*names} if plan.again else named(names, plan.resync)
    for group in _groups(tables, held, again):
        try:
            rows |= _copy_group(sessions, group, tell)
        except StorageError as error:
            together = [table.name for table in group]
            if again.intersection(together) or not held or not _is_of_the_table(error):
                raise
            for name in together:
                sessions.writing.run(note_fault(plan.replica, name, str(error)))
    return rows


def _groups(
    tables: Sequence[CapturedTable], held: Mapping[str, ReplicaTable], again: Collection[str]
) -> list[list[CapturedTable]]:
    """Return the tables to copy, those together that foreign keys connect: they have to be of one moment."""
    groups: list[list[CapturedTable]] = []
    seen: set[str] = set()
    for table in tables:
        there = held.get(table.name)
        if table.name not in seen and (table.name in again or there is None or not there.is_of(table)):
            reached: list[str] = [table.name]
            for name in reached:
                connected: list[str] = held[name].connected if name in held else []
                reached += [other for other in connected if other not in reached]
            seen |= {*reached}
            groups.append([each for each in tables if each.name in reached])
    return groups


def _copy_group(sessions: _CopySessions, tables: Sequence[CapturedTable], tell: Tell) -> dict[str, int]:
    """Copy tables or, where that fails, leave both transactions as they were."""
    with sessions.reading.transaction(), sessions.writing.transaction():
        if len(tables) > 1:
            sessions.writing.run(empty_tables([sessions.held[table.name].target for table in tables]))
        rows: dict[str, int] = {}
        for table in tables:
            tell(f"Copying {table.name}")
            rows[table.name] = _copy_table(sessions, table)
            tell(f"Copied {rows[table.name]:,} rows of {table.name}")
        sessions.writing.run(CHECK)
        return rows


def _copy_table(sessions: _CopySessions, table: CapturedTable) -> int:
    reading, writing, plan, snapshot, _held = sessions
    into = writing.run(prepare_table(plan.replica, table, plan.schema or table.schema, snapshot))
    rows = pass_on(reading, copying(table.copying, table.name), writing, copying(into, table.name))
    writing.run(note_shape(plan.replica, table))
    return rows


def _is_of_the_table(error: StorageError) -> bool:
    """Return whether an error is one table's own: it does not pass, and hurts no other table."""
    return not error.transient and (error.sqlstate or "")[:2] in OF_A_TABLE


def wanted_tables(
    captured: Sequence[CapturedTable], plan: ReplicaPlan, held: Collection[ReplicaTable] = ()
) -> TableChoice:
    """Choose the tables of a plan. Raises ConfigurationError for what cannot be, if the replica has no table yet."""
    kept = {table.source for table in held if table.shape != LEFT}
    chosen = [
        table
        for table in captured
        if plan.tables is None or table.name in kept or _is_named(table, plan.tables)
    ]
    missing = [name for name in plan.tables or () if not any(_is_named(table, [name]) for table in captured)]
    if (missing or not chosen) and not plan.begun:
        there = ", ".join(table.name for table in captured) or "no table"
        raise ConfigurationError(
            f'Not captured into log "{plan.log}": {", ".join(missing) or "any table"}; captured is {there}. '
            f"Capture a table with `rowbus log capture TABLE --log {plan.log}`."
        )
    faults = {**_unfit(chosen), **_twice(chosen, plan), **_of_one_name(chosen, plan, kept)}
    if faults and not kept:
        table, fault = next(iter(faults.items()))
        raise ConfigurationError(fault, table=table)
    return TableChoice([table for table in chosen if table.name not in faults], faults)


def _is_named(table: CapturedTable, names: Sequence[str]) -> bool:
    return table.name in names or (table.schema == "public" and table.table in names)


def _unfit(tables: Sequence[CapturedTable]) -> dict[str, str]:
    """Return the faults of tables whose events are not their rows."""
    faults: dict[str, str] = {}
    for table in tables:
        changed_by = [text for text in table.arguments if text.startswith(_CHANGED_BY)]
        if table.format == "sql" or changed_by:
            how = f"with the argument {changed_by[0]}" if changed_by else "in the format sql"
            faults[table.name] = (
                f"{table.name} is captured {how}, so its events are not its rows; "
                "capture it with --format json and another --trigger into another log to replicate it."
            )
        elif table.is_deferrable:
            faults[table.name] = f"{table.name} {DEFERRABLE}."
    return faults


def _refuse_itself(tables: Sequence[CapturedTable], plan: ReplicaPlan, *, same: bool) -> None:
    for table in tables:
        if same and plan.schema == table.schema:
            raise ConfigurationError(
                f"The copy of {table.name} is the source itself: name another schema.", table=table.name
            )


def _twice(tables: Sequence[CapturedTable], plan: ReplicaPlan) -> dict[str, str]:
    """Return the faults of tables that are captured more than once."""
    return {
        name: f'{name} is captured into log "{plan.log}" by two triggers; release one of them.'
        for name, times in Counter(table.name for table in tables).items()
        if times > 1
    }


def _of_one_name(tables: Sequence[CapturedTable], plan: ReplicaPlan, kept: Collection[str]) -> dict[str, str]:
    """Return the faults of tables whose copies would have the name of another's."""
    takers: dict[tuple[str, str], set[str]] = {}
    for table in tables:
        takers.setdefault((plan.schema or table.schema, table.table), set()).add(table.name)
    return {
        name: f"Two tables are called {place[1]}, in different schemas: replicate them one by one with --table, "
        "each under a consumer and a schema of its own."
        for place, names in takers.items()
        if len(names) > 1
        for name in sorted(names - {*kept})
    }
