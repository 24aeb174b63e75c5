"""The session of a log source beside the driver, for looking up and deciding; replaced when it is lost.

Invariant: on a new session `on_connect` runs first; it takes the consumer's lock again.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.faults import retrying
from rowbus.database.statements import control
from rowbus.errors import ConnectionLostError, StorageError
from rowbus.spark.log_source.snapshot_range import hold_table, prepare_control

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Statement
    from rowbus.spark.log_source.options import LogSettings

T = TypeVar("T")

BEGIN = control(
    b"begin transaction isolation level read committed read only", "Could not begin to hold tables"
)


class Control:
    """One session at a time to one database."""

    def __init__(self, dsn: str, settings: LogSettings, role: str) -> None:
        """Take the address; `role` is part of the application name. No I/O."""
        self._database = Database(
            dsn, application_name=f"rowbus spark {role} {settings.consumer or settings.name}"
        )
        self._retries: int = settings.options["fetchOffset.numRetries"]
        self._wait: float = settings.options["fetchOffset.retryIntervalMs"] / 1000
        self._timeout: int = settings.options["statementTimeoutMs"]
        self._open: ExitStack | None = None
        self._session: Session | None = None
        self._listening: set[bytes] = set()
        self.on_connect: Callable[[Session], None] = lambda _session: None

    def run(self, statement: Statement[T]) -> T:
        """Run a statement by itself; repeats it on a new session if the connection is lost."""
        return self._retrying(lambda session: session.run(statement))

    def run_last(self, *statements: Statement[T]) -> T:
        """Run statements in one transaction, and return the last one's answer."""

        def together(session: Session) -> T:
            with session.transaction():
                return [session.run(statement) for statement in statements][-1]

        return self._retrying(together)

    def hold_tables(self, names: Sequence[str]) -> None:
        """Lock tables against TRUNCATE until the session is closed, by a transaction that stays open."""

        def hold(session: Session) -> None:
            session.run(BEGIN)
            for name in names:
                session.run(hold_table(name))

        self._retrying(hold)

    def wait(self, listening: Sequence[Statement[None]], seconds: float) -> None:
        """Wait for a notification of these LISTEN statements, at most so long; a lost connection waits in full."""
        until = time.monotonic() + seconds
        try:
            session = self._session or self._connect()
            for statement in listening:
                if statement.query.text not in self._listening:
                    session.run(statement)
                    self._listening.add(statement.query.text)
            session.notified(seconds)
        except StorageError:
            self.close()  # the next call connects again, or raises
            time.sleep(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Close the session, which ends its locks; does nothing when there is none."""
        opened, self._open, self._session = self._open, None, None
        self._listening.clear()
        if opened is not None:
            opened.close()

    def _retrying(self, work: Callable[[Session], T]) -> T:
        def attempt() -> T:
            try:
                return work(self._session or self._connect())
            except ConnectionLostError:
                self.close()
                raise

        return retrying(attempt, retries=self._retries, first=self._wait)

    def _connect(self) -> Session:
        self._open = ExitStack()
        try:
            session = self._open.enter_context(self._database.session())
            session.run(prepare_control(self._timeout))
            self.on_connect(session)
        except BaseException:
            self.close()
            raise
        self._session = session
        return session
