"""What stands for the dispatcher and for the receive session where there is no database.

Invariant: what is sent has the headers that its receiver would read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from rowbus import ClaimNotFoundError, HandlerError
from rowbus.messages.dispatch import AnySend, AppendedEvent, Send, deduplicate
from rowbus.messages.headers import decode_headers, encode_headers
from rowbus.testing.outcome import SentMessage
from rowbus.transport.claims.claim_check import ClaimCheck

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.messages.dispatch import Leaving
    from rowbus.messages.mutators import Mutator


class Memory:
    """Keeps claimed values in memory, in place of a table."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def put(self, value: bytes) -> str:
        """Keep a value."""
        key = str(len(self._values))
        self._values[key] = value
        return key

    def get(self, key: str) -> bytes:
        """Return a value; raises ClaimNotFoundError."""
        if key not in self._values:
            raise ClaimNotFoundError(
                f"There is no value {key}: run_handlers works without a database, and knows the message's own.",
                key=key,
            )
        return self._values[key]


def without_tables(mutators: Sequence[Mutator]) -> tuple[Mutator, ...]:
    """Return mutators that keep in memory what they would keep in tables."""
    memory = Memory()
    return tuple(
        mutator.over(memory) if isinstance(mutator, ClaimCheck) and mutator.asks else mutator
        for mutator in mutators
    )


class Outbox:
    """Takes what is sent, in place of a dispatcher."""

    def __init__(self) -> None:
        self.sent: list[SentMessage] = []
        self.appended: list[AppendedEvent] = []

    async def dispatch(self, sends: Sequence[Leaving]) -> None:
        """Take what a handler sends with `immediate`."""
        await self.leave(sends, immediate=True)

    async def leave(self, leaving: Sequence[Leaving], *, immediate: bool) -> None:
        """Take what leaves in one dispatch, equal messages collapsed, headers as they would be read."""
        self.appended += [event for event in leaving if isinstance(event, AppendedEvent)]
        for send in deduplicate([send for send in leaving if isinstance(send, AnySend)]):
            message, due = send.message, None if isinstance(send, Send) else send.due
            headers = decode_headers(encode_headers(message.headers))
            self.sent.append(
                SentMessage(
                    send.destination, headers, message.body, message.time_to_be_received, immediate, due
                )
            )


class NoTransaction:
    """Stands where the receive session would: everything works but the connection, if the test gave none."""

    def __init__(self, connection: object) -> None:
        """Give handlers the test's connection; None: refuse."""
        self._connection = connection

    @property
    def handler_connection(self) -> object:
        """The test's connection; refuses, saying what to use, if there is none."""
        if self._connection is None:
            raise HandlerError(
                "There is no context.connection here: run_handlers works without a database. Give it a connection of "
                "the test's (connection=…), or run the endpoint with rowbus.testing.running()."
            )
        return self._connection

    sync_handler_connection = handler_connection

    async def run(self, _statement: object, *, undoable: bool) -> NoReturn:  # noqa: ARG002 - as sessions do
        """Refuse what works on Rowbus's own tables."""
        raise HandlerError(
            "run_handlers works without a database: run the endpoint with rowbus.testing.running() to test this."
        )

    async def abandon(self) -> None:
        """Do nothing: there is no connection."""

    def discard(self) -> None:
        """Do nothing: there is no connection."""
