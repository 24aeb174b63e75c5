"""The options of the log source: `format("rowbus").option("log", …)`.

They have the names of Spark's Kafka source where they mean the same. Invariant: options are checked here, before any
I/O; the other modules of the source get a `LogSettings`.
"""

from __future__ import annotations

import json as _json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, cast

from rowbus.database.postgresql.arrow import Access
from rowbus.errors import ConfigurationError
from rowbus.messages.timestamps import with_zone
from rowbus.spark.filters import where_option
from rowbus.spark.json_rows.layout import JSON_OPTIONS, mode_option
from rowbus.spark.log_source.decisions import KINDS
from rowbus.spark.options import (
    BIGGEST,
    Option,
    boolean,
    choice,
    full_name,
    integer,
    milliseconds,
    names,
    parse_options,
    text,
)

COLUMNS: Final = {
    "log": "string",
    "ev_id": "bigint",
    "ev_time": "timestamp",
    "ev_txid": "bigint",
    "ev_retry": "int",
    "ev_type": "string",
    "ev_data": "string",
    "ev_extra1": "string",
    "ev_extra2": "string",
    "ev_extra3": "string",
    "ev_extra4": "string",
    "tick_id": "bigint",
}
"""The columns of the log source, in their order, and their types."""

Where = str | int | dict[str, Any] | datetime

WORDS: Final = ("committed", "earliest", "latest")
_SPECIAL: Final = {-2: "earliest", -1: "latest"}  # as in Kafka's JSON

LOG_SOURCE: Final = (
    Option("log", text, None, "the log to read"),
    Option("logs", names, None, "several logs to read, each with a position of its own"),
    Option("logPattern", text, None, "the logs whose names match this regular expression (PostgreSQL's)"),
    Option("consumer", text, None, "the consumer's name, which holds the events; required in streams"),
    Option("dsn", text, None, "the database; else ROWBUS_DATABASE, else the embedded server"),
    Option("readDsn", text, None, "a streaming replica of it to read the events from"),
    Option("columns", names, tuple(COLUMNS), "the columns to read; only these are transferred"),
    Option("schema", text, None, "typed rows in SQL: the columns, as `order_id string, total decimal(10,2)`"),
    Option(
        "changes",
        text,
        None,
        "a table captured into the log, as `shop.orders`: rows are its changes, with `op`, `before` and `after` in the "
        "types of the catalogue",
    ),
    Option(
        "snapshot",
        choice("initial", "never"),
        "never",
        "stream with `changes`: `initial` begins with the rows of the table: a new checkpoint's first micro-batch has, "
        "as `op = 'r'` in `after`, each row that no change after the stream's beginning tells of, as it stood there, "
        "with that tick's id and time. All changes since follow, so rows and changes by key are the table, also when "
        "the batch is repeated. Needs `select` on the table, and a key; no `where`. One task holds the keys that "
        "changed since: few with `startingOffsets=latest`",
    ),
    where_option(KINDS),
    mode_option("mode"),
    *JSON_OPTIONS,
    Option(
        "startingOffsets",
        text,
        None,
        "where a new query begins: `committed` (the consumer's position; a new consumer's is `earliest`; the default "
        "of streams), `earliest` (the default of batches), `latest`, or by log as JSON: "
        '`{"orders": {"tick": 7}, "audit": -2}`; -2 is earliest, -1 latest',
    ),
    Option("endingOffsets", text, "latest", "batch: where to end, as `startingOffsets`"),
    Option(
        "startingTimestamp",
        text,
        None,
        "begin at the last tick not after this time: ISO 8601, or milliseconds",
    ),
    Option("endingTimestamp", text, None, "batch: end at the last tick not after this time"),
    Option(
        "startingOffsetsByTimestamp",
        text,
        None,
        'the same by log, as JSON: `{"orders": "2026-11-20T12:00Z"}`',
    ),
    Option("endingOffsetsByTimestamp", text, None, "batch: the same for the end"),
    Option(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        "error",
        "what to do about a time before the oldest tick: fail, or begin with the latest",
    ),
    Option(
        "maxOffsetsPerTrigger",
        integer(),
        None,
        "about how many events a micro-batch takes at most, of all logs",
    ),
    Option(
        "maxBytesPerTrigger",
        integer(),
        None,
        "about how many bytes of events a micro-batch takes of a log at most, and a block of its table at least",
    ),
    Option(
        "cutTicks",
        boolean,
        True,
        "let a micro-batch end within a tick that exceeds the limits; changes of one row may then come in another "
        "order, so never with `changes`",
    ),
    Option("maxTicksPerTrigger", integer(), None, "how many ticks of a log a micro-batch takes at most"),
    Option(
        "minOffsetsPerTrigger",
        integer(),
        None,
        "wait until about so many events are there, or `maxTriggerDelay` is over",
    ),
    Option("maxTriggerDelay", milliseconds, 900_000, "how long `minOffsetsPerTrigger` may wait"),
    Option("minPartitions", integer(), 1, "read a log's part of a micro-batch by so many tasks at least"),
    Option(
        "maxRecordsPerPartition", integer(), None, "about how many events a task reads at most; else 250,000"
    ),
    Option(
        "failOnDataLoss",
        boolean,
        True,
        "fail when unread events are not retained any more; else continue with the oldest retained ones, and "
        "log how many were lost",
    ),
    Option("skipEmptyTicks", boolean, True, "make no micro-batch of ticks without events"),
    Option(
        "releaseOn",
        choice("offset", "commit"),
        "offset",
        "release events when Spark asks for the next batch, or (asynchronous progress tracking) when it says that "
        "they are committed",
    ),
    Option("pollIntervalMs", milliseconds, 260, "look for ticks this often when none is announced"),
    Option("lockTimeoutMs", milliseconds, 3000, "wait so long for the consumer's previous query to end"),
    Option("replicaTimeoutMs", milliseconds, 60_000, "wait so long until the replica has what is to be read"),
    Option("statementTimeoutMs", milliseconds, 0, "let no statement take longer; 0: as long as it takes"),
    Option(
        "fetchOffset.numRetries",
        integer(0),
        3,
        "how often a lost connection is replaced before the query fails",
    ),
    Option("fetchOffset.retryIntervalMs", milliseconds, 100, "how long to wait before; doubled each time"),
    Option(
        "reader",
        choice("auto", "adbc", "psycopg"),
        "auto",
        "the driver that reads events; `auto`: ADBC if installed",
    ),
)
"""The options of `spark.read` and `spark.readStream` for logs."""


