"""Facts that the messages of queues and logs tell of their way: who sent, received and failed to handle them, and when.

Everything is read from headers (docs/wire-format.md#headers), as Rowbus and NServiceBus write them, in Spark's own
expressions: no Python runs for a message.

`pattern` makes `Order 42 of 'alice' not found` and `Order 7 of 'bob' not found` the same text; `frames` reads the
functions off a stack trace, Python's or .NET's, without line numbers, addresses and the places where files lie.

Invariants: no header fails the report, however malformed. What cannot be read is NULL, and counted as such. Pure and
total: any text gives an answer, in time linear in its length.
"""

from __future__ import annotations

import hashlib
import re
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from rowbus.log.archive import BASE64, TEXT
from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

QUEUE: Final = "queue"
LOG: Final = "log"

# As `messages.timestamps` reads it: digits in their places, any characters between them. No year 0, for Python's sake.
_TIMESTAMP: Final = (
    r"(?s)\A(?!0000)([0-9]{4}).([0-9]{2}).([0-9]{2}).([0-9]{2}).([0-9]{2}).([0-9]{2}).([0-9]{6})..\z"
)
_ISO: Final = "$1-$2-$3T$4:$5:$6.$7Z"
# A wire name up to the comma before its assembly; commas in the brackets of a generic type belong to the name.
_NAME: Final = r"\A\s*((?:[^,\[]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*)"
_TABLE: Final = r'"((?:[^"]|"")+)"\z'
_CHANGE: Final = r"\A([IUD])(:.*)?\z"


def queued_messages(rows: DataFrame) -> DataFrame:
    """Return the messages of a queue's rows: columns `queue`, `id`, `headers` (JSON, or a map of strings)."""
    return rows.select(
        F.lit(QUEUE).alias("origin"),
        F.col("queue"),
        F.col("id").cast("string").alias("row_id"),
        _as_map(rows).alias("headers"),
    )


def archived_messages(events: DataFrame) -> DataFrame:
    """Return the messages among a log's events: those that `rowbus log from-queue` moved there."""
    return events.where(F.col("ev_extra2").isin(TEXT, BASE64)).select(
        F.lit(LOG).alias("origin"),
        F.col("ev_extra3").alias("queue"),
        F.col("ev_extra4").alias("row_id"),
        _parsed(F.col("ev_extra1")).alias("headers"),
    )


def message_facts(messages: DataFrame, parts: int | None = None) -> DataFrame:
    """Return what each message says about itself, once, also if it was found in a queue and in a log or two.

    `state` is processed, failed, or waiting; `due` is when it was sent, or the later moment it was to be delivered at.
    `parts` is how many partitions there shall be.
    """
    columns = [column.alias(name) for name, column in _facts().items()]
    facts = _once(messages.select("origin", "queue", "row_id", *columns), ["queue", "row_id"], parts)
    return facts.withColumn("due", F.greatest("sent", "deliver_at")).withColumn("state", _state())


def event_facts(events: DataFrame, parts: int | None = None) -> DataFrame:
    """Return what each event says about itself, once, also if it was found in a log and in its archive.

    The type of a captured change is the table's name and what was done to it.
    """
    keys = ["log", "ev_id", "ev_txid"]
    is_retry = F.col("ev_retry").isNotNull().alias("is_retry")
    facts = events.select(
        *keys, _event_type().alias("event_type"), F.col("ev_time").alias("at"), "tick_id", is_retry, "bytes"
    )
    return _once(facts, keys, parts)


def _once(facts: DataFrame, keys: list[str], parts: int | None) -> DataFrame:
    """Keep one of what is the same; facts first, because headers are long."""
    together = facts if parts is None else facts.repartition(parts, *keys)
    return together.dropDuplicates(keys)


def within(facts: DataFrame, at: Column, since: datetime | None, until: datetime | None) -> DataFrame:
    """Keep what happened from `since` on and before `until`; with either given, what has no time is left out."""
    if since is not None:
        facts = facts.where(at >= F.lit(since))
    return facts if until is None else facts.where(at < F.lit(until))


def last_heard() -> Column:
    """Return when a message was last heard of."""
    return F.coalesce("ended", "failed", "started", "sent")


def moment(header: Column) -> Column:
    """Read a timestamp header; NULL for what is none."""
    iso = F.regexp_replace(header, _TIMESTAMP, _ISO)
    return F.when(header.rlike(_TIMESTAMP), iso.try_cast("timestamp"))


def first_type(header: Column) -> Column:
    """Read the most concrete type of EnclosedMessageTypes, without its assembly; NULL if there is none."""
    names = F.filter(F.split(header, ";"), lambda name: ~name.contains("__impl"))
    name = F.trim(F.regexp_extract(F.try_element_at(names, F.lit(1)), _NAME, 1))
    return F.when(F.length(name) > 0, name)


def _facts() -> dict[str, Column]:
    failed_queue = _header(Header.FAILED_QUEUE)
    return {
        "message_id": F.coalesce(_header(Header.MESSAGE_ID), F.col("row_id")),
        "message_type": _message_type(),
        "endpoint": F.coalesce(
            _header(Header.PROCESSING_ENDPOINT), _table(failed_queue), _table(F.col("queue"))
        ),
        "sent": moment(_header(Header.TIME_SENT)),
        "deliver_at": moment(_header(Header.DELIVER_AT)),
        "started": moment(_header(Header.PROCESSING_STARTED)),
        "ended": moment(_header(Header.PROCESSING_ENDED)),
        "failed": moment(_header(Header.TIME_OF_FAILURE)),
        "failed_queue": failed_queue,
        "exception_type": _header(Header.EXCEPTION_TYPE),
        "exception_message": _header(Header.EXCEPTION_MESSAGE),
        "stack_trace": _header(Header.EXCEPTION_STACK_TRACE),
        "is_readable": F.col("headers").isNotNull(),
    }


