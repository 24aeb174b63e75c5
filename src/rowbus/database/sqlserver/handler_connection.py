"""The connection a `def` handler gets: the DB-API's verbs on the transaction that holds its message.

Those that would end the transaction are refused. It takes the driver's marks, `?` or `%(name)s`. An answer is read to
its end when a batch has run, so a cursor that a handler forgets blocks nothing.

Invariants: everything a handler does through it happens after the message's savepoint, and in the session's thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from rowbus.errors import HandlerError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from typing import Protocol, Self

    from rowbus.database.sqlserver.batches import Answer
    from rowbus.database.sqlserver.connection import Session

    class Make(Protocol):
        """A caller that has a call made in a session's thread, and waits for it."""

        def __call__(self, call: Callable[[], T], /) -> T:
            """Make it."""
            raise NotImplementedError


T = TypeVar("T")


def forbidden(verb: str) -> NoReturn:
    """Refuse what would end the transaction."""
    raise HandlerError(
        f"A handler may not {verb} its connection: the transaction also holds the received message. "
        f"Return to commit, raise to roll back."
    )


def _here(call: Callable[[], T], /) -> T:
    return call()


class _Answers:
    """The answer to a batch, read row by row."""

    def __init__(self, answers: Sequence[Answer] = ()) -> None:
        self._following = list(answers)
        self.advance()

    def advance(self) -> bool:
        answer = self._following.pop(0) if self._following else None
        self.description = answer.description if answer else None
        self.touched = answer.touched if answer else -1
        self._rows = list(answer.rows) if answer else []
        self._position = 0
        return answer is not None

    def take(self, most: int | None) -> list[Any]:
        end = len(self._rows) if most is None else self._position + most
        taken = self._rows[self._position : end]
        self._position += len(taken)
        return taken


class HandlerCursor:
    """A cursor of the DB-API whose answers are at hand."""

    arraysize = 1

    def __init__(self, session: Session, make: Make) -> None:
        """Belong to a session, whose calls are made there."""
        self._session = session
        self._make = make
        self._answers = _Answers()

    @property
    def description(self) -> Any:  # noqa: ANN401 - as the driver describes columns
        """The columns of the current answer, None if it has none."""
        return self._answers.description

    @property
    def rowcount(self) -> int:
        """The number of rows the current answer's statement touched; -1 if that is not known."""
        return self._answers.touched

    def execute(self, operation: str, /, *parameters: object) -> Self:
        """Run one batch, with the driver's marks; raises the driver's errors."""
        self._answers = _Answers(self._make(partial(self._session.answers, operation, parameters)))
        return self

    def executemany(self, operation: str, rows: Sequence[Sequence[object]], /) -> None:
        """Run one batch for each row of parameters."""
        for row in rows:
            self.execute(operation, row)

    def fetchone(self) -> Any:  # noqa: ANN401 - a row of the driver's
        """Return the next row, None when there is none."""
        rows = self._answers.take(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """Return the next rows."""
        return self._answers.take(self.arraysize if size is None else size)

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        return self._answers.take(None)

    def nextset(self) -> bool:
        """Go on to the batch's next answer; false when there is none."""
        return self._answers.advance()

    def close(self) -> None:
        """Forget the answers."""
        self._answers = _Answers()

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the remaining rows."""
        return iter(self.fetchall())

    def __enter__(self) -> Self:
        """Return the cursor."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Forget the answers."""
        self.close()


class HandlerConnection:
    """The connection for a handler in a thread of its own, which waits for each call."""

    backend: Final = "sqlserver"
    """The kind of our databases that this is, for an ORM on the connection."""

    def __init__(self, session: Session, check: Callable[[], None] | None = None, make: Make = _here) -> None:
        """Stand between a handler and its session; `check` is called before each batch, and may refuse it.

        `make` has a call made in the session's thread and waits for it; without it the one who calls is there already.
        """
        self._session = session
        self._check = check
        self._make = make
        self.orm: object = None
        """The place of things that an ORM keeps with the connection: SQLAlchemy's engine."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, as the receiver's is but in mode NONE."""
        return self._session.in_transaction

    @property
    def catalog(self) -> str | None:
        """The catalog the connection is in, if no handler changed it."""
        return self._session.catalog

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction of its own: only outside any."""
        return not self._session.in_transaction

    def cursor(self) -> HandlerCursor:
        """Make a cursor. Raises HandlerError for code whose handler has ended."""
        if self._check is not None:
            self._check()
        return HandlerCursor(self._session, self._make)

    def execute(self, operation: str, /, *parameters: object) -> HandlerCursor:
        """Run one batch and return a cursor on its answers; raises the driver's errors."""
        return self.cursor().execute(operation, *parameters)

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Make what runs inside a savepoint: after an error the handler can go on, unless the server rolled back."""
        block = self._session.transaction()
        self._make(block.__enter__)
        try:
            yield
        except BaseException as error:
            self._make(partial(block.__exit__, type(error), error, error.__traceback__))
            raise
        else:
            self._make(partial(block.__exit__, None, None, None))

    def commit(self) -> None:
        """Refuse: the receiver commits."""
        forbidden("commit")

    def rollback(self) -> None:
        """Refuse: raise in the handler to roll back."""
        forbidden("roll back")

    def close(self) -> None:
        """Refuse: the connection is the receiver's."""
        forbidden("close")