class Edge(NamedTuple):
    """Where to begin or end: for all logs, and for single ones."""

    anywhere: Where
    by_log: Mapping[str, Where]
    strategy: str = "error"

    def of(self, log: str) -> Where:
        """Return the value for a log: a word, a tick, an offset, or a time."""
        return self.by_log.get(log, self.anywhere)


class LogSettings(NamedTuple):
    """The options of a log source, parsed."""

    logs: tuple[str, ...]
    pattern: str | None
    consumer: str | None
    dsn: str | None
    options: dict[str, Any]
    """The other options by their names."""

    starting: Edge
    ending: Edge
    changes: str | None = None
    """The captured table whose changes are read, as `schema.table`."""

    @property
    def name(self) -> str:
        """The logs' names, for messages."""
        return ", ".join(self.logs) or f"those matching {self.pattern}"

    def access(self, dsn: str) -> Access:
        """Return how tasks read events."""
        return Access(
            self.options["readDsn"] or dsn,
            self.options["reader"],
            f"rowbus spark read {self.consumer or self.name}",
            self.options["fetchOffset.numRetries"],
            self.options["fetchOffset.retryIntervalMs"] / 1000,
        )


def read_settings(given: Mapping[str, str], *, stream: bool) -> LogSettings:
    """Read the options of a stream or a batch; raises ConfigurationError."""
    options = parse_options(given, LOG_SOURCE, of="the log source")
    logs = {*(options["logs"] or ()), *([options["log"]] if options["log"] else ())}
    if stream and not options["consumer"]:
        raise ConfigurationError(
            "A stream of a log needs the option 'consumer': the name under which its events are retained.",
            option="consumer",
        )
    _check_columns(options["columns"])
    _check_changes(options)
    if stream and (ending := _given(options, "ending")):
        raise ConfigurationError(f"A stream has no end: leave out {ending[0]!r}.", option=ending[0])
    edges = (
        _wanted(options, "starting", "committed" if stream or options["consumer"] else "earliest"),
        _wanted(options, "ending", "latest"),
    )
    unread = {log for edge in edges for log in edge.by_log} - logs
    if unread and options["logPattern"] is None:
        raise ConfigurationError(
            f"An option says where in log {min(unread)!r} to begin or end, which is not read."
        )
    return LogSettings(
        tuple(sorted(logs)),
        options["logPattern"],
        options["consumer"],
        options["dsn"],
        options,
        *edges,
        full_name(options["changes"]) if options["changes"] else None,
    )


