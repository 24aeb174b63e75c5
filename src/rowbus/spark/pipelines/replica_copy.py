"""The first copy of captured tables, which the log's changes continue without a gap.

The consumer is registered before the snapshot is taken, so the log delivers every change that the snapshot does not
see. Changes that it does see are recognised by their transaction and skipped.

Invariant: a table's rows and the record of their snapshot commit together in the target; an interrupted copy leaves
nothing and is repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.postgresql.transfer import pass_on
from rowbus.errors import ConfigurationError
from rowbus.log.consumers.table import ConsumerTable
from rowbus.spark.pipelines import replica as statements
from rowbus.spark.schema.installer import ensure

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import Session
    from rowbus.database.postgresql.database import Database
    from rowbus.spark.pipelines.replica import CapturedTable

Tell = Callable[[str], object]

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


class _Taken(NamedTuple):
    """The source's tables in one snapshot."""

    snapshot: str
    tables: list[CapturedTable]


def copy_tables(source: Database, target: Database, plan: ReplicaPlan, tell: Tell) -> dict[str, int]:
    """Register the consumer, and copy the tables that the replica lacks; return the rows of each.

    Locks the replica meanwhile. Raises ConfigurationError for tables that are not captured, or not in a format that can
    be replicated, LogNotFoundError, StorageError.
    """
    with source.session() as reading, target.session() as writing:
        ensure(writing)
        same = reading.run(statements.identify_database()) == writing.run(statements.identify_database())
        if plan.schema is None and same:
            raise ConfigurationError(
                "Source and target are the same database: name another schema for the copies."
            )
        reading.run(ConsumerTable(plan.log, plan.consumer).register())
        with _snapshot(reading) as snapshot, writing.transaction():
            wanted = wanted_tables(reading.run(statements.describe_tables(plan.log)), plan)
            _refuse_itself(wanted, plan, same=same)
            return _copy(reading, writing, plan, _Taken(snapshot, wanted), tell)


@contextmanager
def _snapshot(session: Session) -> Generator[str]:
    session.run(statements.BEGIN)
    try:
        yield session.run(statements.begin_copy())
    finally:
        session.run(statements.END)


def _copy(reading: Session, writing: Session, plan: ReplicaPlan, taken: _Taken, tell: Tell) -> dict[str, int]:
    writing.run(statements.hold_replica(plan.replica))
    if plan.again:
        writing.run(statements.reset_replica(plan.replica))
    there = {table.source for table in writing.run(statements.list_replica_tables(plan.replica))}
    rows: dict[str, int] = {}
    for table in taken.tables:
        if table.name not in there:
            tell(f"Copying {table.name}")
            schema = plan.schema or table.schema
            into = writing.run(statements.prepare_table(plan.replica, table, schema, taken.snapshot))
            out = statements.copying(table.copying, table.name)
            rows[table.name] = pass_on(reading, out, writing, statements.copying(into, table.name))
            tell(f"Copied {rows[table.name]:,} rows of {table.name}")
    return rows


def wanted_tables(captured: Sequence[CapturedTable], plan: ReplicaPlan) -> list[CapturedTable]:
    """Choose the tables of a plan; raises ConfigurationError for those that cannot be replicated."""
    chosen = [table for table in captured if plan.tables is None or _is_named(table, plan.tables)]
    missing = [name for name in plan.tables or () if not any(_is_named(table, [name]) for table in captured)]
    if missing or not chosen:
        there = ", ".join(table.name for table in captured) or "no table"
        raise ConfigurationError(
            f'Not captured into log "{plan.log}": {", ".join(missing) or "any table"}; captured is {there}. '
            f"Capture a table with `rowbus log capture TABLE --log {plan.log}`."
        )
    for table in chosen:
        _check(table)
    _check_names(chosen, plan)
    return chosen


def _is_named(table: CapturedTable, names: Sequence[str]) -> bool:
    return table.name in names or (table.schema == "public" and table.table in names)


def _check(table: CapturedTable) -> None:
    changed_by = [text for text in table.arguments if text.startswith(_CHANGED_BY)]
    if table.format == "sql" or changed_by:
        how = f"with the argument {changed_by[0]}" if changed_by else "in the format sql"
        raise ConfigurationError(
            f"{table.name} is captured {how}, so its events are not its rows; "
            "capture it with --format json and another --trigger into another log to replicate it.",
            table=table.name,
        )


def _refuse_itself(tables: Sequence[CapturedTable], plan: ReplicaPlan, *, same: bool) -> None:
    for table in tables:
        if same and plan.schema == table.schema:
            raise ConfigurationError(
                f"The copy of {table.name} is the source itself: name another schema.", table=table.name
            )


def _check_names(tables: Sequence[CapturedTable], plan: ReplicaPlan) -> None:
    twice = [name for name, times in Counter(table.name for table in tables).items() if times > 1]
    if twice:
        raise ConfigurationError(
            f'{twice[0]} is captured into log "{plan.log}" by two triggers; release one of them.',
            table=twice[0],
        )
    names = Counter((plan.schema or table.schema, table.table) for table in tables)
    same = [name for (_, name), times in names.items() if times > 1]
    if same:
        raise ConfigurationError(
            f"Two tables are called {same[0]}, in different schemas: replicate them one by one with --table, "
            "each under a consumer and a schema of its own.",
            table=same[0],
        )
