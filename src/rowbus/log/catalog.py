"""The logs of a database: create, configure, capture into, list and drop them; the state of them and their consumers.

Invariant: what reads locks nothing and changes nothing; a log that is missing is a LogNotFoundError or no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.database.statements import Statement, each, run_steps_now, scalar
from rowbus.errors import ConfigurationError
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.diagnosis import CaptureFault, ConsumerState, LogState, LostCapture, ReplicaFault
from rowbus.log.queries import log_query
from rowbus.messages.address import QueueAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Decode, Rows, T

REPLICAS = QueueAddress("rowbus_spark", "replica_table")
"""The table that notes the tables of replicas, wherever Spark's schema is installed."""

SETTINGS = (
    "ticker_max_count",
    "ticker_max_lag",
    "ticker_idle_period",
    "ticker_paused",
    "rotation_period",
    "external_ticker",
)
"""The settings of PgQ that can be changed."""

OPTIONS = ("tick_period", "max_retries", "ordered_ticks")
"""The settings that Rowbus adds; each can be unset."""


class Capture(NamedTuple):
    """A trigger that writes a table's changes to a log: its format, and its arguments after the log's name.

    `generated` says whether there is code of its own for it: yes, no, or stale until the next maintenance.
    """

    log: str
    table: str
    trigger: str
    format: str
    arguments: list[str]
    generated: str


class ShapeChange(NamedTuple):
    """A change of a captured table's shape, as the log was told it; `event` is the event's number.

    `change` is the event's data, in the form of docs/wire-format.md#changes-of-shape.
    """

    time: datetime
    event: int
    table: str
    change: dict[str, Any]

    def sentences(self) -> Iterator[str]:
        """Say in words what changed."""
        before, after = self.change["before"], self.change["after"]
        if after is None:
            yield "dropped"
            return
        for part, word, mark in (("table", "table", "."), ("pkey", "key", ",")):
            if before[part] != after[part]:
                yield f"{word} {mark.join(before[part])} → {mark.join(after[part])}"
        yield from _columns_told(before["columns"], after["columns"], self.change["filled"])
        if self.change["rewritten"]:
            yield "rows written anew"


def _columns_told(
    before: list[dict[str, Any]], after: list[dict[str, Any]], filled: Mapping[str, str | None]
) -> Iterator[str]:
    """Say which columns came, went and changed; a column is known by its number."""
    old = {column["number"]: column for column in before}
    for column in after:
        known = old.pop(column["number"], None)
        if known is None:
            value = f", filled with {filled[column['name']] or 'values'}" if column["name"] in filled else ""
            yield f"+ {_told(column)}{value}"
        elif _told(known) != _told(column):
            yield f"{_told(known)} → {_told(column)}"
    yield from (f"- {_told(column)}" for column in old.values())


def _told(column: Mapping[str, Any]) -> str:
    mask = f" mask {column['mask']}" if "mask" in column else ""
    return f"{column['name']} {column['type']}{' not null' if column['required'] else ''}{mask}"


def create(log: str) -> Statement[bool]:
    """Create a log if it is missing; answers whether it was. Another creator at the same time may make this fail.

    Raises ConfigurationError for a name without a letter or sign, which a script's empty variable would be.
    """
    if not log.strip():
        raise ConfigurationError(f"{log!r} is no name of a log: it needs a character that can be seen.")
    return _statement("logs/create", f'Failed to create log "{log}"', _is_one, log)


def find_consumer(session: Session, log: str, consumer: str) -> ConsumerState:
    """Return how a consumer stands; raises ConsumerNotFoundError."""
    run_steps_now(session, ConsumerTable(log, consumer).find())
    return next(state for state in session.run(consumer_states(log)) if state.consumer == consumer)


def drop(log: str, *, force: bool) -> Statement[bool]:
    """Drop a log and its events; refused while it has consumers or captured tables, unless forced."""
    return _statement("logs/drop", f'Failed to drop log "{log}"', _is_one, log, force=force)


def config(log: str) -> Statement[dict[str, str | None]]:
    """Read a log's settings; none when there is no such log."""
    return _statement("logs/config", f'Failed to read the settings of log "{log}"', _pairs, log)


def configure(log: str, name: str, value: str | None) -> Statement[bool]:
    """Change one of the settings, or one of the options, where None unsets it; the value as PostgreSQL writes it.

    Answers False, and changes nothing, for a number or a time below none, and for more than a hundred years.
    """
    operation = "logs/configure_option" if name in OPTIONS else "logs/configure"
    failing = f'Failed to set {name} of log "{log}" to {value!r}'
    return _statement(operation, failing, _is_one, log, name=name, value=value)


def log_states(log: str | None = None) -> Statement[list[LogState]]:
    """Read the state of logs, all or one."""
    return _statement("diagnosis/log_states", "Failed to look for logs", each(LogState._make), log)


def consumer_states(log: str | None = None) -> Statement[list[ConsumerState]]:
    """Read the state of consumers, of all logs or of one."""
    return _statement(
        "diagnosis/consumer_states",
        "Failed to look for the consumers of logs",
        each(ConsumerState._make),
        log,
    )


def captures(log: str | None = None) -> Statement[list[Capture]]:
    """List the triggers that write to logs, to all or to one."""
    return _statement("capture/captures", "Failed to look for captured tables", each(Capture._make), log)


def capture_faults(log: str | None = None) -> Statement[list[CaptureFault]]:
    """Look for what hides rows of captured tables from this role, or changes what is written of them."""
    return _statement(
        "diagnosis/capture_faults", "Failed to look at captured tables", each(CaptureFault._make), log
    )


def lost_captures() -> Statement[list[LostCapture]]:
    """List tables that were captured, and were made anew under the same name without that."""
    query = log_query("diagnosis/lost_captures", "Failed to look for tables that are captured no longer")
    return Statement(query, {}, each(LostCapture._make))


def replica_faults() -> Statement[list[ReplicaFault]]:
    """List the tables of replicas in this database that stand still. Raises QueueNotFoundError where there are none."""
    query = log_query("diagnosis/replica_faults", "Failed to look at the replicas")
    return Statement(query._replace(queue=str(REPLICAS)), {}, each(ReplicaFault._make))


def shape_changes(log: str) -> Statement[list[ShapeChange]]:
    """List the changes of shape of the tables captured into a log, as far back as they were told; the oldest first."""
    failing = f'Failed to read the changes of shape of log "{log}"'
    return _statement("capture/shape_changes", failing, each(ShapeChange._make), log)


def capture(
    table: str, log: str, *, form: str, arguments: Sequence[str], trigger: str | None
) -> Statement[str]:
    """Have a table's changes written to a log; answers the trigger's name. Waits for writers of the table."""
    failing = f'Failed to capture {table} into log "{log}"'
    parameters = {"table": table, "format": form, "arguments": list(arguments), "trigger": trigger}
    return _statement("capture/capture", failing, scalar, log, **parameters)


def release(table: str, log: str) -> Statement[int]:
    """Stop writing a table's changes to a log; answers how many triggers were dropped."""
    failing = f'Failed to release {table} from log "{log}"'
    return _statement("capture/release", failing, scalar, log, table=table)


def _statement(
    operation: str, failing: str, decode: Decode[T], log: str | None, **parameters: object
) -> Statement[T]:
    return Statement(log_query(operation, failing, log=log or ""), {"log": log, **parameters}, decode)


def _is_one(rows: Rows, _count: int) -> bool:
    return rows != [] and bool(rows[0][0] == 1)


def _pairs(rows: Rows, _count: int) -> dict[str, str | None]:
    return dict(rows)
