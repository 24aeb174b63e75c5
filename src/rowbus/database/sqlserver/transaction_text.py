"""The T-SQL of transaction control, each text a batch of its own without parameters.

A savepoint of the same name takes the place of the one before; none can be released, and none needs to be.

Invariant: no text ends a transaction that its session did not begin, and the message's savepoint has one name.
"""

from __future__ import annotations

import re

from rowbus.database.statements import source

MESSAGE = "rowbus_message"
BEGIN = "begin transaction"
COMMIT = "commit transaction"
ROLLBACK = "if @@trancount > 0 rollback transaction"
STATE = source("database/sql/sqlserver/state.sql")
SETTINGS = "set transaction isolation level read committed"  # a driver's pool may hand on what others set
SHORTLY = (
    "set lock_timeout 200;"  # how long a receive waits where it cannot pass over what others have in hand
)
FOR_EVER = "set lock_timeout -1;"  # the default
BABELFISH = source("database/sql/sqlserver/find_babelfish.sql")

_ENDING = re.compile(r"\b(?:commit|rollback|tran|transaction|exec|execute|xact_abort)\b", re.IGNORECASE)


def save(name: str) -> str:
    """Return what sets a savepoint; the name is ours, never a user's."""
    return f"save transaction {name}"


def undo(name: str) -> str:
    """Return what rolls back to a savepoint."""
    return f"rollback transaction {name}"


def ends_transactions(operation: str) -> bool:
    """Say whether a batch may have ended or begun a transaction, by its words; a procedure may do anything."""
    return _ENDING.search(operation) is not None
