"""Subscriptions: who gets which events, and the statements that find it; those that lead nowhere can be ended.

Invariants: a subscription that works is never ended here: its endpoint would have to be asked; only tables that have
the columns of subscriptions, and an owner that is trusted, are read or changed, at any request; and only a subscription
whose queue does not exist is ended here.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import InvalidAddressError, QueueNotFoundError
from rowbus.transport.pubsub.subscribers import existing_queues
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.catalog.looking import look_at_each, refuse_strangers, sort_out
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.web.pages import Action, Page, Question, View, change
from rowbus.web.sampling.snapshot import may_delete

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.pubsub.publication import TopicSubscription
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit


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
        """The number of its subscriptions that lead nowhere."""
        return sum(one.is_dead for event in self.events for one in event.subscribers)


def look(session: Session, addresses: Addresses, text: str) -> tuple[list[Routing], dict[QueueAddress, str]]:
    """Look at all tables of subscriptions, only at events and endpoints that hold a text, in any case.

    Returns which tables are left out, too, and why.
    """
    catalog = catalog_of(addresses)
    found = sort_out(session, catalog, session.run(catalog.find_subscriptions()))
    looked = look_at_each(session, found.tables, lambda address: subscription_routing(address).list())
    tables = [_routing(session, addresses, address, every, text) for address, every in looked.answers.items()]
    return tables, found.left_out | looked.left_out


def _routing(
    session: Session, addresses: Addresses, table: QueueAddress, every: list[TopicSubscription], text: str
) -> Routing:
    existing = existing_queues(session, catalog_of(addresses), table, every)
    wanted = [one for one in every if any(text.casefold() in part.casefold() for part in one)]
    events = [
        Event(topic, [Subscriber(one.endpoint, one.queue, one.queue not in existing) for one in found])
        for topic, found in groupby(sorted(wanted, key=attrgetter("topic", "endpoint")), attrgetter("topic"))
    ]
    return Routing(table, events, may_delete(session, table))


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


LIVES: Final = "Nothing was done: there is no such subscription any more, or its queue exists by now."


async def _show(visit: Visit) -> Response:
    text = visit.query.get("text", "").strip()
    tables, left_out = await visit.read(look, visit.site.addresses, text)
    return visit.render("subscriptions/page.html", tables=tables, left_out=left_out, text=text)


def _named(visit: Visit) -> tuple[str, str, str]:
    return visit.form.get("table", ""), visit.form.get("endpoint", ""), visit.form.get("topic", "")


async def _ask(visit: Visit) -> Question:
    table, endpoint, topic = _named(visit)
    found = await visit.read(find_dead, visit.site.addresses, table, endpoint, topic)
    if found is None:
        raise QueueNotFoundError(LIVES, queue=table)
    return Question(
        title="End this subscription?",
        text=f"{endpoint} gets no more copies of {topic}. Its queue {found.queue} does not exist, so it gets none now, "
        "and publishing fails.",
        details=("An endpoint that handles the event subscribes again when it starts.",),
        button="End it",
        subject=f"{endpoint}, {topic}",
    )


async def _unsubscribe(visit: Visit, operation: Operation) -> str:
    table, endpoint, topic = _named(visit)

    def tell(count: int) -> str:
        return f"{endpoint} no longer subscribes to {topic}." if count else LIVES

    addresses = visit.site.addresses
    return await change(visit, operation, table, tell, unsubscribe, addresses, table, endpoint, topic)


PAGE: Final = Page(
    "Subscriptions",
    (View("subscriptions", "/subscriptions", _show),),
    (Action("subscriptions.end", "/subscriptions/end", "end a subscription", _ask, _unsubscribe),),
)
