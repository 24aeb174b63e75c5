"""Options of tables: `create table … using rowbus options (…)`.

Spark gives a table's options to the data source when the table is created, and never after that. So they are kept
in the table's columns: as metadata of the first one, which Spark hands on whenever it reads or writes the table.

Invariant: pure functions; a password is never kept.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from rowbus.errors import ConfigurationError
from rowbus.spark.column_list import parse_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

KEPT: Final = "rowbus.options"
_GIVEN: Final = "option."  # before the names of a table's options, which Spark repeats without it
_PASSWORD: Final = re.compile(r"password\s*=|://[^/?#]*:[^/?#]*@", re.IGNORECASE)


def is_table(given: Mapping[str, str]) -> bool:
    """Say whether these are the options of a table that is being created."""
    return "provider" in given


def of_table(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that the user gave for a table, without the table's properties."""
    return {name.removeprefix(_GIVEN): text for name, text in given.items() if name.startswith(_GIVEN)}


def keep(columns: StructType, options: Mapping[str, str]) -> StructType:
    """Keep a table's options in its columns. Raises ConfigurationError for a password: all who see the table see it."""
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    for name, text in options.items():
        if _PASSWORD.search(text):
            raise ConfigurationError(
                f"Option {name!r} has a password, which all who may see the table would see: take it from "
                "ROWBUS_DATABASE, a passfile or a service file.",
                option=name,
            )
    first, *others = columns.fields
    metadata: dict[str, Any] = {**(first.metadata or {}), KEPT: json.dumps(options)}
    return spark.StructType([spark.StructField(first.name, first.dataType, metadata=metadata), *others])


def sink_columns(options: Mapping[str, str]) -> StructType:
    """Return the columns of a table that is a sink; raises ConfigurationError without the option `rowSchema`."""
    columns = next((text for name, text in options.items() if name.lower() == "rowschema"), None)
    if columns is None:
        raise ConfigurationError(
            "A table that takes rows needs the option 'rowSchema': its columns, such as `id bigint, total double`.",
            option="rowSchema",
        )
    return parse_columns(columns)


def kept(columns: StructType) -> dict[str, str]:
    """Return the options kept in a table's columns; none for what is no table."""
    found = next((field.metadata[KEPT] for field in columns if KEPT in (field.metadata or {})), "{}")
    options: dict[str, str] = json.loads(found)
    return options
