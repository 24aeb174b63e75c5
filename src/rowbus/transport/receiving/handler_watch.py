"""Watches handlers that run for longer than a moment: ends those that a person has cancelled, and warns of slow ones.

A cancellation is a hold on a message's id, in the table of pauses; it lapses by itself. Who has the message in hand
fails it with who and why, so that it goes to the error queue as the policy says.

Invariants: an endpoint with nothing in hand asks nothing; nothing is cancelled but a call of handlers.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from rowbus.errors import UnknownMessageTypeError
from rowbus.messages.headers import Header
from rowbus.messages.message_names import MessageSubject
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Service
from rowbus.running.telemetry.instruments import instruments
from rowbus.running.time_limit import urgency
from rowbus.transport.long_work.table import Cancelling
from rowbus.transport.pauses.table import MESSAGE, PauseSubject, pause_now, pauses_table
from rowbus.transport.receiving.remarks import headers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.sessions import AsyncSession, Session, SessionPool
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.running.critical import Alarm
    from rowbus.transport.pauses.table import Pause
    from rowbus.transport.receiving.receiver import Receiver
    from rowbus.transport.receiving.slot import Slot

logger = logging.getLogger("rowbus.receiving")

PERIOD: Final = 0.5  # seconds between two looks
ASKED_EVERY: Final = 1.0  # seconds until what operators say of an endpoint at work is looked up in the table
SLOW: Final = 30.0  # seconds after which a handler is warned of, and ten times later again
LASTS: Final = timedelta(seconds=10)
"""The time that a cancellation is in force: long enough for who has the message, or takes it from one just lost."""


def cancel_in_hand(session: Session, pauses: QueueAddress, message_id: str, cancelling: Cancelling) -> None:
    """Ask whoever has a message in hand to end its handlers. Raises as `pause_now`."""
    until = datetime.now(UTC) + LASTS
    subject = PauseSubject(MESSAGE, message_id)
    pause_now(session, pauses, subject, person=cancelling.by, why=cancelling.why, until=until)


class Call:
    """A call of handlers that was seen to run."""

    def __init__(self, slot: Slot, row: MessageRow, queue: str, began: float) -> None:
        self.slot = slot
        self.row = row
        self.began = began
        self.since = datetime.now(UTC)
        self.cancels = self.warnings = 0
        headers = headers_of(row)
        self.message_id = headers.get(Header.MESSAGE_ID) or row.id
        self.types = headers.get(Header.ENCLOSED_MESSAGE_TYPES)
        self.subject = MessageSubject(self.message_id, headers, queue)

    @property
    def lasts(self) -> bool:
        """Whether it still runs."""
        row = self.slot.called
        return row is not None and row.id == self.row.id


def is_slow(seconds: float, warnings: int) -> bool:
    """Say whether a call that has run for so long is to be warned of, once more."""
    return seconds >= SLOW * 10.0**warnings


class HandlerWatch(Service):
    """Watches the handlers of some receivers, which are one endpoint's. For one event loop."""

    def __init__(
        self,
        endpoint: str,
        receivers: Callable[[], Sequence[Receiver]],
        handlers_of: Callable[[str | None], Sequence[object]],
        *,
        pool: SessionPool,
        pauses: QueueAddress | None,
        alarm: Alarm,
        clock: Callable[[], float] = time.monotonic,
        hear: Callable[[Sequence[Pause]], None] = lambda _: None,
    ) -> None:
        """Look into the table `pauses`, if there can be one; `handlers_of` a types' header have names. No I/O.

        `hear` is told what is in force there, about once a second while there is something in hand.
        """
        failure = f"Could not look for cancelled messages of {endpoint}"
        outages = ReportedBreaker("Looking for cancelled messages", failure, logger, alarm)
        super().__init__(f"rowbus {endpoint} watch", outages)
        self._endpoint = endpoint
        self._receivers = receivers
        self._handlers_of = handlers_of
        self._pool = pool
        self.table = None if pauses is None else pauses_table(pauses)
        self._clock = clock
        self._hear = hear
        self._asked = float("-inf")
        self._calls: dict[Slot, Call] = {}

    async def work(self) -> None:
        """Look at what was in hand at the last look already; then wait."""
        lasting = self._look()
        now = self._clock()
        for call in lasting:
            self._warn(call, now)
        if (measured := instruments()) is not None:
            longest = max((now - call.began for call in lasting), default=0.0)
            measured.longest_in_hand.set(longest, (self._endpoint,))
        if lasting or (self._calls and now - self._asked >= ASKED_EVERY):
            await self._end_cancelled(lasting)
        self._outages.succeeded()
        await self.pause(PERIOD)

    def _look(self) -> list[Call]:
        """Note what is in hand; return those calls that are not new."""
        lasting = [call for call in self._calls.values() if call.lasts]
        self._calls = {call.slot: call for call in lasting}
        now = self._clock()
        for receiver in self._receivers():
            for slot in receiver.at_work.values():
                row = slot.called
                if row is not None and slot not in self._calls:
                    self._calls[slot] = Call(slot, row, receiver.address.table, now)
        return lasting

    def _warn(self, call: Call, now: float) -> None:
        seconds = now - call.began
        if not is_slow(seconds, call.warnings):
            return
        call.warnings += 1
        call.subject.handler = ", ".join(self._names(call))
        logger.warning(
            "Message %s is in hand since %s, for %.0f s: its transaction keeps dead rows of all tables. Give the "
            "handler a time_limit, or make it one that takes long (`long=True`); `rowbus running cancel %s` ends it.",
            call.subject.description(),
            f"{call.since:%H:%M:%S} UTC",
            seconds,
            call.message_id,
            extra=call.subject.fields(),
        )

    def _names(self, call: Call) -> list[str]:
        try:
            return [str(getattr(handler, "name", "")) for handler in self._handlers_of(call.types)]
        except UnknownMessageTypeError:
            return []

    async def _end_cancelled(self, calls: Sequence[Call]) -> None:
        if self.table is None:
            return
        self._asked = self._clock()
        async with self._pool.session() as session:
            held = await self.listen(session) if await session.run(self.table.can_be_used()) else ()
        cancelled = {one.name: Cancelling(one.person, one.why) for one in held if one.kind == MESSAGE}
        for call in calls if cancelled else ():
            cancelling = cancelled.get(call.message_id)
            if cancelling is not None and call.lasts:
                call.cancels += 1
                call.slot.cancel(cancelling.error(), urgency(call.cancels))

    async def listen(self, session: AsyncSession) -> Sequence[Pause]:
        """Return what is in force in the table, which is there, and tell it. Raises StorageError."""
        assert self.table is not None  # noqa: S101 - the caller has found it
        held = await session.run(self.table.list())
        self._hear(held)
        return held