def _message_type() -> Column:
    return (
        F.when(F.col("headers").isNull(), "(unreadable headers)")
        .when(F.lower(_header(Header.CONTROL_MESSAGE)) == "true", "(control message)")
        .otherwise(F.coalesce(first_type(_header(Header.ENCLOSED_MESSAGE_TYPES)), F.lit("(no type)")))
    )


def _event_type() -> Column:
    done = F.regexp_extract("ev_type", _CHANGE, 1)
    word = F.when(done == "I", "insert").when(done == "U", "update").otherwise("delete")
    is_change = F.col("ev_type").rlike(_CHANGE) & F.col("ev_extra1").isNotNull()
    change = F.concat_ws(" ", "ev_extra1", word)
    return F.when(is_change, change).otherwise(F.coalesce("ev_type", F.lit("(no type)")))


def _state() -> Column:
    failed = F.coalesce("failed_queue", "exception_type").isNotNull() | F.col("failed").isNotNull()
    return F.when(failed, "failed").when(F.col("ended").isNotNull(), "processed").otherwise("waiting")


def _header(name: str) -> Column:
    return F.try_element_at(F.col("headers"), F.lit(name))


def _table(canonical: Column) -> Column:
    """Return the table's name of an address such as "public"."Sales"; other text as it is."""
    name = F.regexp_replace(F.regexp_extract(canonical, _TABLE, 1), '""', '"')
    return F.when(F.length(name) > 0, name).otherwise(canonical)


def _as_map(rows: DataFrame) -> Column:
    headers = F.col("headers")
    return _parsed(headers) if rows.schema["headers"].dataType.simpleString() == "string" else headers


def _parsed(headers: Column) -> Column:
    """Read the JSON of headers; empty text is no headers, as .NET reads it."""
    text = F.when(F.length(F.coalesce(headers, F.lit(""))) == 0, "{}").otherwise(headers)
    return F.from_json(text, "map<string,string>")


LONGEST_TEXT: Final = 2_000  # characters of a message that are looked at
LONGEST_PATTERN: Final = 200  # characters of a pattern; what follows no longer tells failures apart
LONGEST_TRACE: Final = 200_000  # characters of a stack trace that are looked at, those at its end
MOST_FRAMES: Final = 100

_GUID: Final = re.compile(r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE)
_HEX: Final = re.compile(r"\b(?=[a-f]{0,31}[0-9])[0-9a-f]{8,}\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`|“[^”\n]*”")
# What PostgreSQL quotes of a row: Key (order_id)=(42) already exists.
_KEY: Final = re.compile(r"\)=\([^)\n]*\)")
_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?[0-9][0-9.,:_]*|[0-9]+")
_SPACE: Final = re.compile(r"\s+")

_PYTHON_FRAME: Final = re.compile(r'^[ |+]*File "([^"\n]*)", line [0-9]+, in ([^\n]+)$', re.MULTILINE)
_DOTNET_FRAME: Final = re.compile(r"^[ \t]*at ([^\n(]+)\(", re.MULTILINE)
# The compiler turns an async method `Handle` into `<Handle>d__3.MoveNext`.
_STATE_MACHINE: Final = re.compile(r"<(\w+)>d__[0-9]+\.MoveNext$")
_LAMBDA: Final = re.compile(r"<(\w*)>[bg]__[\w|]+")


class Signature(NamedTuple):
    """The marks of one kind of failure: what was said, where it was raised, and a hash of the way there."""

    pattern: str
    where: str
    trace: str


def signature(message: str | None, stack_trace: str | None) -> Signature:
    """Return the signature of a failure from the headers ExceptionInfo.Message and ExceptionInfo.StackTrace."""
    found = frames(stack_trace or "")
    trace = hashlib.sha256("\n".join(found).encode("utf-8", "replace")).hexdigest()[:12] if found else ""
    return Signature(pattern(message or ""), found[0] if found else "", trace)


def pattern(message: str) -> str:
    """Return a message with `#` in place of numbers, `…` in place of what is quoted, `<id>` in place of ids."""
    text = message[:LONGEST_TEXT]
    for expression, replacement in (
        (_GUID, "<id>"),
        (_ADDRESS, "<id>"),
        (_QUOTED, "'…'"),
        (_KEY, ")=(…)"),
        (_HEX, "<id>"),
        (_NUMBER, "#"),
        (_SPACE, " "),
    ):
        text = expression.sub(replacement, text)
    text = text.strip()
    return text if len(text) <= LONGEST_PATTERN else f"{text[: LONGEST_PATTERN - 1]}…"


def frames(stack_trace: str) -> list[str]:
    """Return the functions a failure went through, the one that raised first; recursion counts once.

    A trace of neither form gives none.
    """
    text = stack_trace[-LONGEST_TRACE:]
    found = [_python_frame(*match) for match in _PYTHON_FRAME.findall(text)][::-1]
    if not found:
        found = [_dotnet_frame(match) for match in _DOTNET_FRAME.findall(stack_trace[:LONGEST_TRACE])]
    return [frame for frame, _ in groupby(found)][:MOST_FRAMES]


def _python_frame(path: str, function: str) -> str:
    """Keep the file's name and its folder's: where an installation lies says nothing about a failure."""
    place = "/".join(path.replace("\\", "/").split("/")[-2:])
    return f"{_NUMBER.sub('#', place)} {function.strip()}"


def _dotnet_frame(method: str) -> str:
    return _LAMBDA.sub(r"\1", _STATE_MACHINE.sub(r"\1", method.strip()))
