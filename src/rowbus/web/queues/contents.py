"""The messages in a queue, who sends to it, and who has which of its messages in hand.

Invariant: bounded, whatever the queue holds: `ON_A_PAGE` messages are shown; only a table with a queue's columns and a
trusted owner is read.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.contracts.published import find_published
from rowbus.database.locks import receiver_lock
from rowbus.database.statements import Statement, each, load, run_steps_now
from rowbus.errors import InvalidAddressError, QueueNotFoundError, StorageError
from rowbus.messages.headers import Header
from rowbus.messages.message import read_headers, short_type, time_sent
from rowbus.transport.long_work.table import RUNNING, long_work_table
from rowbus.transport.pauses.table import pauses_address
from rowbus.transport.queues.catalog.looking import NotLookedAtError, looking, refuse_strangers
from rowbus.transport.queues.catalog.looking import look as look_into
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.table import find_queues, queue_table
from rowbus.transport.queues.traffic import LOOKED_AT, in_hand
from rowbus.transport.receiving.handler_watch import cancel_in_hand
from rowbus.transport.recoverability.table import error_queue_table
from rowbus.web.subscriptions import look as subscriptions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from rowbus.contracts.contract import Party, PublishedContract
    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.message import PeekedMessage
    from rowbus.transport.long_work.table import Cancelling, WorkStatus
    from rowbus.transport.queues.traffic import MessageInHand

ON_A_PAGE: Final = 50
MOST_READ: Final = 65_536  # characters of headers, and bytes of a body, in a list
LONGEST_WAIT: Final = 10_000  # ms that a purge waits for messages in hand


class QueuedMessage(NamedTuple):
    """A row of a queue, read; `headers` are None if they cannot be read."""

    row: PeekedMessage
    headers: Mapping[str, str | None] | None

    @property
    def type(self) -> str:
        """The name of its type."""
        return short_type(self.headers)

    @property
    def sent(self) -> datetime | None:
        """When it was sent, if its headers tell."""
        return time_sent(self.headers)

    @property
    def sender(self) -> str:
        """The endpoint that sent it, if its headers tell."""
        return (self.headers or {}).get(Header.ORIGINATING_ENDPOINT) or ""

    @property
    def message_id(self) -> str:
        """The name by its headers."""
        return (self.headers or {}).get(Header.MESSAGE_ID) or ""


class Contents(NamedTuple):
    """The oldest messages of a queue, and who sends to it, as far as these and the subscriptions tell."""

    messages: list[QueuedMessage]
    senders: list[tuple[str, int]]
    events: list[str]


class Process(NamedTuple):
    """A process that receives; what the role may not see is None."""

    pid: int
    program: str | None
    place: str | None
    since: datetime | None


class TypeInHand(NamedTuple):
    """The messages of one type in hand; the first has been so for longest."""

    type: str
    messages: list[MessageInHand]


class Work(NamedTuple):
    """The processes of an endpoint, what they have in hand, its tables, and the versions of it that run."""

    processes: list[Process]
    in_hand: list[TypeInHand]
    running: list[WorkStatus]
    tables: list[QueueAddress]
    versions: list[PublishedContract]


def find_queue(session: Session, addresses: Addresses, text: str) -> QueueAddress:
    """Return the queue of an address; raises QueueNotFoundError if it is none, NotLookedAtError for a stranger's."""
    try:
        address = addresses.parse(text)
    except InvalidAddressError:
        address = None
    if address is None or not run_steps_now(session, find_queues([address])).get(address):
        raise QueueNotFoundError(f"There is no queue {text}.", queue=text)
    refuse_strangers(session, address)
    return address


def peek(session: Session, addresses: Addresses, address: QueueAddress) -> Contents:
    """Look at the oldest messages of a queue, and at who sends to it."""
    with looking(session, address):
        rows = session.run(queue_table(address).peek(ON_A_PAGE, MOST_READ))
    messages = [QueuedMessage(row, read_headers(row.headers)) for row in rows]
    senders = Counter(message.sender for message in messages if message.sender)
    return Contents(messages, senders.most_common(), sorted(_events(session, addresses, address)))


def _events(session: Session, addresses: Addresses, address: QueueAddress) -> set[str]:
    """Return the events of which copies go to a queue."""
    tables, _left_out = subscriptions_of(session, addresses, "")
    return {
        event.topic
        for table in tables
        for event in table.events
        if any(_is_meant(address, one.queue) for one in event.subscribers)
    }


def _is_meant(address: QueueAddress, text: str) -> bool:
    try:
        return address.neighbour(text) == address
    except InvalidAddressError:
        return False


def look(session: Session, address: QueueAddress, row_id: str) -> QueuedMessage | None:
    """Look at one message; None if it is gone, or the id is none."""
    with looking(session, address):
        row = session.run(error_queue_table(address).look(row_id))
    return None if row is None else QueuedMessage(row, read_headers(row.headers))


def purge(session: Session, addresses: Addresses, text: str) -> int:
    """Delete all messages of a queue and say how many; to be run in a transaction. Waits for those in hand a while."""
    table = queue_table(find_queue(session, addresses, text))
    for statement in table.limit_lock_wait(LONGEST_WAIT):
        session.run(statement)
    return session.run(table.purge())


def work_of(session: Session, addresses: Addresses, address: QueueAddress) -> Work:
    """Return what an endpoint has, and what it does now."""
    with looking(session, address):
        held = session.run(in_hand(address))
    asked = catalog_of(addresses).find_satellites(address)
    tables = [] if asked is None else [one for one in session.run(asked) if one != address]
    versions = [one for one in find_published(session, addresses) if _is_of(address, one.contract.parties)]
    running = _running(session, address, tables)
    return Work(session.run(processes(address)), by_type(held), running, tables, versions)


def _is_of(address: QueueAddress, parties: Iterable[Party]) -> bool:
    return any(party.queue == address.canonical for party in parties)


def _running(session: Session, address: QueueAddress, tables: Sequence[QueueAddress]) -> list[WorkStatus]:
    """Return the messages whose handlers take long; none where their table is not to be read."""
    table = address.satellite(RUNNING)
    with suppress(NotLookedAtError, StorageError):
        return look_into(session, table, long_work_table(table).list()) if table in tables else []
    return []


def cancel(session: Session, addresses: Addresses, text: str, message_id: str, cancelling: Cancelling) -> int:
    """Ask for the end of the handler of a message, and say how many have it; to be run in a transaction."""
    address = find_queue(session, addresses, text)
    table, asked = address.satellite(RUNNING), catalog_of(addresses).find_satellites(address)
    count = 0
    if asked is not None and table in session.run(asked):
        refuse_strangers(session, table)
        count = len(session.run(long_work_table(table).cancel(message_id, cancelling)))
    if any(one.message_id == message_id for one in session.run(in_hand(address))):
        cancel_in_hand(session, pauses_address(addresses), message_id, cancelling)
        count += 1
    return count


def by_type(held: Iterable[MessageInHand]) -> list[TypeInHand]:
    """Gather what is in hand by type."""
    return [
        TypeInHand(name, list(some))
        for name, some in groupby(sorted(held, key=attrgetter("type")), attrgetter("type"))
    ]


def processes(address: QueueAddress) -> Statement[list[Process]]:
    """Find the processes that receive from a queue. Locks nothing."""
    query = load(
        "web/sql/postgresql/processes.sql",
        failing=f"Failed to look for who receives from {address}",
        prepare=False,
    )
    return Statement(
        query, {"lock_name": receiver_lock(str(address)), "most": LOOKED_AT}, each(Process._make)
    )
