"""Every operation on SQL Server's tables, with fixed values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from rowbus.database.sqlserver.connection import Session
from rowbus.database.statements import Statement
from rowbus.messages.message import KeptValue, OutgoingMessage
from rowbus.messages.sqlserver_address import SqlServerAddress, SqlServerAddresses
from rowbus.transport.claims.table import claimed_values
from rowbus.transport.deduplication.table import inbox_table
from rowbus.transport.delayed.policy import PassedOver
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.delayed.waiting import WaitingPlace
from rowbus.transport.delayed_store.protocol import DelayedMessage
from rowbus.transport.delayed_store.table import delayed_store_table
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.sqlserver_shape import COLUMNS
from rowbus.transport.queues.table import MovedMessage, Place, queue_table
from rowbus.transport.recoverability.table import error_queue_table
from tests.database.sqlserver.recording import RecordingConnection

Operation = Callable[[Session], object]

SALES = SqlServerAddress("dbo", "Sales", "shop")
BILLING = SqlServerAddress("dbo", "Billing", "accounts")
AT = datetime(2026, 11, 21, 14, 36, 27, 123456, tzinfo=UTC)
MESSAGE = OutgoingMessage({"NServiceBus.MessageId": "m-1"}, b"{}", None)
EXPIRING = MESSAGE._replace(time_to_be_received=timedelta(days=30, milliseconds=1, microseconds=1))
KEPT = DelayedMessage(
    message_id="m-1", destination="Sales@[dbo]@[shop]", time=AT, headers=b"{}", body=b"\x00\xff"
)
ROW_ID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
DUE_IDS = ["7@2026-11-21T14:36:27.123000", "9@2026-11-21T14:36:28"]


def columns(connection: RecordingConnection, *lacking: str) -> None:
    """Have the server say that queues have these columns."""
    names = [column.name.lower() for column in COLUMNS if column.name.lower() not in lacking]
    connection.answer(r"^select lower\(name\) as name\nfrom", *((name,) for name in names))


def one(statement: Statement[object]) -> Operation:
    """Run one statement."""
    return lambda session: session.run(statement)


def together(statements: list[Statement[None]]) -> Operation:
    """Run statements in one transaction."""

    def run(session: Session) -> None:
        with session.transaction():
            session.run_all(statements)

    return run


def operations() -> Iterator[tuple[str, Operation]]:
    """Give each operation with what it is called."""
    yield from _on_queues()
    yield from _on_delayed_messages()
    yield from _on_subscriptions_and_inboxes()
    yield from _on_error_queues()
    yield from _on_a_delayed_store()
    yield from _on_the_catalogue()


def _on_queues() -> Iterator[tuple[str, Operation]]:
    table = queue_table(SALES)
    yield "queue: create", together(table.create())
    yield "queue: create BodyString", together(table.create_body_string())
    yield "queue: send, the first time", one(table.send(MESSAGE, notify=True))
    yield "queue: send again, what expires", one(table.send(EXPIRING, notify=True))
    yield "queue: send several", together(table.send_all([MESSAGE, EXPIRING], notify=True))
    yield "queue: ask when what is sent now expires", one(table.expiry(timedelta(minutes=1)))
    rows = table.copy_rows([("{}", b"1"), ("{}", b"2")], AT)
    yield "queue: copy", lambda session: session.copy(table.copy, rows)
    yield "queue: receive", one(table.receive(1, 7))
    yield "queue: receive a batch", one(table.receive(5, 7))
    yield "queue: receive others", one(table.receive(5, 7, passed_over=(8, 9)))
    yield "queue: find what is oversized", one(table.find_oversized(5, most_bytes=1000))
    moved = [MovedMessage(ROW_ID, 7, '{"a":"1"}')]
    yield "queue: move", together(table.move(moved, BILLING, notify=True))  # type: ignore[arg-type] # answers are not read
    yield "queue: look for a queue's columns", one(*table.are_queues([table.address]))
    yield "queue: count what is available", one(table.count_available(5, 7))
    yield "queue: peek", one(table.peek(5))
    yield "queue: look for a row", one(table.holds(ROW_ID))
    yield "queue: put a message back", together([table.requeue(ROW_ID, Place("{}", 7), notify=True)])  # type: ignore[list-item] # answers are not read
    yield "queue: look where a message is", one(table.locate(ROW_ID))
    yield "queue: ask since when the server runs", one(table.server_started())
    yield "queue: purge", one(table.purge())
    yield "queue: purge what has expired", one(table.purge_expired(10_000))
    yield "queue: inspect", lambda session: [session.run(each) for each in table.inspect(purges=True)]
    yield "queue: look for the table", one(table.exists())
    yield "queue: drop", one(table.drop())


def _on_delayed_messages() -> Iterator[tuple[str, Operation]]:
    table = delayed_table(SqlServerAddress("dbo", "Sales.Delayed", "shop"))
    yield "delayed: create", together(table.create())
    yield "delayed: store for a time", one(table.store(MESSAGE, timedelta(days=30, seconds=1.5), notify=True))
    yield "delayed: store until an instant", one(table.store(MESSAGE, AT, notify=True))
    yield "delayed: ask when what is stored now is due", one(table.due(timedelta(seconds=1)))
    rows = table.copy_rows([("{}", b"1")], AT)
    yield "delayed: copy", lambda session: session.copy(table.copy, rows)
    yield "delayed: lead", one(table.try_lead())
    yield "delayed: find who leads", one(table.leaders())
    yield "delayed: prepare a mover's session", together(table.configure(lock_timeout=5, idle_timeout=10))
    yield "delayed: take what is due", one(table.take_due(100))
    place = PassedOver((AT - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), tuple(DUE_IDS))
    yield "delayed: take what is due behind a place", one(table.take_due_behind(100, place))
    yield "delayed: ask for the next due behind a place", one(table.next_due_behind(place))
    yield "delayed: move", together([table.move(DUE_IDS, BILLING, ',"To":"Billing"')])  # type: ignore[list-item] # answers are not read
    given_up = table.move_with_headers(DUE_IDS, ['{"a":"1"}', '{"a":"2"}'], BILLING)
    yield "delayed: move with other headers", together(given_up)  # type: ignore[arg-type] # as above
    yield "delayed: ask for the next due", one(table.next_due())
    yield "delayed: count", one(table.state(1000))
    yield "delayed: peek", one(table.peek(5))
    yield "delayed: search", one(table.find("Shop", WaitingPlace(AT, DUE_IDS[0]), 5))
    yield "delayed: say where a search stops", one(table.reach(None))
    yield "delayed: look at one", one(table.look(DUE_IDS[0], 100))
    yield "delayed: count in a span", one(table.count_between(AT, None, 10))
    yield "delayed: take by its id", one(table.take("m-1"))
    yield "delayed: take by its id and time", one(table.take("m-1", AT))
    yield "delayed: grant moving", one(table.grant_move("movers"))
    yield "delayed: grant storing", one(table.grant_store("senders"))


def _on_subscriptions_and_inboxes() -> Iterator[tuple[str, Operation]]:
    table = subscription_routing(SqlServerAddress("dbo", "SubscriptionRouting", "shop"))
    yield "subscriptions: create", together(table.create())
    yield "subscriptions: subscribe", one(table.subscribe("Sales", ["A.B", "A.C"], SALES))
    yield "subscriptions: unsubscribe", one(table.unsubscribe("Sales", ["A.B"]))
    yield "subscriptions: find subscribers", one(table.subscribers(["A.B", "System.Object"]))
    yield "subscriptions: list", one(table.list())
    yield "subscriptions: grant", one(table.grant("endpoints"))
    inbox = inbox_table(SqlServerAddress("dbo", "Sales.Inbox", "shop"))
    yield "inbox: create", together(inbox.create())
    yield "inbox: accept", one(inbox.accept("m-1"))
    yield "inbox: take back", one(inbox.take_back("m-1"))
    yield "inbox: forget", one(inbox.purge(timedelta(days=7), 1000))
    yield "inbox: grant", one(inbox.grant("endpoints"))
    values = claimed_values(SqlServerAddress("dbo", "ClaimedValues", "shop"))
    kept = KeptValue(values.address, ROW_ID, b'"AQID"', timedelta(days=30))
    yield "claimed values: create", together(values.create())
    yield "claimed values: keep", together(list(values.keep(kept, kept.keep_for)))
    yield "claimed values: read", one(values.read(ROW_ID, 0))
    yield "claimed values: sweep", one(values.sweep())
    yield "claimed values: grant", one(values.grant("endpoints"))
    yield "claimed values: grant keeping", one(values.grant_keep("senders"))


def _on_error_queues() -> Iterator[tuple[str, Operation]]:
    table = error_queue_table(SqlServerAddress("dbo", "error", "shop"))
    yield "error queue: ask for the newest", one(table.newest())
    yield "error queue: scan", one(table.scan(1, 9, 5))
    yield "error queue: look", one(table.look(ROW_ID))
    yield "error queue: read headers", one(table.headers([ROW_ID, ROW_ID]))
    yield "error queue: discard", one(table.discard([ROW_ID]))


def _on_a_delayed_store() -> Iterator[tuple[str, Operation]]:
    table = delayed_store_table(SqlServerAddress("dbo", "Sales.delayed", ""))
    yield "delayed store: create", together(table.create())
    yield "delayed store: store", together([table.store(KEPT)])
    yield "delayed store: fetch the next due", one(table.fetch_next_due(AT))
    yield "delayed store: ask for the next", one(table.next())
    yield "delayed store: count a failure", one(table.increment_failure_count("m-1"))
    yield "delayed store: remove", one(table.remove("m-1"))
    yield "delayed store: grant", one(table.grant("endpoints"))


def _on_the_catalogue() -> Iterator[tuple[str, Operation]]:
    catalog = catalog_of(SqlServerAddresses("dbo", "shop"))
    yield "catalogue: find queues", one(catalog.find_queues([SALES, BILLING]))
    yield "catalogue: find tables of delayed messages", one(catalog.find_delayed("dbo"))
    yield "catalogue: find tables of subscriptions", one(catalog.find_subscriptions())
    yield "catalogue: count a queue", one(catalog.queue_state(SALES, 1000))
    yield "catalogue: measure queues", one(catalog.queue_storage([SALES]))
    yield "catalogue: gather facts", one(catalog.server())
    yield "catalogue: find idle transactions", one(catalog.snapshot_holders())
    yield "catalogue: ask for the time", one(catalog.clock())
    yield "catalogue: look for a schema", one(catalog.schema_exists("dbo"))
    yield "catalogue: create a schema", one(catalog.create_schema("sa]es"))
    yield "catalogue: grant receiving", one(catalog.grant_receive(SALES, "receivers"))
    yield "catalogue: grant sending", one(catalog.grant_send(SALES, "senders"))
    yield "catalogue: grant viewing", one(catalog.grant_view(SALES, "viewers"))
