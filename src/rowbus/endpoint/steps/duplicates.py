"""Duplicates: an endpoint with `deduplicate_for` completes a message that comes again without calling its handlers.

Invariant: that a message was processed is noted in its attempt, so it commits with what its handlers did, and is undone
with them. Where a handler committed by itself and the message is given up, the note is taken back.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowbus.running.turns import onto_loop

if TYPE_CHECKING:
    from rowbus.transport.deduplication.table import InboxTable
    from rowbus.transport.receiving.delivery import Delivery, OnMessage

logger = logging.getLogger("rowbus.endpoint")

DUPLICATE: Final = "rowbus.duplicate"
"""Key in a delivery's items, there when its message had been processed before."""


async def process_once(inbox: InboxTable, proceed: OnMessage, delivery: Delivery) -> None:
    """Process a message, unless that was done before. Waits for others who process the same one just now.

    Raises what processing it raises, StorageError.
    """
    message_id = delivery.message_id
    if delivery.noted == message_id:  # when it was received
        delivery.noted = None
        await proceed(delivery)
        return
    await onto_loop()
    if await delivery.run(inbox.accept(message_id)):
        delivery.take_back = inbox.take_back(message_id)
        await proceed(delivery)
        return
    logger.info("Message %s was processed before; it is consumed without its handlers", message_id)
    delivery.items[DUPLICATE] = True
