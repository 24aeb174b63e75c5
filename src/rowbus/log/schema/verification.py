"""The event log's schema in a database: its functions and triggers, for comparison with the files that define it.

Invariant: statements on catalogues only, but for `public_functions`, which calls a function of schema `pgq`: it is for
a schema whose functions are as they should be.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, load, raw_source, split_script
from rowbus.log.schema.definitions import Function, definition, private_names
from rowbus.log.schema.table import SCHEMAS, files

if TYPE_CHECKING:
    from rowbus.database.statements import Query, Rows
    from rowbus.log.schema.definitions import Definition

_TRIGGER = re.compile(r"^create (?:or replace )?trigger (\w+)", re.MULTILINE)


@cache
def _statements() -> tuple[str, ...]:
    return tuple(text for path in files() for text in split_script(raw_source(path)))


def definitions() -> list[Definition]:
    """Read what this Rowbus would install."""
    return [found for text in _statements() for found in definition(text)]


def private_functions() -> set[str]:
    """Name the functions that this Rowbus takes from PUBLIC."""
    return private_names(_statements())


def functions() -> Statement[list[Function]]:
    """List the functions there are."""
    return Statement(_load("functions"), {"schemas": list(SCHEMAS)}, _functions)


def stray_triggers() -> Statement[list[str]]:
    """Describe the triggers and rules on the log's own tables that Rowbus has not made."""
    known = sorted({name for text in _statements() for name in _TRIGGER.findall(text)})
    return Statement(_load("stray_triggers"), {"schemas": list(SCHEMAS), "triggers": known}, _first_column)


def public_functions() -> Statement[list[str]]:
    """List the functions that PUBLIC may execute although privileges are split by role."""
    return Statement(_load("public_functions"), {}, _first_column)


def _load(operation: str) -> Query:
    return load(
        f"log/sql/postgresql/installation/{operation}.sql",
        failing="Failed to verify the event log",
        prepare=False,
    )


def _functions(rows: Rows, _count: int) -> list[Function]:
    return [Function._make(row) for row in rows]


def _first_column(rows: Rows, _count: int) -> list[str]:
    return [row[0] for row in rows]
