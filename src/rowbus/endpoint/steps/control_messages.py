"""Control messages of .NET's transactional sessions, in a queue that .NET instances share: they are put back.

Only a .NET instance can finish a session: it dispatches what the session stored in its outbox. A control message that
were consumed here would lose the session's messages.

Source: docs/wire-format.md#headers.

Invariant: such a message leaves with the receive transaction, as a copy in its own queue.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rowbus.endpoint.decisions import pause_before
from rowbus.endpoint.pipeline import where_marked
from rowbus.messages.dispatch import DelayedSend, Send
from rowbus.messages.headers import Header, is_of_a_session
from rowbus.messages.message import OutgoingMessage
from rowbus.running.turns import onto_loop

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rowbus.transport.receiving.delivery import Delivery, OnMessage

logger = logging.getLogger("rowbus.endpoint")

PUT_BACK = "Rowbus.PutBack"
"""The header that counts how often a control message was put back."""


class SessionKeeper:
    """Keeps sessions' control messages for the .NET instances that they are for."""

    def __init__(self, *, can_delay: bool) -> None:
        """Put them back at once the first time, then after a pause, in the delayed table if there is one."""
        self._can_delay = can_delay

    def around(self, proceed: OnMessage) -> OnMessage:
        """Return the step that puts such messages back, and lets all others pass."""

        def step(delivery: Delivery) -> Coroutine[Any, Any, None]:
            return (self._keep if is_of_a_session(delivery.headers) else proceed)(delivery)

        return where_marked(Header.CONTROL_MESSAGE, step, proceed)

    async def _keep(self, delivery: Delivery) -> None:
        times = _times(delivery.headers.get(PUT_BACK))
        logger.error(
            "Message %s belongs to a transactional session of .NET, which only a .NET instance can finish: it is put "
            "back into %s (%d times until now). Give .NET and Python instances queues of their own.",
            delivery.headers.get(Header.MESSAGE_ID) or delivery.id,
            delivery.receive_address,
            times,
        )
        await self._put_back(delivery, times)

    async def _put_back(self, delivery: Delivery, times: int) -> None:
        headers = {**delivery.headers, PUT_BACK: str(times + 1)}
        copy, queue = OutgoingMessage(headers, delivery.body), delivery.receive_address
        pause = pause_before(times)
        if pause == timedelta():
            delivery.send(Send(queue, copy))
        elif self._can_delay:
            delivery.send(DelayedSend(queue, copy, pause))
        else:  # a slot of this endpoint waits, rather than the two instances' queue being asked without end
            await onto_loop()
            await asyncio.sleep(pause.total_seconds())
            delivery.send(Send(queue, copy))


def _times(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and text.isascii() and len(text) < len("1000000") else 0
