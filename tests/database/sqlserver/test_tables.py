"""Each statement of SQL Server's tables, through the driver's face, on the stand-in: parameters, answers, what is left.

It proves that parameters fit their files and answers their decoders. What SQL Server makes of the T-SQL only the gated
suite proves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from rowbus.database.sqlserver.batches import Batches
from rowbus.database.statements import Statement
from rowbus.errors import ConfigurationError, QueueNotFoundError, StorageError
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.sqlserver_address import SqlServerAddress, SqlServerAddresses
from rowbus.transport.deduplication.sqlserver import InboxTable
from rowbus.transport.delayed.policy import behind
from rowbus.transport.delayed.sqlserver import DelayedTable
from rowbus.transport.delayed_store.protocol import DelayedMessage
from rowbus.transport.delayed_store.sqlserver import DelayedStoreTable
from rowbus.transport.pubsub.sqlserver import SubscriptionRouting
from rowbus.transport.queues.catalog.sqlserver import Catalog
from rowbus.transport.queues.sqlserver import QueueTable
from rowbus.transport.queues.sqlserver_diagnosis import SqlServerFacts
from rowbus.transport.recoverability.sqlserver import ErrorQueueTable
from tests.database.sqlserver.standin.driver import connect, prepare_database

T = TypeVar("T")

FROM_THE_START = -(2**31)
NEVER = timedelta(days=400_000)


class Server:
    """A catalog, and a session that runs statements in it."""

    def __init__(self, dsn: str) -> None:
        self.connection = connect(dsn)
        self.batches = Batches(self.connection)
        (self.catalog,) = self.connection.execute("select db_name()").fetchall()[0]
        self._dsn = dsn

    def address(self, table: str) -> SqlServerAddress:
        return SqlServerAddress("dbo", table, self.catalog)

    def run(self, statement: Statement[T]) -> T:
        return self.batches.run(statement)

    def begin(self) -> None:
        self.connection.execute("begin transaction")

    def commit(self) -> None:
        self.connection.execute("commit transaction")

    def create(self, statements: list[Statement[None]]) -> None:
        self.begin()
        for statement in statements:
            self.run(statement)
        self.commit()

    def execute(self, text: str) -> None:
        self.connection.execute(text)

    def another(self) -> Server:
        return Server(self._dsn)


@pytest.fixture
def server(database: str) -> Iterator[Server]:
    prepare_database(database)
    found = Server(database)
    try:
        yield found
    finally:
        found.connection.close()


@pytest.fixture
def sales(server: Server) -> SqlServerAddress:
    address = server.address("Sales")
    server.create(QueueTable(address).create())
    return address


def message(body: bytes = b"1", **headers: str) -> OutgoingMessage:
    return OutgoingMessage(headers, body)


# ------------------------------------------------------------------------------------------------------------- queue


def test_a_message_sent_is_received_once_with_its_headers_and_body(
    server: Server, sales: SqlServerAddress
) -> None:
    table = QueueTable(sales)

    server.run(table.send(message(b"\x00\xff", Name="Ünïcödé 🚀"), notify=True))
    received = server.run(table.receive(1, FROM_THE_START))

    (row,) = received
    assert decode_headers(row.headers) == {"Name": "Ünïcödé 🚀"}
    assert (row.body, row.expired, row.id) == (b"\x00\xff", False, row.id.lower())
    assert server.run(table.receive(1, FROM_THE_START)) == []


def test_several_messages_come_in_the_order_in_which_they_were_sent(
    server: Server, sales: SqlServerAddress
) -> None:
    table = QueueTable(sales)

    for statement in table.send_all([message(body) for body in (b"1", b"2", b"3")], notify=True):
        server.run(statement)

    assert server.run(table.count_available(2, FROM_THE_START)) == 2
    assert server.run(table.count_available(9, FROM_THE_START)) == 3
    assert [row.body for row in server.run(table.receive(2, FROM_THE_START))] == [b"1", b"2"]
    assert [row.body for row in server.run(table.peek(9))] == [b"3"]
    assert server.run(table.purge()) == 1


def test_a_receive_begins_at_the_lower_bound(server: Server, sales: SqlServerAddress) -> None:
    table = QueueTable(sales)
    for statement in table.send_all([message(b"1"), message(b"2")], notify=True):
        server.run(statement)
    (_, second) = server.run(table.peek(9))

    assert server.run(table.count_available(9, second.seq)) == 1
    assert [row.body for row in server.run(table.receive(1, second.seq))] == [b"2"]


@pytest.mark.parametrize("time_to_be_received, purged", [(timedelta(microseconds=1), 1), (NEVER, 0)])
def test_a_message_expires_by_the_databases_clock(
    server: Server, sales: SqlServerAddress, time_to_be_received: timedelta, purged: int
) -> None:
    table = QueueTable(sales)
    server.run(table.send(OutgoingMessage({}, b"", time_to_be_received), notify=True))
    _later()

    (peeked,) = server.run(table.peek(1))
    assert isinstance(peeked.expires, datetime)
    assert peeked.expires.tzinfo is UTC
    assert server.run(table.purge_expired(10)) == purged


def test_a_copied_message_is_like_a_sent_one(server: Server, sales: SqlServerAddress) -> None:
    table = QueueTable(sales)
    moment = server.run(table.expiry(timedelta(minutes=5)))

    server.batches.copy(table.copy, table.copy_rows([("{}", b"1"), ('{"a": "b"}', b"")], moment))

    rows = server.run(table.peek(9))
    assert [(row.headers, row.body) for row in rows] == [("{}", b"1"), ('{"a": "b"}', b"")]
    assert moment is not None
    assert isinstance(rows[0].expires, datetime)
    assert abs(rows[0].expires - moment) < timedelta(milliseconds=5)
    assert server.run(table.expiry(None)) is None


def test_a_missing_queue_is_named(server: Server) -> None:
    table = QueueTable(server.address("Missing"))

    for statement in (table.send(message(), notify=True), table.receive(1, 0), table.count_available(1, 0)):
        with pytest.raises(QueueNotFoundError, match="Missing"):
            server.run(statement)
    assert server.run(table.exists()) is False


def test_a_queue_that_is_listed_in_small_letters_has_the_name_it_was_asked_for_by(server: Server) -> None:
    """Babelfish lists names in small letters."""
    server.create(QueueTable(server.address("shop.sales")).create())
    asked = server.address("Shop.Sales")

    found = server.run(_catalog(server).find_queues([asked]))

    assert asked in {shape.address for shape in found}
    assert QueueTable(server.address("shop.sales")).address in {
        shape.address for shape in server.run(_catalog(server).find_queues())
    }


def test_what_somebody_has_in_hand_is_passed_over(server: Server, sales: SqlServerAddress) -> None:
    table, other = QueueTable(sales), server.another()
    for statement in table.send_all([message(b"1"), message(b"2")], notify=True):
        server.run(statement)
    server.begin()
    (taken,) = server.run(table.receive(1, FROM_THE_START))

    assert [row.body for row in other.run(table.peek(9))] in (
        [b"2"],
        [b"1", b"2"],
    )  # the latter: it reads versions
    assert other.run(table.count_available(9, FROM_THE_START)) in {1, 2}
    other.begin()
    assert [row.body for row in other.run(table.receive(1, FROM_THE_START))] == [b"2"]
    other.connection.execute("rollback transaction")
    assert [row.body for row in other.run(table.receive(9, FROM_THE_START))] == [b"2"]
    server.connection.execute("rollback transaction")
    assert other.run(table.holds(taken.id)) is True
    other.connection.close()


def test_sends_adapt_to_a_table_without_recoverable_and_to_its_return(
    server: Server, sales: SqlServerAddress
) -> None:
    table = QueueTable(sales)
    server.run(table.send(message(b"with"), notify=True))
    server.execute("alter table [dbo].[Sales] drop column Recoverable")

    with pytest.raises(StorageError) as failure:
        server.run(table.send(message(b"lost"), notify=True))
    assert "ecoverable" in str(failure.value)
    server.run(table.send(message(b"without"), notify=True))
    server.batches.copy(table.copy, table.copy_rows([("{}", b"copied")], None))

    assert [row.body for row in server.run(table.receive(9, FROM_THE_START))] == [
        b"with",
        b"without",
        b"copied",
    ]


def test_a_table_without_the_legacy_columns_can_be_received_from(
    server: Server, sales: SqlServerAddress
) -> None:
    server.execute("alter table [dbo].[Sales] drop column CorrelationId")
    server.execute("alter table [dbo].[Sales] drop column ReplyToAddress")
    table = QueueTable(sales)

    for statement in table.send_all([message(b"1"), message(b"2"), message(b"3")], notify=True):
        server.run(statement)

    assert [row.body for row in server.run(table.receive(1, FROM_THE_START))] == [b"1"]
    assert [row.body for row in server.run(table.receive(2, FROM_THE_START))] == [b"2", b"3"]


def test_what_legacy_software_writes_becomes_headers(server: Server, sales: SqlServerAddress) -> None:
    server.execute(
        "insert into [dbo].[Sales] (Id, CorrelationId, ReplyToAddress, Recoverable, Headers, Body) "
        "values (newid(), 'c-1', 'Legacy@host', 1, N'', 0x31)"
    )

    (row,) = server.run(QueueTable(sales).receive(1, FROM_THE_START))

    assert decode_headers(row.headers) == {
        Header.CORRELATION_ID: "c-1",
        Header.REPLY_TO_ADDRESS: "Legacy@host",
    }


def test_a_null_body_is_an_empty_one_as_in_net(server: Server, sales: SqlServerAddress) -> None:
    server.execute("insert into [dbo].[Sales] (Id, Recoverable, Headers) values (newid(), 1, N'{}')")

    (row,) = server.run(QueueTable(sales).receive(1, FROM_THE_START))

    assert row.body == b""


def test_creating_twice_changes_nothing_and_body_string_is_added_once(
    server: Server, sales: SqlServerAddress
) -> None:
    table = QueueTable(sales)
    server.run(table.send(message(b"1"), notify=True))

    server.create(table.create())
    server.create(table.create_body_string())
    server.create(table.create_body_string())

    assert server.run(table.exists()) is True
    (shape,) = server.run(_catalog(server).find_queues([sales]))
    assert shape.differences() == ()
    assert [column.name for column in shape.columns][-1] == "bodystring"
    server.run(table.drop())
    assert server.run(table.exists()) is False


def test_nobody_is_notified(sales: SqlServerAddress) -> None:
    table = QueueTable(sales)

    assert [*table.notify(), *table.listen(), *table.unlisten()] == []
    with pytest.raises(ConfigurationError, match="poll"):
        table.create_notify_trigger()


# ----------------------------------------------------------------------------------------------------------- delayed


@pytest.fixture
def delayed(server: Server) -> SqlServerAddress:
    address = server.address("Sales.Delayed")
    server.create(DelayedTable(address).create())
    return address


def test_due_messages_move_in_their_order_without_the_mark(
    server: Server, sales: SqlServerAddress, delayed: SqlServerAddress
) -> None:
    table = DelayedTable(delayed)
    for body, delay in ((b"2", -1.0), (b"1", -2.0), (b"later", 3600.0)):
        waiting = OutgoingMessage({"a": "b", "Mark": "Sales"}, body)
        server.run(table.store(waiting, timedelta(seconds=delay), notify=True))

    server.begin()
    due = server.run(table.take_due(10))
    moved = server.run(table.move([each.id for each in due], sales, ',"Mark":"Sales"'))
    server.commit()

    rows = server.run(QueueTable(sales).receive(9, FROM_THE_START))
    assert (len(due), moved) == (2, 2)
    assert [(row.body, decode_headers(row.headers)) for row in rows] == [
        (b"1", {"a": "b"}),
        (b"2", {"a": "b"}),
    ]
    assert 3590 < (server.run(table.next_due()) or 0) <= 3601
    state = server.run(table.state(10))
    assert (state.waiting, state.overdue) == (1, 0)
    assert state.next_due is not None
    assert state.next_due - state.at > timedelta(minutes=59)


def test_due_messages_are_passed_over_up_to_a_place(
    server: Server, sales: SqlServerAddress, delayed: SqlServerAddress
) -> None:
    table = DelayedTable(delayed)
    for number in range(5):
        waiting = OutgoingMessage({"number": str(number)}, b"")
        server.run(table.store(waiting, timedelta(seconds=number // 2 - 9), notify=True))
    server.run(table.store(message(b"later"), timedelta(hours=1), notify=True))

    server.begin()
    first, *others = server.run(table.take_due(2))
    place = behind(None, [first])
    behind_it = server.run(table.take_due_behind(2, place))
    rest = server.run(table.take_due_behind(9, behind(place, [*others, *behind_it])))
    nothing = server.run(table.next_due_behind(behind(None, [*rest])))
    server.commit()

    assert [each.headers for each in (first, *others)] == ['{"number":"0"}', '{"number":"1"}']
    assert [each.headers for each in behind_it] == ['{"number":"1"}', '{"number":"2"}']
    assert [each.headers for each in rest] == ['{"number":"3"}', '{"number":"4"}']
    assert 3590 < (nothing or 0) <= 3601


def test_messages_given_up_on_move_with_other_headers(
    server: Server, sales: SqlServerAddress, delayed: SqlServerAddress
) -> None:
    table = DelayedTable(delayed)
    for statement in table.store_all(
        [message(b"1"), message(b"2")], [timedelta(0), timedelta(0)], notify=True
    ):
        server.run(statement)
    _later()

    server.begin()
    due = server.run(table.take_due(10))
    headers = ['{"n":"1"}', '{"n":"2"}']
    for move in table.move_with_headers([each.id for each in due], headers, sales):
        assert server.run(move) == 1
    server.commit()

    rows = server.run(QueueTable(sales).receive(9, FROM_THE_START))
    assert [(row.headers, row.body) for row in rows] == [('{"n":"1"}', b"1"), ('{"n":"2"}', b"2")]


def test_a_mover_adapts_to_a_queue_without_recoverable(
    server: Server, sales: SqlServerAddress, delayed: SqlServerAddress
) -> None:
    server.execute("alter table [dbo].[Sales] drop column Recoverable")
    table = DelayedTable(delayed)
    server.run(table.store(message(b"1"), timedelta(seconds=-1), notify=True))

    server.begin()
    (due,) = server.run(table.take_due(10))
    assert server.run(table.move([due.id], sales)) == 1
    server.commit()


def test_what_is_due_at_the_same_time_is_taken_in_the_order_in_which_it_was_stored() -> None:
    at, later = datetime(2026, 1, 2), datetime(2026, 1, 3)  # noqa: DTZ001 - as drivers give them
    query = DelayedTable(SqlServerAddress("dbo", "Sales.Delayed", "c")).take_due(9)

    taken = query.decode([(7, later, "{}"), (9, at, "{}"), (8, at, "{}")], 3)

    assert [each.id.partition("@")[0] for each in taken] == ["8", "9", "7"]


@pytest.mark.parametrize("microseconds", [0, 1, 999, 1000, 1700, 2400, 4999, 999_999])
def test_no_instant_is_rounded_to_an_earlier_one(
    server: Server, delayed: SqlServerAddress, microseconds: int
) -> None:
    at = datetime(2030, 1, 2, 3, 4, 5, microseconds, tzinfo=UTC)
    table = DelayedTable(delayed)

    server.run(table.store(message(), at, notify=True))
    server.batches.copy(table.copy, table.copy_rows([("{}", b"")], server.run(table.due(at))))

    for waiting in server.run(table.peek(9)):
        assert timedelta(0) <= waiting.due - at < timedelta(milliseconds=10)


def test_one_mover_leads_until_its_session_ends(server: Server, delayed: SqlServerAddress) -> None:
    table, other = DelayedTable(delayed), server.another()
    for statement in table.configure(lock_timeout=5, idle_timeout=0):
        server.run(statement)

    assert server.run(table.try_lead()) is True
    assert other.run(table.try_lead()) is False
    server.connection.close()
    assert _becomes_true(lambda: other.run(table.try_lead()))
    other.connection.close()


def test_an_empty_table_has_nothing_due(server: Server, delayed: SqlServerAddress) -> None:
    table = DelayedTable(delayed)

    assert server.run(table.exists()) is True
    assert server.run(table.next_due()) is None
    assert server.run(table.state(5))[:3] == (0, 0, None)
    assert server.run(table.peek(5)) == []
    assert server.run(_catalog(server).find_delayed("dbo")) == [delayed]
    assert server.run(_catalog(server).find_delayed("other")) == []


# ----------------------------------------------------------------------------------------- subscriptions, inbox, errors


def test_subscribing_says_for_how_many_topics_it_is_news(server: Server) -> None:
    table = SubscriptionRouting(server.address("SubscriptionRouting"))
    server.create(table.create())
    sales, moved = server.address("Sales"), server.address("Moved")

    assert server.run(table.subscribe("Sales", ["A", "B", "A"], sales)) == 2
    assert server.run(table.subscribe("Sales", ["A", "B"], sales)) == 0
    assert server.run(table.subscribe("Sales", ["B", "C"], moved)) == 2
    assert server.run(table.subscribers(["A", "B", "Z"])) == (moved, sales)
    assert [tuple(row)[:2] for row in server.run(table.list())] == [
        ("Sales", "A"),
        ("Sales", "B"),
        ("Sales", "C"),
    ]
    assert sorted(server.run(table.unsubscribe("Sales", ["A", "Z"]))) == ["A"]
    assert server.run(table.subscribers(["A"])) == ()
    assert server.run(table.exists()) is True


def test_a_message_is_new_to_an_inbox_once(server: Server) -> None:
    table = InboxTable(server.address("Sales.Inbox"))
    server.create(table.create())

    server.begin()
    assert server.run(table.accept("m-1")) is True
    server.commit()
    assert server.run(table.accept("m-1")) is False
    assert server.run(table.accept("M-1")) is True
    assert server.run(table.purge(timedelta(hours=1), 10)) == 0
    _later()
    assert server.run(table.purge(timedelta(0), 10)) == 2
    assert server.run(table.accept("m-1")) is True


def test_messages_are_scanned_looked_at_and_moved_from_an_error_queue(
    server: Server, sales: SqlServerAddress
) -> None:
    billing = server.address("Billing")
    server.create(QueueTable(billing).create())
    for statement in QueueTable(sales).send_all([message(body) for body in (b"1", b"2", b"3")], notify=True):
        server.run(statement)
    table = ErrorQueueTable(sales)

    newest = server.run(table.newest()) or 0
    stories = server.run(table.scan(FROM_THE_START, newest, 2))
    first, second, third = server.run(QueueTable(sales).peek(9))
    assert [story.row_id for story in stories] == [first.id, second.id]
    assert server.run(table.look(third.id)) == third
    found = server.run(table.headers([second.id, first.id]))
    assert [one.id for one in found] == [first.id, second.id]
    other = [one._replace(headers='{"a":"1"}') for one in found]
    for each in QueueTable(sales).move(other, billing, notify=True):
        assert server.run(each) == 1
    assert [(row.headers, row.body) for row in server.run(QueueTable(billing).peek(9))] == [
        ('{"a":"1"}', b"1"),
        ('{"a":"1"}', b"2"),
    ]
    assert [server.run(each) for each in QueueTable(sales).move(other[:1], billing, notify=True)] == [0]
    assert server.run(table.look(first.id)) is None
    assert server.run(table.discard([third.id, first.id])) == 1
    assert server.run(table.newest()) is None


# -------------------------------------------------------------------------------------------------------- delayed store


def test_a_store_keeps_a_message_once_until_it_is_removed(server: Server) -> None:
    table = DelayedStoreTable(server.address("Sales.delayed"))
    server.create(table.create())
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    kept = DelayedMessage(message_id="1", destination="Sales@[dbo]", time=at, headers=b"{}", body=b"\x00")

    server.begin()
    server.run(table.store(kept))
    server.run(table.store(kept))
    server.commit()

    assert server.run(table.exists()) is True
    assert server.run(table.next()) == at
    assert server.run(table.fetch_next_due(at - timedelta(seconds=1))) is None
    assert server.run(table.fetch_next_due(at)) == kept
    assert server.run(table.increment_failure_count("1")) == 1
    assert server.run(table.fetch_next_due(at)) == replace(kept, number_of_retries=1)
    assert server.run(table.remove("1")) == 1
    assert server.run(table.remove("1")) == 0
    assert server.run(table.next()) is None


# ------------------------------------------------------------------------------------------------------------- catalog


def test_the_catalog_describes_queues_and_their_state(server: Server, sales: SqlServerAddress) -> None:
    server.run(QueueTable(sales).send(message(b"1", a="b"), notify=True))
    catalog = _catalog(server)

    (shape,) = server.run(catalog.find_queues([SqlServerAddress("dbo", "Sales", "another")]))
    state = server.run(catalog.queue_state(sales, 10))

    assert (shape.address, shape.is_queue, shape.differences(), shape.readable) == (sales, True, (), True)
    assert shape.sequence is not None
    assert shape.sequence.position == 1
    assert (state.depth, state.in_hand, decode_headers(state.oldest_headers or "")) == (1, None, {"a": "b"})
    assert abs(state.at - server.run(catalog.clock())) < timedelta(seconds=5)
    assert [server.run(look) for look in QueueTable(sales).inspect(purges=True)] == [[], []]


def test_a_schema_is_created_when_it_is_missing(server: Server) -> None:
    catalog = _catalog(server)

    assert server.run(catalog.schema_exists("orders")) is False
    server.run(catalog.create_schema("orders"))
    server.run(catalog.create_schema("orders"))
    assert server.run(catalog.schema_exists("orders")) is True


def test_the_doctor_has_its_facts(server: Server, sales: SqlServerAddress) -> None:
    catalog = _catalog(server)

    facts = server.run(catalog.server())
    assert isinstance(facts, SqlServerFacts)
    assert facts.catalog == server.catalog
    assert list(facts.findings())
    assert list(facts.findings_on_holders(server.run(catalog.snapshot_holders())))
    assert list(facts.findings_on_storage(server.run(catalog.queue_storage([sales])))) == []


def _catalog(server: Server) -> Catalog:
    return Catalog(SqlServerAddresses("dbo", server.catalog))


def _later() -> None:
    """Let the clock go on by what `datetime` cannot tell apart."""
    time.sleep(0.02)


def _becomes_true(question: Callable[[], bool]) -> bool:
    return any(question() for _ in range(200))
