"""The event log, as SQL for a migration: its schema, logs, captured tables, and who may use them.

Invariant: no I/O; each statement may run again over what it made before, and none of them ends a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import script
from rowbus.log import catalog
from rowbus.log.schema import table as log_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement


def log_sql(*names: str) -> list[str]:
    """Return the statements that install the event log (schema pgq), or bring it up to date, and create these logs.

    For a role that may create schemas and, while the roles pgq_reader, pgq_writer and pgq_admin are missing, has
    CREATEROLE. They fail where something of a role that this one cannot trust is in the schema. A schema pgq of another
    product is to be taken over before, by `rowbus log adopt`.
    """
    install = [log_schema.lock(), log_schema.guard(), *log_schema.definitions(), log_schema.record_version()]
    return [*map(_text, install), *(_text(catalog.create(name)) for name in names)]


def capture_sql(
    table: str, log: str, *, form: str = "json", arguments: Sequence[str] = (), trigger: str | None = None
) -> list[str]:
    """Return the statement that has a table's changes written to a log, as `rowbus log capture` does.

    It waits for writers of the table.
    """
    return [_text(catalog.capture(table, log, form=form, arguments=arguments, trigger=trigger))]


def release_sql(table: str, log: str) -> list[str]:
    """Return the statement that stops writing a table's changes to a log; what is in the log stays."""
    return [_text(catalog.release(table, log))]


def log_grant_sql(role: str, *, write: bool = False, read: bool = False, admin: bool = False) -> list[str]:
    """Return the statements that let a role append to logs (`write`), read them (`read`), or look after them."""
    wanted = {"pgq_writer": write, "pgq_reader": read, "pgq_admin": admin}
    return [
        _text(log_schema.grant_role(privileges, role))
        for privileges, is_wanted in wanted.items()
        if is_wanted
    ]


def _text(statement: Statement[object]) -> str:
    return script(statement).removesuffix(";")
