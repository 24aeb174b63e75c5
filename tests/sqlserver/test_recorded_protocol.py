"""What goes over the wire to SQL Server for each operation: the batches, in their order, with their parameters.

The approved text is tests/approved/sqlserver_protocol.txt. A difference is a change of what servers are asked; when it
is meant, accept it with `ROWBUS_TEST_ACCEPT=1 make test ARGS='tests/sqlserver/test_recorded_protocol.py'`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from rowbus.database.adaptation import KnownColumns
from rowbus.database.sqlserver.connection import Session
from rowbus.errors import RowbusError
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.table import queue_table
from tests.sqlserver.operations import BILLING, DUE_IDS, MESSAGE, SALES, Operation, columns, operations
from tests.sqlserver.recording import RecordingConnection

APPROVED = Path(__file__).parent.parent / "approved" / "sqlserver_protocol.txt"


def recorded(operation: Operation, known_columns: KnownColumns) -> list[str]:
    """Run an operation in a session of its own and return what went over the wire."""
    connection = RecordingConnection()
    columns(connection)
    with suppress(IndexError, RowbusError, ValueError):  # the answers are empty, and some decoders want rows
        session = Session(connection)
        session.share(known_columns)
        operation(session)
    return [line for call in connection.calls for line in _lines(call)]


def _lines(call: tuple[object, ...]) -> list[str]:
    text, *parameters = call
    return ["", *(f"    {line}".rstrip() for line in str(text).splitlines()), *map(_parameter, parameters)]


def _parameter(value: object) -> str:
    return f"  <- {value!r}"


def described() -> str:
    known_columns = KnownColumns()  # of the one database that all of them are in
    parts = ["\n".join((name, *recorded(operation, known_columns))) for name, operation in operations()]
    return "\n\n\n".join(parts) + "\n"


def test_each_operation_sends_the_approved_batches_with_the_approved_parameters() -> None:
    text = described()
    if os.environ.get("ROWBUS_TEST_ACCEPT"):
        APPROVED.write_text(text, encoding="utf-8")
    assert text == APPROVED.read_text("utf-8")


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

    for _ in range(2):
        session.run(table.send(OutgoingMessage({}, b""), notify=True))

    assert probes(wire) == 2
