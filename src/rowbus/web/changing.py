"""What an action changes in the database, in one transaction: the one place where it is noted in the log of operations.

Invariant: nothing is changed before it is noted; the change and what is noted of it commit together, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from rowbus.errors import RowbusError
from rowbus.web.noting import Note, begin, note
from rowbus.web.operations import State

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

P = ParamSpec("P")


async def change(
    visit: Visit,
    operation: Operation,
    where: str,
    tell: Callable[[int], str],
    work: Callable[Concatenate[Session, P], int],
    *arguments: P.args,
    **named: P.kwargs,
) -> str:
    """Call `work(session, …)` in a transaction of its own; return what `tell` says of how many it changed, and where.

    Raises what it raises. A database without a log of operations has it in the log of the process alone.
    """

    def run(session: Session) -> str:
        if not visit.site.database.has_logs:
            with session.transaction():
                count = work(session, *arguments, **named)
            operation.advance(count)
            return tell(count)
        table = begin(session, visit.site.addresses, operation, Note(where, None))
        try:
            with session.transaction():
                count = work(session, *arguments, **named)
                note(session, table, operation, count, 0)
        except RowbusError as error:
            session.run(table.end(operation.id, State.FAILED.value, str(error)))
            raise
        operation.advance(count)
        session.run(table.end(operation.id, State.DONE.value, tell(count)))
        return tell(count)

    return await visit.write(run)
