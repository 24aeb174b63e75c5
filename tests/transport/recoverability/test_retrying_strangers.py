"""Putting back what strangers put into an error queue: only queues get messages, and one bad row holds up no other."""

from __future__ import annotations

import json

import pytest

import rowbus
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.settings import LONGEST_HEADERS_READ, Allowed
from rowbus.transport.recoverability import error_queue
from rowbus.transport.recoverability.error_queue import ErrorQueue, Result
from rowbus.transport.recoverability.failed_message import ALL
from tests.conformance.backend import Backend

SAME = rowbus.AllowedDestinations.SAME_SCHEMA
NO_QUEUE = {
    "PostgreSQL": 'create table "Notes" (id uuid, expires timestamp, headers text, body bytea, author text)',
    "SQL Server": "create table [{0}].[Notes] (Id uniqueidentifier, Recoverable bit, Expires datetime, "
    "Headers nvarchar(max), Body varbinary(max))",
}


@pytest.fixture
async def failed_in(backend: Backend) -> FailedIn:
    """Give what puts messages into the error queue, beside which there is the queue Sales."""
    for name in ("Sales", "error"):
        await backend.create_queue(name)
    return FailedIn(backend)


class FailedIn:
    """Puts messages into the error queue that say they failed somewhere, and has them put back."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    async def add(self, queue: QueueAddress | str, body: bytes = b"{}", **more: str) -> None:
        address = self.backend.queue(queue) if isinstance(queue, str) else queue
        headers = {Header.MESSAGE_ID: "1", Header.FAILED_QUEUE: address.canonical, **more}
        await self.backend.insert("error", json.dumps(headers), body)

    def retry(self, allowed: Allowed = SAME, to: QueueAddress | None = None) -> Result:
        with self.backend.database.session() as session:
            return ErrorQueue(session, self.backend.queue("error")).retry(ALL, to, allowed=allowed)

    async def bodies(self, queue: QueueAddress | str) -> list[bytes | None]:
        return [row.body for row in await self.backend.rows(queue)]


def the_reason(result: Result) -> str:
    ((reason, count),) = result.stayed.items()
    assert count == 1
    return reason


@pytest.mark.every_version
@pytest.mark.only("PostgreSQL", reason="Wolverine's tables there")
async def test_a_table_whose_headers_are_varchar_is_a_queue(failed_in: FailedIn) -> None:
    backend = failed_in.backend
    await failed_in.add("Sales", b"1")
    await backend.execute(f'alter table "{backend.schema}"."Sales" alter headers type varchar')

    result = failed_in.retry()

    assert result.moved == {backend.queue("Sales"): 1}
    assert await failed_in.bodies("Sales") == [b"1"]


async def test_a_message_does_not_go_to_a_table_that_is_no_queue_and_the_others_go(
    failed_in: FailedIn,
) -> None:
    backend = failed_in.backend
    await backend.execute(NO_QUEUE[backend.name].format(backend.schema))
    await failed_in.add("Sales", b"1")
    await failed_in.add("Notes", b"2")
    await failed_in.add("Sales", b"3")

    result = failed_in.retry()

    assert result.moved == {backend.queue("Sales"): 2}
    assert "no queue" in the_reason(result)
    assert await backend.count("Notes") == 0
    assert await failed_in.bodies("Sales") == [b"1", b"3"]
    assert await failed_in.bodies("error") == [b"2"]


async def test_a_message_does_not_go_to_another_schema_unless_that_is_allowed(failed_in: FailedIn) -> None:
    backend = failed_in.backend
    payroll = backend.queue("Payroll", await backend.create_schema("ledger"))
    await backend.create_queue(payroll)
    await failed_in.add(payroll, b"1")
    await failed_in.add("Sales", b"2")

    result = failed_in.retry()
    assert result.moved == {backend.queue("Sales"): 1}
    assert "--to-any-queue" in the_reason(result)
    assert await backend.count(payroll) == 0

    assert failed_in.retry(("Sales",)).moved == {}
    assert failed_in.retry((payroll.canonical.replace("Payroll", "*"),)).moved == {payroll: 1}
    assert await failed_in.bodies(payroll) == [b"1"]


async def test_who_names_the_queue_may_name_any(failed_in: FailedIn) -> None:
    backend = failed_in.backend
    payroll = backend.queue("Payroll", await backend.create_schema("ledger"))
    await backend.create_queue(payroll)
    await failed_in.add("Sales", b"1")
    assert failed_in.retry(to=payroll).moved == {payroll: 1}


@pytest.mark.only("PostgreSQL", reason="a table's owner may have it run code there")
async def test_who_lists_a_queue_answers_for_its_owner(failed_in: FailedIn) -> None:
    await failed_in.backend.execute(
        'create role rowbus_test_mallory; alter table "Sales" owner to rowbus_test_mallory'
    )
    await failed_in.add("Sales", b"1")

    assert "rowbus_test_mallory" in the_reason(failed_in.retry())
    assert failed_in.retry(("Sales",)).moved == {failed_in.backend.queue("Sales"): 1}


@pytest.mark.only("PostgreSQL", reason="it constrains PostgreSQL's tables")
async def test_a_message_that_its_queue_refuses_stays_and_the_others_go(failed_in: FailedIn) -> None:
    backend = failed_in.backend
    await backend.execute('alter table "Sales" add constraint short check (octet_length(body) < 5)')
    await failed_in.add("Sales", b"1")
    await failed_in.add("Sales", b"too long")
    await failed_in.add("Sales", b"3")

    result = failed_in.retry()

    assert result.moved == {backend.queue("Sales"): 2}
    assert "refuses it" in the_reason(result)
    assert await failed_in.bodies("Sales") == [b"1", b"3"]
    assert await failed_in.bodies("error") == [b"too long"]


async def test_headers_too_large_to_be_read_stay_and_the_others_go(failed_in: FailedIn) -> None:
    await failed_in.add("Sales", b"1", Shop__Large="x" * LONGEST_HEADERS_READ)
    await failed_in.add("Sales", b"2")

    result = failed_in.retry()

    assert result.moved == {failed_in.backend.queue("Sales"): 1}
    assert the_reason(result) == error_queue.UNREADABLE


async def test_messages_without_a_body_get_an_empty_one_and_keep_their_order(failed_in: FailedIn) -> None:
    await failed_in.backend.insert("error", failed_headers(failed_in), None)
    for body in (b"1", b"2", b"3"):
        await failed_in.add("Sales", body)
    assert failed_in.retry().moved.total() == 4
    assert await failed_in.bodies("Sales") == [b"", b"1", b"2", b"3"]


def failed_headers(failed_in: FailedIn) -> str:
    return json.dumps({Header.FAILED_QUEUE: failed_in.backend.queue("Sales").canonical})


async def test_reasons_are_counted_up_to_a_number(
    failed_in: FailedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_queue, "MOST_REASONS", 3)
    for number in range(6):
        await failed_in.add(f"Missing {number}")
    result = failed_in.retry()
    assert len(result.stayed) == 4
    assert result.stayed[error_queue.OTHER] == 3
    assert result.stayed.total() == 6


async def test_a_large_row_can_be_listed_and_looked_at(failed_in: FailedIn) -> None:
    large = b"y" * (LONGEST_HEADERS_READ + 10)
    await failed_in.add("Sales", large)
    await failed_in.add("Sales", b"1", Shop__Large="x" * LONGEST_HEADERS_READ)
    with failed_in.backend.database.session() as session:
        errors = ErrorQueue(session, failed_in.backend.queue("error"))
        first, second = errors.find(ALL)
        looked, other = errors.look(first), errors.look(second)
    assert first.is_readable
    assert not second.is_readable
    assert "bytes" in second.reason
    assert looked is not None
    assert other is not None
    assert (len(looked.body or b""), looked.cut_from) == (LONGEST_HEADERS_READ, len(large))
    assert len(other.headers) == LONGEST_HEADERS_READ
    assert other.cut_from is None
