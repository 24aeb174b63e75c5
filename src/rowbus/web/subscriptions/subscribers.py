"""Who gets which events, as the page shows it, and the statements that find it.

Invariant: only tables that have the columns of subscriptions, and an owner that is trusted, are read or changed, at any
request; and only a subscription whose queue does not exist is ended here.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import InvalidAddressError, QueueNotFoundError
from rowbus.transport.pubsub.reachable import existing_queues
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.catalog.finding import sort_out
from rowbus.transport.queues.catalog.looking import NotLookedAtError, refuse_strangers
from rowbus.transport.queues.catalog.looking import look as look_at
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.web.sampling.statistics import counters

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.pubsub.subscription import TopicSubscription


class Subscriber(NamedTuple):
    """An endpoint that subscribes to an event; its copies go to `queue`, as it is written."""

    endpoint: str
    queue: str
    is_dead: bool


class Event(NamedTuple):
    """An event and who gets it."""

    topic: str
    subscribers: list[Subscriber]


class Routing(NamedTuple):
    """A table of subscriptions."""

    address: QueueAddress
    events: list[Event]
    may_change: bool

    @property
    def dead(self) -> int:
        """How many of its subscriptions lead nowhere."""
        return sum(one.is_dead for event in self.events for one in event.subscribers)


def look(session: Session, addresses: Addresses, text: str) -> tuple[list[Routing], dict[QueueAddress, str]]:
    """Look at all tables of subscriptions, only at events and endpoints that hold a text, in any case.

    Returns which tables are left out, too, and why.
    """
    catalog, tables = catalog_of(addresses), list[Routing]()
    found = sort_out(session, catalog, session.run(catalog.find_subscriptions()))
    for address in found.tables:
        try:
            tables.append(_routing(session, addresses, address, text))
        except NotLookedAtError as error:
            found.left_out[address] = error.reason
    return tables, found.left_out


def _routing(session: Session, addresses: Addresses, table: QueueAddress, text: str) -> Routing:
    every = look_at(session, table, subscription_routing(table).list())
    existing = existing_queues(session, catalog_of(addresses), table, every)
    wanted = [one for one in every if any(text.casefold() in part.casefold() for part in one)]
    events = [
        Event(topic, [Subscriber(one.endpoint, one.queue, one.queue not in existing) for one in found])
        for topic, found in groupby(sorted(wanted, key=attrgetter("topic", "endpoint")), attrgetter("topic"))
    ]
    return Routing(table, events, _may_change(session, table))


def find_dead(
    session: Session, addresses: Addresses, name: str, endpoint: str, topic: str
) -> TopicSubscription | None:
    """Return a subscription whose queue does not exist; None if there is none, or its queue does.

    Raises QueueNotFoundError if there is no such table of subscriptions, NotLookedAtError for a stranger's.
    """
    table = _table(session, addresses, name)
    named = [
        one
        for one in session.run(subscription_routing(table).list())
        if (one.endpoint, one.topic) == (endpoint, topic)
    ]
    existing = existing_queues(session, catalog_of(addresses), table, named)
    return next((one for one in named if one.queue not in existing), None)


def unsubscribe(session: Session, addresses: Addresses, name: str, endpoint: str, topic: str) -> int:
    """End a dead subscription; say 1, or 0 if it is not there or lives. To be run in a transaction."""
    if find_dead(session, addresses, name, endpoint, topic) is None:
        return 0
    table = subscription_routing(_table(session, addresses, name))
    return len(session.run(table.unsubscribe(endpoint, [topic])))


def _table(session: Session, addresses: Addresses, text: str) -> QueueAddress:
    try:
        address = addresses.parse(text)
    except InvalidAddressError:
        address = None
    if address is None or not address.is_among(session.run(catalog_of(addresses).find_subscriptions())):
        raise QueueNotFoundError(f"There is no table of subscriptions {text}.", queue=text)
    refuse_strangers(session, address)
    return address


def _may_change(session: Session, address: QueueAddress) -> bool:
    """Whether the database's role may delete from a table; where the database does not say, it is tried."""
    if address.backend != "postgresql":
        return True
    counted = session.run(counters([address])).get(address)
    return counted is not None and counted.may_delete
