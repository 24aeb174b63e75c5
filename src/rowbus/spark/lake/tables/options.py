"""The options of `deliver=tables`: what `rowbus spark lake` sets, and users of the sink may.

Invariant: with any values of them each change is in the lake once.
"""

from __future__ import annotations

from typing import Final

from rowbus.spark.options import REQUIRED, Option, boolean, choice, names, text

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
    Option("dsn", text, None, "the database of the tables; without, that of ROWBUS_DATABASE"),
)
"""The options of `deliver=tables`."""
