"""The options of `deliver=tables`: what `rowbus spark lake` sets, and users of the sink may.

Invariant: with any values of them each change is in the lake once.
"""

from __future__ import annotations

from typing import Final

from rowbus.spark.options import REQUIRED, Option, boolean, choice, integer, names, text

COMPACT_EVERY: Final = 20
KEEP_HOURS: Final = 168

TABLES_SINK: Final = (
    Option("deliver", choice("tables"), None, "tables in a lake that follow those of a database"),
    Option("path", text, REQUIRED, "the lake's folder, with a table for each table"),
    Option(
        "tableFormat",
        choice("delta", "iceberg"),
        None,
        "their format; without, that of the folder, Delta in a new one",
    ),
    Option("log", text, REQUIRED, "the log that the tables are captured into"),
    Option("tables", names, ("*",), "which of them, as `shop.orders` or `shop.*`"),
    Option("history", boolean, False, "keep the versions of rows, too, in a table beside each"),
    Option("compactEvery", integer(0), COMPACT_EVERY, "merge small files after so many batches; 0: never"),
    Option(
        "keepHours",
        integer(1),
        KEEP_HOURS,
        "how old files become that no version needs any more; they are deleted at every tenth compaction",
    ),
    Option("dsn", text, None, "the database of the tables; without, that of ROWBUS_DATABASE"),
)
"""The options of `deliver=tables`."""
