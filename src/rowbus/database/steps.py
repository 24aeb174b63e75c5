"""Operations of several statements, written once: a generator yields statements, a session of either kind runs them.

Invariant: the steps decide, the session runs; a generator does no I/O, and an error of a statement ends it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rowbus.database.blocking import BlockingSession, run_now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowbus.database.blocking import UserSession
    from rowbus.database.sessions import Session
    from rowbus.database.statements import Statement

T = TypeVar("T")
Steps = Generator["Statement[Any]", Any, T]  # statements to run, each answered with what it decoded


class Runs(Protocol):
    """What runs statements, such as a session."""

    async def run(self, statement: Statement[T]) -> T:
        """Run one statement and decode its answer."""
        raise NotImplementedError


async def run_steps(session: Runs, steps: Steps[T]) -> T:
    """Run the statements one after the other, each in the transaction that the session is in; return the result."""
    return await answer_steps(session.run, steps)


async def answer_steps(ask: Callable[[Statement[Any]], Awaitable[Any]], steps: Steps[T]) -> T:
    """Have each of the statements answered, one after the other; return the result."""
    answer: object = None
    while True:
        try:
            statement = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = await ask(statement)


def run_steps_now(session: Session, steps: Steps[T]) -> T:
    """Do what `run_steps` does, on a synchronous session."""
    return run_now(run_steps(BlockingSession(session), steps))


async def run_as_one(session: UserSession, statements: Sequence[Statement[object]]) -> None:
    """Run statements, answers unread, in the caller's transaction, or several of them in one of their own."""
    if len(statements) == 1:
        await session.run(statements[0])
        return
    async with session.transaction():
        await session.run_all(statements)
