"""The context of a saga's methods: a handler's context, and what a process needs beside it.

Invariant: all that is sent from here says which saga sent it, so that replies find it again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rowbus.endpoint.context import Context
from rowbus.errors import HandlerError
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import format_timestamp
from rowbus.running.handling import awaited
from rowbus.sagas.timeouts import Timeouts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.sagas.store import SagaStore
    from rowbus.sagas.table import SagaRow


class SagaContext(Context):
    """The context of a saga's method."""

    def __init__(self, context: Context, row: SagaRow, saga_type: str, store: SagaStore) -> None:
        """Stand between a method and the message that found this saga; `store` has its row."""
        sender = context._sender  # noqa: SLF001 - it is of this class
        headers = {Header.ORIGINATING_SAGA_ID: row.id, Header.ORIGINATING_SAGA_TYPE: saga_type}
        super().__init__(context._delivery, sender.with_headers({**sender.headers, **headers}))  # noqa: SLF001
        self._calls = context._calls  # noqa: SLF001 - what its method forgets to await, the pipeline finds
        self._row = row
        self._saga_type = saga_type
        self._store = store
        self._timeouts = Timeouts(row.timeouts, context.message_id)
        self._is_completed = False

    @property
    def saga_id(self) -> str:
        """The saga's id, a UUID as text."""
        return self._row.id

    @property
    def is_new(self) -> bool:
        """Whether the saga begins with this message."""
        return self._row.concurrency == 0

    @property
    def is_completed(self) -> bool:
        """Whether `complete` was called."""
        return self._is_completed

    def complete(self) -> None:
        """Have the saga end with this message: its row is deleted in the same transaction, and so are its timeouts."""
        self._is_completed = True

    @awaited
    async def request_timeout(
        self,
        message: object,
        *,
        after: timedelta | None = None,
        at: datetime | None = None,
        type: str | None = None,
    ) -> str:
        """Have a message come back to this saga's `timeout` method after a time, or at an aware instant.

        It waits in the endpoint's table of delayed messages, and is deleted there when the saga completes. One that is
        just coming then is consumed. Asks the database when it is due. Returns its message id. Raises HandlerError
        without a time, and what `send` raises.
        """
        if (after is None) == (at is None):
            raise HandlerError("request_timeout needs after=… (a timedelta) or at=… (an aware datetime).")
        if at is not None:
            format_timestamp(at)  # raises for one without a time zone, which the server would read in its own
        headers = {
            Header.SAGA_ID: self._row.id,
            Header.SAGA_TYPE: self._saga_type,
            Header.IS_SAGA_TIMEOUT_MESSAGE: "True",
        }
        due = await self._due(after, at)
        if due is None:
            return await self.send_local(message, type=type, headers=headers, delay=after, deliver_at=at)
        timeout = await self.send_local(message, type=type, headers=headers, deliver_at=due)
        self._timeouts.add(self._delivery.sends[-1], due)
        return timeout

    async def _due(self, after: timedelta | None, at: datetime | None) -> datetime | None:
        """Return when a timeout is due; None: at once, or where it waits it cannot be found again."""
        is_now = after is not None and after <= timedelta()
        due = after if at is None else at
        return None if is_now or due is None else await self._store.due(due)

    async def leave(self, state: str, version: int) -> None:
        """Write what the saga's method made of it."""
        await self._store.write(self._row, state, version, self._timeouts.changed)

    async def end(self) -> None:
        """Delete the saga, and the timeouts that it waits for."""
        await self._store.delete(self._row)
        for timeout in self._timeouts:
            if not self._delivery.withdraw(timeout.id):
                self._store.cancel(timeout)

    @awaited
    async def reply_to_originator(
        self, message: object, *, type: str | None = None, headers: Mapping[str, str] | None = None
    ) -> str:
        """Reply to the message that began this saga, and return the reply's id.

        Raises HandlerError when its sender takes no replies, and what `reply` raises.
        """
        if not self._row.originator:
            raise HandlerError(
                f"Saga {self._row.id} cannot reply: the message that began it has no {Header.REPLY_TO_ADDRESS}."
            )
        return await self.reply(
            message,
            type=type,
            headers=headers,
            to=self._row.originator,
            correlation_id=self._row.original_message_id,
        )