def _check_columns(columns: tuple[str, ...]) -> None:
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or len(set(columns)) < len(columns):
        raise ConfigurationError(
            f"Option 'columns' names some of {', '.join(COLUMNS)}, each once: not {', '.join(unknown or columns)}.",
            option="columns",
        )


def _check_changes(options: Mapping[str, Any]) -> None:
    """Refuse what says otherwise than `changes`, which is of one log, and has columns of its own."""
    if options["snapshot"] == "initial" and (options["changes"] is None or options["where"].values):
        raise ConfigurationError(
            "Option 'snapshot' is for the changes of one table, all of them: give 'changes', and no 'where'.",
            option="snapshot",
        )
    if options["changes"] is None:
        return
    given = {
        "logs": options["logs"],
        "logPattern": options["logPattern"],
        "schema": options["schema"],
        "columns": options["columns"] != tuple(COLUMNS),
        "fromBody": options["fromBody"],
    }
    other = next((name for name, found in given.items() if found), None)
    if other is not None:
        why = "it is of one 'log'" if other.startswith("log") else "its columns are those of the catalogue"
        raise ConfigurationError(
            f"Option 'changes' and option {other!r} are given: {why}, so leave {other!r} out.", option=other
        )


def _given(options: Mapping[str, Any], side: str) -> list[str]:
    """Return the options that say where to begin, or to end."""
    default = "latest" if side == "ending" else None
    words = (f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp")
    return [name for name in words if options[name] not in {None, default}]


def _wanted(options: Mapping[str, Any], side: str, word: str) -> Edge:
    given = _given(options, side)
    if len(given) > 1:
        raise ConfigurationError(f"Give one of the options {' and '.join(given)}.", option=given[0])
    strategy = options["startingOffsetsByTimestampStrategy"]
    by_time = options[f"{side}OffsetsByTimestamp"]
    time = options[f"{side}Timestamp"]
    offsets = options[f"{side}Offsets"] or word
    if by_time:
        times = {log: read_time(found, side) for log, found in _object(by_time, side).items()}
        return Edge(word, times, strategy)
    if time:
        return Edge(read_time(time, side), {}, strategy)
    if offsets in WORDS:
        if side == "ending" and offsets != "latest":
            raise ConfigurationError(
                f"'endingOffsets' is latest or JSON, not {offsets}.", option="endingOffsets"
            )
        return Edge(offsets, {}, strategy)
    return Edge(
        word, {log: _place(place) for log, place in _object(offsets, side).items() if log != "v"}, strategy
    )


def _object(given: str, side: str) -> dict[str, Any]:
    try:
        found: object = _json.loads(given)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError(
            f"Option '{side}Offsets' is one of {', '.join(WORDS)}, or JSON by log, not {given!r}.",
            option=f"{side}Offsets",
        )
    return cast("dict[str, Any]", found)


def _place(place: Any) -> Any:  # noqa: ANN401 - JSON
    parts = cast("dict[str, Any]", place if isinstance(place, dict) else {"tick": place})
    tick = parts.get("tick")
    if type(tick) is not int or tick > BIGGEST:
        raise ConfigurationError(f'A position in a log is {{"tick": 7}}, -2 or -1, not {place!r}.')
    return parts if "snap" in parts else _SPECIAL.get(tick, tick)


def read_time(given: object, side: str) -> datetime:
    """Read a time: ISO 8601 (UTC unless it says another zone), or milliseconds since 1970 as Kafka has it."""
    try:
        number = str(given)
        if number.lstrip("-").isdigit() and len(number) > len("20261120"):
            return datetime.fromtimestamp(int(number) / 1000, UTC)
        time = datetime.fromisoformat(number)
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigurationError(f"{given!r} is no time for '{side}Timestamp'.") from error
    return with_zone(time)
