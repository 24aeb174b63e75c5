"""The T-SQL of transaction control, and one batch for all that happens between two messages.

The batch has no parameters, because a prepared one may not end a transaction: each statement is a call of its own in
it, whose text the server knows, and its values are literals. `try` ends the batch at the first error, which otherwise
might be followed by the commit (decision 0034).

A savepoint of the same name takes the place of the one before; none can be released, and none needs to be.

Invariants: what follows a statement that failed is never run, and the answers say which it was; no text ends a
transaction that its session did not begin, and the message's savepoint has one name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rowbus.database.sqlserver.statements import adapt, as_procedure
from rowbus.database.statements import source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement

MESSAGE = "rowbus_message"
BEGIN = "begin transaction"
COMMIT = "commit transaction"
ROLLBACK = "if @@trancount > 0 rollback transaction"
STATE = source("database/sql/sqlserver/state.sql")
SETTINGS = "set transaction isolation level read committed"  # a driver's pool may hand on what others set
# The time that a receive waits where it cannot pass over what others have in hand.
SHORTLY = "set lock_timeout 200;"
FOR_EVER = "set lock_timeout -1;"  # the default
AS_BEFORE = f"{FOR_EVER} set nocount off;"  # after a receive that failed, whose options Babelfish keeps
BABELFISH = source("database/sql/sqlserver/find_babelfish.sql")

_ENDING = re.compile(r"\b(?:commit|rollback|tran|transaction|exec|execute|xact_abort)\b", re.IGNORECASE)


_OPTIONS = (
    r"ansi_\w+|arith\w+|concat_null_yields_null|context_info|cursor_close_on_commit|date(?:first|format)|deadlock_priority"
    r"|fips_flagger|fmtonly|forceplan|identity_insert|implicit_transactions|language|lock_timeout|no(?:count|exec)"
    r"|numeric_roundabort|offsets|parseonly|query_governor_cost_limit|quoted_identifier|remote_proc_transactions|rowcount"
    r"|showplan_\w+|statistics|textsize|transaction|xact_abort"
)
_LASTING = re.compile(
    rf"\bset\s+(?:{_OPTIONS})\b(?!\s*=)|\buse\s+[\[\w]|\bexec(?:ute)?\s+as\b|sp_getapplock|sp_set_session_context"
    r"|\b(?:create\s+table|into)\s+#",
    re.IGNORECASE,
)


def changes_session(operation: str) -> bool:
    """Say whether a batch may change what outlives its transaction: options, database, login, locks, `#` tables.

    A procedure that sets options has them put back at its end.
    """
    return _LASTING.search(operation) is not None


def save(name: str) -> str:
    """Return what sets a savepoint; the name is ours, never a user's."""
    return f"save transaction {name}"


def undo(name: str) -> str:
    """Return what rolls back to a savepoint."""
    return f"rollback transaction {name}"


def ends_transactions(operation: str) -> bool:
    """Say whether a batch may have ended or begun a transaction, by its words; a procedure may do anything."""
    return _ENDING.search(operation) is not None


MOST_TOGETHER: Final = 256 * 1024  # characters; what is larger travels as parameters, in batches of its own
_NO_LITERAL: Final = re.compile(r"\\[\r\n]|\0")  # a backslash before the end of a line takes that away
COMMITTED: Final = "rowbus_committed"
FAILED: Final = "rowbus_failed"


def may_travel(statements: Sequence[Statement[object]]) -> bool:
    """Say whether statements can be in one batch: they are short, and literals hold what they do not."""
    given = [adapt(each.parameters[name]) for each in statements for name in each.query.names]
    return sum(map(len, given)) <= MOST_TOGETHER and not any(
        isinstance(value, str) and _NO_LITERAL.search(value) for value in given
    )


def commit_and_receive(
    savepoint: str,
    last: Sequence[Statement[object]],
    levels: int,
    receive: str,
    *,
    around: tuple[str, str] = ("", ""),
) -> str:
    """Return the batch; `savepoint` sets one before the last statements, `around` is what `receive` runs between.

    Its answers have a column `COMMITTED` once the transaction is, and before an error `FAILED`: the place, in `last`,
    of the statement that failed, or how many there are if it was none of them.
    """
    before, after = around
    steps = [f"set @place = {place}; {as_procedure(each)}" for place, each in enumerate(last)]
    lines = (
        "declare @place int = 0;",
        "begin try",
        f"{savepoint};" if savepoint else "",
        *steps,
        f"set @place = {len(last)};" if last else "",
        *[f"{COMMIT};"] * levels,
        source("database/sql/sqlserver/committed.sql"),
        f"{BEGIN};",
        before,
        receive,
        after,
        "end try",
        "begin catch",
        source("database/sql/sqlserver/failed.sql"),
        "throw;",
        "end catch;",
    )
    return "\n".join(filter(None, lines))
