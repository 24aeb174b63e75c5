"""One batch for all that happens between two messages: sends, commit, begin, and the next receive.

The batch has no parameters, because a prepared one may not end a transaction: each statement is a `sp_executesql` of
its own in it, so the server keeps their plans, and its values are literals. `try` ends the batch at the first error,
which otherwise might be followed by the commit (decision 0034).

Invariant: pure; what follows a statement that failed is never run, and the answers say which it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rowbus.database.sqlserver.statements import adapt, as_procedure
from rowbus.database.sqlserver.transaction_text import BEGIN, COMMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement

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
    receive: Statement[object],
    *,
    around: tuple[str, str] = ("", ""),
) -> str:
    """Return the batch; `savepoint` sets one before the last statements, `around` is what the receive runs between.

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
        f"set @place = {len(last)};",
        *[f"{COMMIT};"] * levels,
        f"exec sp_executesql N'select 1 as {COMMITTED}';",
        f"{BEGIN};",
        before,
        as_procedure(receive),
        after,
        "end try",
        "begin catch",
        f"exec sp_executesql N'select @place as {FAILED}', N'@place int', @place = @place;",
        "throw;",
        "end catch;",
    )
    return "\n".join(filter(None, lines))
