"""Reading many rows with bounded memory: a cursor on the server, in a transaction of its own that writes nothing.

Invariant: the opener of a cursor ends its transaction before the session runs anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from psycopg.pq import PipelineStatus, TransactionStatus

from rowbus.database.postgresql.connection import AsyncSession
from rowbus.database.statements import control
from rowbus.errors import StorageError

if TYPE_CHECKING:
    from rowbus.database.statements import Statement

T = TypeVar("T")

_BEGIN = control(b"begin transaction isolation level read committed read only", "Could not begin to read")
_END = control(b"commit", "Could not end reading")


class ReadSession(AsyncSession):
    """A session in autocommit mode that reads through a server-side cursor, one at a time."""

    async def open(self, opening: Statement[object], fetch: Statement[T]) -> T:
        """Begin, open a cursor and fetch from it, in one round trip; the transaction stays open."""
        answers = await self._exchange((_BEGIN, opening, fetch))
        return fetch.decode(answers[-1].rows(), answers[-1].count)

    async def fetch(self, fetch: Statement[T]) -> T:
        """Fetch on."""
        (answer,) = await self._exchange((fetch,))
        return fetch.decode(answer.rows(), answer.count)

    async def end(self) -> None:
        """End the transaction and with it the cursor; harmless outside one. Closes a connection that cannot."""
        pgconn = self.connection.pgconn
        if self.connection.closed or pgconn.transaction_status == TransactionStatus.IDLE:
            return
        try:
            if pgconn.pipeline_status != PipelineStatus.OFF:  # interrupted in a round trip
                await self.close()
            else:
                await self._exchange((_END,))
        except StorageError:
            await self.close()
