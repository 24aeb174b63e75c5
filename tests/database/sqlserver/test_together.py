"""Sends, commit, begin and the next receive in one batch: one round trip, and what an error leaves of either half."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.database.sqlserver.receive_session import MessageTransaction
from rowbus.database.sqlserver.statements import as_prepared, as_procedure, load, preparation, values
from rowbus.database.sqlserver.transactions import MOST_TOGETHER, may_travel
from rowbus.database.statements import Statement
from rowbus.errors import QueueNotFoundError, StorageError
from rowbus.messages.message import MessageRow, OutgoingMessage
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.transport.queues.sqlserver import QueueTable
from tests.database.sqlserver.recording import RecordingConnection, statement
from tests.database.sqlserver.standin import driver
from tests.database.sqlserver.standin.tokens import tokens, unquoted
from tests.database.sqlserver.test_faults import from_microsoft
from tests.fixtures.every import every

pytestmark = pytest.mark.one_version
FROM_THE_START = -(2**31)


class Slot:
    """A receive transaction on a queue, whose round trips are counted."""

    def __init__(self, dsn: str) -> None:
        self.connection = driver.connect(dsn)
        self.transaction = MessageTransaction(self.connection)
        ((catalog,),) = self.connection.execute("select db_name()").fetchall()
        self.queue = QueueTable(SqlServerAddress("dbo", "Sales", catalog))
        self.other = QueueTable(SqlServerAddress("dbo", "Billing", catalog))
        self.missing = QueueTable(SqlServerAddress("dbo", "Missing", catalog))
        self.trips = 0

    def install(self) -> None:
        for table in (self.queue, self.other):
            with self.transaction.transaction():
                self.transaction.run_all(table.create())

    def send(self, *bodies: bytes, to: QueueTable | None = None) -> list[Statement[Any]]:
        return [
            (to or self.queue).send(OutgoingMessage({"X": "it's ? [$(x)] 50%"}, body), notify=False)
            for body in bodies
        ]

    @property
    def receive(self) -> Statement[list[MessageRow]]:
        return self.queue.receive(1, FROM_THE_START)

    def count(self) -> None:
        original = self.connection._answers

        def counting(*arguments: Any) -> Any:  # noqa: ANN401 - as the stand-in's
            self.trips += 1
            return original(*arguments)

        self.connection._answers = counting  # type: ignore[assignment, method-assign] # what a round trip is in the stand-in

    def bodies(self, table: QueueTable) -> list[bytes]:
        with MessageTransaction(self.connection).transaction():
            return [bytes(row.body or b"") for row in self.transaction.run(table.peek(10))]


@pytest.fixture
def slot(database: str) -> Iterator[Slot]:
    driver.prepare_database(database)
    slot = Slot(database)
    slot.install()
    slot.transaction.run_all(slot.send(b"1", b"2", b"3", b"4"))
    yield slot
    slot.transaction.close()


def test_each_message_after_the_first_is_one_round_trip(slot: Slot) -> None:
    transaction = slot.transaction
    (row,) = transaction.begin(slot.receive)
    transaction.commit_and_begin(slot.send(b"asked", to=slot.other), slot.receive)  # learns the columns
    slot.count()
    for expected in (b"3", b"4"):
        transaction.start_attempt()
        (row,) = transaction.commit_and_begin(slot.send(b"a", b"b", to=slot.other), slot.receive)
        assert row.body == expected
    transaction.start_attempt()
    assert transaction.commit_and_begin(slot.send(b"c", to=slot.other), slot.receive) == []
    assert slot.trips == 3
    transaction.roll_back()
    assert slot.bodies(slot.other) == [b"asked", b"a", b"b", b"a", b"b", b"c"]
    assert slot.bodies(slot.queue) == []


def test_a_send_that_fails_names_its_queue_commits_nothing_and_can_be_undone(slot: Slot) -> None:
    transaction = slot.transaction
    (row,) = transaction.begin(slot.receive)
    transaction.start_attempt()
    last = [*slot.send(b"a", to=slot.other), *slot.send(b"b", to=slot.missing)]
    with pytest.raises(QueueNotFoundError, match="Missing"):
        transaction.commit_and_begin(last, slot.receive)
    assert not transaction.committed
    assert transaction.undo_completion()
    (following,) = transaction.commit_and_begin(slot.send(b"verdict", to=slot.other), slot.receive)
    assert (row.body, following.body) == (b"1", b"2")
    transaction.roll_back()
    assert slot.bodies(slot.other) == [b"verdict"]
    assert slot.bodies(slot.queue) == [b"2", b"3", b"4"]


@every(
    "said",
    [
        'relation "dbo.missing" does not exist',
        'relation "missing" does not exist',
        "Invalid object name 'dbo.Missing'.",
        "Invalid object name 'Sales.dbo.Missing'.",
    ],
)
def test_a_batch_that_ends_before_it_says_which_send_failed_names_the_missing_queue_all_the_same(
    said: str,
) -> None:
    wire = RecordingConnection()
    wire.answer("known_columns|sys.all_columns", ("recoverable",), ("id",))
    transaction = MessageTransaction(wire)
    there, missing, receiving = (
        QueueTable(SqlServerAddress("dbo", name, "Sales")) for name in ("There", "Missing", "Work")
    )
    message = OutgoingMessage({}, b"")
    transaction.begin(receiving.receive(1, FROM_THE_START))
    wire.fail("begin try", from_microsoft("Syntax error or access violation", f"[SQL Server]{said}"))
    last = [table.send(message, notify=False) for table in (there, missing)]
    with pytest.raises(QueueNotFoundError) as failed:
        transaction.commit_and_begin(last, receiving.receive(1, FROM_THE_START))
    assert failed.value.queue == str(missing.address)


def test_a_constraint_that_a_send_violates_ends_the_batch_before_its_commit(slot: Slot) -> None:
    slot.connection.execute("alter table [dbo].[Billing] add constraint empty check (datalength(Body) = 0)")
    transaction = slot.transaction
    transaction.begin(slot.receive)
    transaction.start_attempt()
    with pytest.raises(StorageError, match="Billing"):
        transaction.commit_and_begin(slot.send(b"full", to=slot.other), slot.receive)
    assert not transaction.committed
    transaction.roll_back()
    assert slot.bodies(slot.queue) == [b"1", b"2", b"3", b"4"]


def test_only_the_next_receive_failing_leaves_the_message_committed(slot: Slot) -> None:
    transaction = slot.transaction
    transaction.begin(slot.receive)
    transaction.start_attempt()
    with pytest.raises(QueueNotFoundError, match="Missing"):
        transaction.commit_and_begin(slot.send(b"a", to=slot.other), slot.missing.receive(1, FROM_THE_START))
    assert transaction.committed
    assert not transaction.undo_completion()
    transaction.roll_back()
    assert slot.bodies(slot.other) == [b"a"]
    assert slot.bodies(slot.queue) == [b"2", b"3", b"4"]


def test_headers_keep_the_byte_order_mark_that_the_driver_takes_away(slot: Slot) -> None:
    text = '\ufeff{"a":"b"}'
    transaction = slot.transaction
    for receive in (
        slot.other.receive(1, FROM_THE_START),
        slot.other.receive(2, FROM_THE_START),
        slot.other.receive(1, FROM_THE_START, passed_over=[17]),
    ):
        slot.connection.execute(
            "insert into [dbo].[Billing] (Id, Recoverable, Headers) values (newid(), 1, ?)", text
        )
        (row,) = transaction.begin(receive)
        transaction.commit([])
        assert row.headers == text


def test_what_is_large_or_no_literal_travels_as_parameters(slot: Slot) -> None:
    for text in ("\\\n", "a\\\r\n", "\0"):
        assert not may_travel([statement("send ?", text=text)])
    assert may_travel([statement("send ?", text="\\n and \n", body=b"\\\n\0")])
    large = b"x" * (MOST_TOGETHER + 1)
    transaction = slot.transaction
    transaction.begin(slot.receive)
    transaction.start_attempt()
    (row,) = transaction.commit_and_begin(slot.send(large, to=slot.other), slot.receive)
    transaction.roll_back()
    assert row.body == b"2"
    assert [len(body) for body in slot.bodies(slot.other)] != []


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_values_are_literals_of_a_text_that_is_the_same_for_all(text: str) -> None:
    query = load("transport/queues/sql/sqlserver/known_columns.sql", identifiers={"catalog": "it's"})
    given = Statement(query, {"queue_name": text}, lambda rows, _count: rows)
    strings = _strings(as_procedure(given))
    assert strings[1:] == ["@given_1 nvarchar(max)", text]
    assert _strings(preparation(given)) == strings[1::-1]
    assert _strings(as_prepared(7, given)) == [text]
    assert "[it's].sys.all_columns" in strings[0]
    assert "object_id(@given_1, N'U')" in strings[0]
    assert values(given) == [text]


def _strings(batch: str) -> list[str]:
    return [unquoted(each.text) for each in tokens(batch) if each.kind == "string"]
