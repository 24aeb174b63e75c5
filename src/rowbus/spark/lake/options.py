"""The options of the lake sinks: `format("rowbus").option("deliver", "delta")`, or `"iceberg"`.

Only `path` is required. Invariant: each batch is in the table exactly once with any values of the others.
"""

from __future__ import annotations

from typing import Final

from rowbus.spark.options import Option, choice, integer, names, text

LAKE_SINK: Final = (
    Option("deliver", choice("delta", "iceberg"), None, "the format of the table"),
    Option(
        "rowSchema", text, None, "the columns of a table made in SQL, as `id bigint, total decimal(10,2)`"
    ),
    Option(
        "path",
        text,
        None,
        "the table's folder, also as argument of `start` and `save`; all hosts must see it",
    ),
    Option(
        "partitionBy",
        names,
        (),
        "columns whose values separate files: text, whole numbers, dates or booleans; Spark drops what "
        "`writeStream.partitionBy` says",
    ),
    Option(
        "targetFileBytes", integer(), 128 * 2**20, "a task begins another file when one has reached this size"
    ),
    Option(
        "txnAppId",
        text,
        None,
        "who writes, for recognising a batch that is there already; else the id of the query",
    ),
    Option(
        "txnVersion",
        integer(0),
        None,
        "batch writes: the number of this write; done once for each `txnAppId`",
    ),
    Option(
        "mergeKeys",
        names,
        (),
        "the columns that say which row is meant; rows are merged by them. Without, rows are added",
    ),
    Option(
        "sequenceBy",
        text,
        None,
        "with `mergeKeys`: the column by which the newest row of a key is found, such as `ev_id`; it is in the "
        "table, too. Without, a key may come only once in a batch, and the last batch wins",
    ),
    Option(
        "deleteWhen",
        text,
        None,
        "with `mergeKeys`: which rows delete: a boolean column, or `column=value` (several values: `column=D|T`); "
        "the column is not in the table",
    ),
    Option(
        "table",
        text,
        None,
        "`iceberg`: `namespace.name` in the catalogue; else `lake.` and the folder's name",
    ),
    Option(
        "catalog",
        text,
        None,
        "`iceberg`: the catalogue, a URL (`sqlite:///…`, `postgresql://…`, `https://…`) or a name that pyiceberg is "
        "configured with; else catalog.db in the folder",
    ),
)
"""The options of `df.write` and `df.writeStream` for lakes."""
