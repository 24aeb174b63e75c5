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
from typing import TYPE_CHECKING, Any, Final

from rowbus.endpoint.pipeline import where_marked
from rowbus.messages.dispatch import DelayedSend, Send
from rowbus.messages.headers import Header, is_of_a_session
from rowbus.messages.message import OutgoingMessage
from rowbus.running.backoff import doubling
from rowbus.running.turns import onto_loop

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rowbus.transport.receiving.delivery import Delivery, OnMessage

logger = logging.getLogger("rowbus.endpoint")

LONGEST_PAUSE: Final = 60.0  # seconds
PUT_BACK = "Rowbus.PutBack"
"""The header that counts how often a control message was put back."""


def keeping_sessions(proceed: OnMessage, *, can_delay: bool) -> OnMessage:
    """Return what puts sessions' control messages back, and lets all others pass.

    At once the first time, then after a pause, in the delayed table if there is one.
    """

    def step(delivery: Delivery) -> Coroutine[Any, Any, None]:
        if is_of_a_session(delivery.headers):
            return _put_back(delivery, can_delay=can_delay)
        return proceed(delivery)

    return where_marked(Header.CONTROL_MESSAGE, step, proceed)


async def _put_back(delivery: Delivery, *, can_delay: bool) -> None:
    times = _times(delivery.headers.get(PUT_BACK))
    logger.error(
        "Message %s belongs to a transactional session of .NET, which only a .NET instance can finish: it is put back "
        "into %s (%d times until now). Give .NET and Python instances queues of their own.",
        delivery.message_id,
        delivery.receive_address,
        times,
    )
    headers = {**delivery.headers, PUT_BACK: str(times + 1)}
    copy, queue = OutgoingMessage(headers, delivery.body), delivery.receive_address
    pause = pause_before(times)
    if not pause:
        delivery.send(Send(queue, copy))
    elif can_delay:
        delivery.send(DelayedSend(queue, copy, timedelta(seconds=pause)))
    else:  # a slot of this endpoint waits, rather than the two instances' queue being asked without end
        await onto_loop()
        await asyncio.sleep(pause)
        delivery.send(Send(queue, copy))


def pause_before(times: int) -> float:
    """Return the pause, in seconds, of a message that was put back so many times: 0, then 1, 2, 4 … up to a minute."""
    return doubling(times, first=1.0, most=LONGEST_PAUSE) if times else 0.0


def _times(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and text.isascii() and len(text) < len("1000000") else 0
