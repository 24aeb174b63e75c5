"""Statements on the events between two snapshots of a log: find, count, sample and read them.

The snapshots are literals in the text, and no tick's row is needed, so the statements mean the same at any time, in
any session, and on a replica.

Invariant: nothing here writes. A range is complete only while the tables' files are the same; readers compare them
(`find_table_node`) before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Query, Statement, each, load, no_rows, scalar
from rowbus.spark.filters import NO_CONDITIONS
from rowbus.spark.log_source.decisions import TableRange, TableSample
from rowbus.spark.log_source.decisions import literals as filtering
from rowbus.spark.log_source.offset import TickPosition, search_between

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.database.statements import Rows
    from rowbus.spark.filters import Conditions
    from rowbus.spark.log_source.decisions import BlockRange
    from rowbus.spark.log_source.offset import TickSteps

_FOLDER = "spark/log_source/sql/postgresql"
_NOTHING_MATCHES = "(?!)"

EVENT_COLUMNS = (
    "ev_id",
    "ev_time",
    "ev_txid",
    "ev_retry",
    "ev_type",
    "ev_data",
    "ev_extra1",
    "ev_extra2",
    "ev_extra3",
    "ev_extra4",
    "tick_id",
)
"""The columns of an event, in this order."""


class RetainedLog(NamedTuple):
    """The ticks that a log retains, and the state of its rotation."""

    log: str
    queue_id: int
    prefix: str
    current: int
    tables: int
    step1: int
    step2: int | None
    """The transaction that ended the last rotation; None between its two steps."""

    oldest: TickPosition | None
    newest: TickPosition | None

    @property
    def current_table(self) -> str:
        """The name of the table that events are written to."""
        return f"{self.prefix}_{self.current}"

    def tables_between(self, begin: TickPosition, end: TickPosition) -> list[tuple[int, str]]:
        """Return number and name of the tables that hold the events between two ticks, the older first.

        As `pgq._range_tables`: the previous table, the current one, or both.
        """
        previous = (self.current + self.tables - 1) % self.tables
        only_previous = end.snapshot.xmax < self.step1
        only_current = self.step2 is not None and begin.snapshot.xmin > self.step2
        numbers = [] if only_current and not only_previous else [previous]
        if not only_previous:
            numbers.append(self.current)
        return [(number, f"{self.prefix}_{number}") for number in numbers]

    def retains(self, begin: TickPosition, row: TickPosition | None) -> bool:
        """Return whether all events after a position are retained; `row` is the tick of that number, if it exists.

        A tick is deleted together with the events after it. Events after the oldest tick are retained.
        """
        if row is not None and row.snap == begin.snap:
            return True
        return self.oldest is not None and begin.snapshot.xmin >= self.oldest.snapshot.xmin

    def has_made(self, at: TickPosition, row: TickPosition | None) -> bool:
        """Return whether a tick can be of this log's history; `row` is the tick of that number, if it exists.

        Snapshot and time of a tick never change, numbers only grow, and rotation deletes the oldest. A database that
        was restored, or a log that was made anew, gives the same numbers to other ticks.
        """
        if row is not None:
            return (row.snap, row.ts) == (at.snap, at.ts)
        if self.oldest is None or at.tick >= self.oldest.tick:
            return False
        return at.snapshot.xmax <= self.oldest.snapshot.xmax


def list_logs(logs: Sequence[str], pattern: str | None = None) -> Statement[list[RetainedLog]]:
    """Return the states of the logs with these names, or that match the pattern; omits missing ones."""
    query = load(
        f"{_FOLDER}/list_logs.sql",
        failing=f"Could not look at the logs {', '.join(logs) or pattern}",
        log=", ".join(logs) or pattern,
    )
    parameters = {"logs": list(logs), "pattern": pattern or _NOTHING_MATCHES}
    return Statement(query, parameters, _states)


def list_ticks(log: str, after: int, upto: int, most: int) -> Statement[list[TickPosition]]:
    """List the ticks after one, up to another, in order; at most so many."""
    parameters = {"log": log, "after": after, "upto": upto, "most": most}
    return Statement(
        _load("list_ticks", f"list the ticks of {log}", log), parameters, each(TickPosition._make)
    )


def find_tick(log: str, number: int) -> Statement[TickPosition | None]:
    """Find a tick by its number."""
    parameters = {"log": log, "after": number - 1, "upto": number, "most": 1}
    return Statement(_load("list_ticks", f"look for a tick of {log}", log), parameters, _position)


def find_tick_at(log: str, time: datetime) -> Statement[TickPosition | None]:
    """Find the newest tick that is not after a time."""
    query = _load("find_tick_at", f"look for a tick of {log}", log)
    return Statement(query, {"log": log, "time": time}, _position)


def find_table_node(name: str) -> Statement[int]:
    """Return the number of a table's file."""
    query = load(
        f"{_FOLDER}/find_table_node.sql",
        literals={"name": name},
        failing=f"Could not look at {name}",
        prepare=False,
    )
    return Statement(query, {}, scalar)


def may_read(name: str) -> Statement[tuple[bool, str]]:
    """Say whether this session's role may read a table of events, and which role it is."""
    query = load(f"{_FOLDER}/may_read.sql", failing=f"Could not look at {name}", prepare=False)

    def decode(rows: Rows, _count: int) -> tuple[bool, str]:
        allowed, role = rows[0]
        return allowed, role

    return Statement(query, {"name": name}, decode)


def hold_table(name: str) -> Statement[None]:
    """Lock a table against TRUNCATE until the transaction ends."""
    schema, _, table = name.partition(".")
    query = load(
        f"{_FOLDER}/hold_table.sql",
        identifiers={"schema": schema, "table": table},
        failing=f"Could not hold {name}",
        prepare=False,
    )
    return Statement(query, {}, no_rows)


