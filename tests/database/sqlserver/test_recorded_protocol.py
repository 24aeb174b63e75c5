"""Operations on SQL Server's tables, up to the wire: the batches that each sends, and how they adapt to a table."""

from __future__ import annotations

from contextlib import suppress

import pytest
import sqlglot

from rowbus.database.sqlserver.connection import Session
from rowbus.errors import QueueNotFoundError, RowbusError
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.table import queue_table
from tests.database.sqlserver.operations import (
    BILLING,
    DUE_IDS,
    MESSAGE,
    SALES,
    Operation,
    columns,
    operations,
)
from tests.database.sqlserver.recording import NO_TABLE, RecordingConnection
from tests.fixtures.every import every


def batches(operation: Operation) -> list[tuple[str, int]]:
    """Run an operation and return the text of each batch it sent, with the number of its parameters."""
    connection = RecordingConnection()
    columns(connection)
    with suppress(IndexError, RowbusError, ValueError):  # the answers are empty, and some decoders want rows
        operation(Session(connection))
    return [(call[0], _given(call[1:])) for call in connection.calls if isinstance(call, tuple)]


def _given(parameters: tuple[object, ...]) -> int:
    first = parameters[0] if parameters else None
    many = first if isinstance(first, tuple) and first[0] == "together" else None
    return len(many[1]) if many else len(parameters)


@every("name, operation", [pytest.param(*each, id=each[0]) for each in operations()])
def test_each_batch_is_t_sql_with_a_mark_for_each_parameter(name: str, operation: Operation) -> None:
    sent = batches(operation)

    assert sent, name
    for text, given in sent:
        assert sqlglot.parse(text, read="tsql", error_level=sqlglot.ErrorLevel.RAISE), text
        assert text.count("?") == given, text
        assert "$(" not in text, "a placeholder of the file was left"


# ---------------------------------------------------------------------------------------------- what adapts to a table


@pytest.fixture
def wire() -> RecordingConnection:
    return RecordingConnection()


def inserts(wire: RecordingConnection) -> list[str]:
    return [line for text in wire.texts for line in text.splitlines() if line.startswith("insert into")]


def probes(wire: RecordingConnection) -> int:
    return sum(text.startswith("select lower(name) as name") for text in wire.texts)


def test_a_queue_is_asked_for_its_columns_once(wire: RecordingConnection) -> None:
    columns(wire)
    session, table = Session(wire), queue_table(SALES)

    for _ in range(3):
        session.run(table.send(MESSAGE, notify=True))

    assert probes(wire) == 1
    assert inserts(wire) == ["insert into [shop].[dbo].[Sales] (Id, Recoverable, Expires, Headers, Body)"] * 3


def test_sends_and_copies_leave_out_a_column_that_is_not_there(wire: RecordingConnection) -> None:
    columns(wire, "recoverable")
    session, table = Session(wire), queue_table(SALES)

    session.run(table.send(MESSAGE, notify=True))
    session.copy(table.copy, table.copy_rows([("{}", b"")], None))

    assert inserts(wire) == ["insert into [shop].[dbo].[Sales] (Id, Expires, Headers, Body)"] * 2


def test_moves_leave_it_out_for_each_queue_by_itself(wire: RecordingConnection) -> None:
    columns(wire, "recoverable")
    session, table = Session(wire), delayed_table(SALES)

    with suppress(IndexError):
        session.run(table.move(DUE_IDS, BILLING))
    for statement in table.move_with_headers(DUE_IDS, ["{}", "{}"], BILLING):
        with suppress(IndexError):
            session.run(statement)

    assert inserts(wire) == ["insert into [accounts].[dbo].[Billing] (Id, Expires, Headers, Body)"] * 3
    assert probes(wire) == 1  # for both kinds of move


def test_receives_read_legacy_columns_where_they_are(wire: RecordingConnection) -> None:
    session, table = Session(wire), queue_table(SALES)
    columns(wire, "correlationid")
    session.run(table.receive(1, 0))
    session.run(table.receive(2, 0))

    assert not any("CorrelationId" in text for text in wire.texts)


def test_a_missing_table_is_asked_for_again_the_next_time(wire: RecordingConnection) -> None:
    session, table = Session(wire), queue_table(SALES)
    wire.fail("insert into", NO_TABLE)

    for _ in range(2):
        with pytest.raises(QueueNotFoundError):
            session.run(table.send(OutgoingMessage({}, b""), notify=True))

    assert probes(wire) == 2


def test_a_table_that_shows_no_columns_and_takes_rows_is_asked_for_them_once(
    wire: RecordingConnection,
) -> None:
    session, table = Session(wire), queue_table(SALES)

    for _ in range(2):
        session.run(table.send(OutgoingMessage({}, b""), notify=True))

    assert probes(wire) == 1
