"""Whether subscriptions lead somewhere: a subscriber whose queue does not exist makes publishing fail.

Invariant: nothing here is locked or changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors import InvalidAddressError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.pubsub.subscription import TopicSubscription
    from rowbus.transport.queues.catalog.table import Catalog


def existing_queues(
    session: Session, catalog: Catalog, table: QueueAddress, subscriptions: Iterable[TopicSubscription]
) -> set[str]:
    """Return those of the addresses in a table of subscriptions, as they are written, whose tables exist."""
    queues = {
        one.queue: address for one in subscriptions if (address := _meant(table, one.queue)) is not None
    }
    found = session.run(catalog.find_queues(set(queues.values())))
    tables = {shape.address for shape in found}
    return {text for text, address in queues.items() if address in tables}


def _meant(table: QueueAddress, text: str) -> QueueAddress | None:
    try:
        return table.neighbour(text)
    except InvalidAddressError:
        return None