class SnapshotRange:
    """Statements on the events between two ticks, with the retried events of one consumer or of none."""

    def __init__(self, begin: TickPosition, end: TickPosition, owner: int | None) -> None:
        """Bind the snapshots. `owner` is the consumer's subscription. No I/O.

        For nearly all events a comparison says what a snapshot sees, at a fraction of the function's price.
        """
        earlier, later = begin.snapshot, end.snapshot
        self._search = search_between(earlier, later)
        self._snapshots = {"earlier": begin.snap, "later": end.snap, "owner": owner}
        self._snapshots |= {"earlier_xmax": earlier.xmax, "later_xmin": later.xmin}

    def has_events(self, name: str) -> Statement[bool]:
        """Return whether a table has an event of the range."""
        low, high, late = self._search
        query = self._load("has_events", name, low=low, high=high, late=_array(late))
        return Statement(query, {}, scalar)

    def measure_range(self, number: int, name: str) -> Statement[TableRange]:
        """Count the events in a table exactly, and find their blocks; reads all of them."""
        low, high, late = self._search
        query = self._load(
            "measure_range", name, name=name, low=low, high=high, late=_array(late), has_late=bool(late)
        )

        def decode(rows: Rows, _count: int) -> TableRange:
            node, events, first, last = rows[0]
            return TableRange(number, name, node, first or 0, -1 if last is None else last, events)

        return Statement(query, {}, decode)

    def find_full_block(self, name: str, first: int, most: int) -> Statement[tuple[int | None, int]]:
        """Find the block with which a table's events from a block on exceed so many bytes, and the bytes of all."""
        low, high, late = self._search
        query = self._load(
            "find_full_block",
            name,
            low=low,
            high=high,
            late=_array(late),
            has_late=bool(late),
            first=first,
            most=most,
        )

        def decode(rows: Rows, _count: int) -> tuple[int | None, int]:
            block, events = rows[0]
            return block, events

        return Statement(query, {}, decode)

    def sample_range(self, number: int, name: str, samples: int) -> Statement[TableSample]:
        """Count the events in some blocks of a table, evenly spread; reads only those."""
        query = self._load("sample_range", name, name=name, samples=samples)

        def decode(rows: Rows, _count: int) -> TableSample:
            node, blocks, counts = rows[0]
            return TableSample(number, name, node, blocks, tuple(counts))

        return Statement(query, {}, decode)

    def read_range(
        self, name: str, columns: Sequence[str], steps: TickSteps, where: Conditions = NO_CONDITIONS
    ) -> Query:
        """Return the query for the events in a table for which conditions are true, by the index of transactions."""
        low, high, late = self._search
        literals = {**_wanted(columns, steps), **filtering(where)}
        return self._load("read_range", name, **literals, low=low, high=high, late=_array(late))

    def read_blocks(
        self, part: BlockRange, columns: Sequence[str], steps: TickSteps, where: Conditions = NO_CONDITIONS
    ) -> list[Query]:
        """Return the queries for the events in some blocks for which conditions are true, each event in one of them.

        If one tick saw all events, the first query returns those with few columns and omits columns that are NULL. Not
        so with conditions: to look at the blocks twice takes longer than to transfer the columns of a few events.
        """
        at_once = bool(steps.breaks or where.values)
        literals = {
            **_wanted(columns, steps),
            **filtering(where),
            "first": f"({part.first},0)",
            "end": f"({part.end},0)",
            "all": at_once,
        }
        operations = ["read_blocks"] if at_once else ["read_lean_blocks", "read_blocks"]
        return [self._load(operation, part.name, **literals) for operation in operations]

    def _load(self, operation: str, of: str, **literals: object) -> Query:
        schema, _, table = of.partition(".")
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={"schema": schema, "table": table},
            literals={**self._snapshots, **literals},
            failing=f"Could not read {of}",
            prepare=False,
        )


def _wanted(columns: Sequence[str], steps: TickSteps) -> dict[str, object]:
    """Return the columns to read; the tick only if it is not the same for all events."""
    wanted: dict[str, object] = {name: name in columns for name in EVENT_COLUMNS}
    wanted["tick_id"] = "tick_id" in columns and bool(steps.breaks)
    # As text: the driver would choose too small a type for a list of small numbers.
    return {**wanted, "ticks": _array(steps.ticks), "breaks": _array(steps.breaks)}


def _array(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _load(operation: str, doing: str, log: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing=f"Could not {doing}", log=log)


def _states(rows: Rows, _count: int) -> list[RetainedLog]:
    return [RetainedLog._make((*row[:7], _tick(row[7:11]), _tick(row[11:15]))) for row in rows]


def _tick(columns: Sequence[object]) -> TickPosition | None:
    return None if columns[0] is None else TickPosition._make(columns)


def _position(rows: Rows, _count: int) -> TickPosition | None:
    return TickPosition._make(rows[0]) if rows else None


def prepare_reading(*, by_block: bool, statement_timeout: int) -> Query:
    """Return the query that prepares a session for reading, by blocks or by the index; the timeout in milliseconds."""
    literals = {
        "statement_timeout": str(statement_timeout),
        "by_block": "on" if by_block else "off",
        "by_index": "off" if by_block else "on",
    }
    return load(
        f"{_FOLDER}/prepare_reading.sql",
        literals=literals,
        failing="Could not prepare a session for reading",
        prepare=False,
    )


def prepare_control(statement_timeout: int) -> Statement[None]:
    """Prepare a session for planning; the timeout in milliseconds."""
    query = load(f"{_FOLDER}/prepare_control.sql", failing="Could not prepare a session", prepare=False)
    return Statement(query, {"statement_timeout": str(statement_timeout)}, no_rows)
