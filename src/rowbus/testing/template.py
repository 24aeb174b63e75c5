"""A database from which those of tests are copied, and one copy made ahead, so that the next test need not wait.

Invariant: every database made here is dropped by the end of the block, and copies are made one after the other: while
one is made, nothing else may use the template.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import temporary_database
from rowbus.running.functions import check_function

Copy = tuple[str, AbstractContextManager[str]]


class Template:
    """A database to be copied; its copies are made, and dropped, in a thread of their own."""

    def __init__(self, server: str, dsn: str, worker: ThreadPoolExecutor) -> None:
        """Copy the database `dsn` on `server`, and begin with the first copy."""
        self.dsn = dsn
        self._server = server
        self._worker = worker
        self._spare: Future[Copy] = worker.submit(self._make)

    @contextmanager
    def copy(self) -> Generator[str]:
        """Give the connection string of a copy, made ahead as a rule; it is dropped afterwards, in the background.

        Sessions still open in the end are cut off. Raises ConnectionLostError, PermissionDeniedError.
        """
        spare, self._spare = self._spare, self._worker.submit(self._make)
        dsn, made = spare.result()
        try:
            yield dsn
        finally:
            self._worker.submit(made.__exit__, None, None, None)

    def close(self) -> None:
        """Drop the copy made ahead."""
        _dsn, made = self._spare.result()
        made.__exit__(None, None, None)

    def _make(self) -> Copy:
        made = temporary_database(self._server, self.dsn)
        return made.__enter__(), made


@contextmanager
def template(
    prepare: Callable[[str], object] | None = None, server: str | None = None
) -> Generator[Template]:
    """Make a database, have `prepare` fill it, given its connection string, and give what copies it.

    On `server` (None: that of ROWBUS_DATABASE, else the embedded one). `prepare` must leave no connection open. Raises
    as `temporary_database`, and what `prepare` raises. Blocks.
    """
    if prepare is not None:
        check_function(prepare, "prepare", "dsn")
    place = resolve_dsn(server)
    with ExitStack() as stack:
        dsn = stack.enter_context(temporary_database(place))
        if prepare is not None:
            prepare(dsn)
        worker = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="rowbus template"))
        made = Template(place, dsn, worker)
        stack.callback(made.close)
        yield made
