"""Several statements on a user's own connection: in one round trip, planned by the driver, failing as what failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import LiteralString, NamedTuple

import psycopg
import pytest

from rowbus import QueueAddress, QueueNotFoundError
from rowbus.database.postgresql.borrowed import BorrowedSession
from rowbus.database.postgresql.connection import Session
from rowbus.database.statements import Statement
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.sessions import bodies, listening_to

MESSAGE = OutgoingMessage({"NServiceBus.MessageId": "1"}, b"{}")
QUEUES = [QueueTable(QueueAddress("public", f"Subscriber{number}")) for number in range(3)]
PLANS: LiteralString = "select count(*) from pg_prepared_statements where statement like '%Subscriber%'"

Statements = Sequence[Statement[object]]
Run = Callable[..., "Outcome"]


class Outcome(NamedTuple):
    """Counts at the end: plans of the connection, complaints, and waits for the server."""

    plans: int
    complaints: list[str]
    round_trips: int


def run(database: str, *lists: Statements, prepare_threshold: int | None = 5) -> Outcome:
    """Run lists of statements on one connection, each in a transaction."""
    complaints: list[str] = []
    round_trips = 0
    with psycopg.connect(database, autocommit=True, prepare_threshold=prepare_threshold) as connection:
        for statements in lists:
            with noting(complaints), connection.transaction(), listening_to(connection) as wire:
                Session(connection).run_all(statements)
                round_trips += wire.round_trips
        (plans,) = connection.execute(PLANS).fetchone() or (0,)
    return Outcome(plans, complaints, round_trips)


def run_async(database: str, *lists: Statements, prepare_threshold: int | None = 5) -> Outcome:
    """Do the same on an asynchronous connection."""

    async def work() -> Outcome:
        complaints: list[str] = []
        round_trips = 0
        async with await psycopg.AsyncConnection.connect(
            database, autocommit=True, prepare_threshold=prepare_threshold
        ) as connection:
            for statements in lists:
                with noting(complaints):
                    async with connection.transaction():
                        with listening_to(connection) as wire:
                            await BorrowedSession(connection).run_all(statements)
                            round_trips += wire.round_trips
            (plans,) = await (await connection.execute(PLANS)).fetchone() or (0,)
        return Outcome(plans, complaints, round_trips)

    return asyncio.run(work())


either = pytest.mark.parametrize("run", [run, run_async], ids=["sync", "async"])


@contextmanager
def noting(complaints: list[str]) -> Generator[None]:
    """Note that a queue is missing, and go on."""
    try:
        yield
    except QueueNotFoundError as error:
        complaints.append(str(error))


def sends(queues: Sequence[QueueTable] = QUEUES) -> list[Statement[object]]:
    return [queue.send(MESSAGE, notify=True) for queue in queues]


@pytest.fixture(autouse=True)
def _queues(session: Session) -> None:
    for queue in QUEUES:
        session.run_all(queue.create())


def waiting(session: Session) -> list[int]:
    return [len(bodies(session, queue)) for queue in QUEUES]


@either
def test_they_take_one_round_trip(run: Run, database: str, session: Session) -> None:
    assert run(database, sends()).round_trips == 1
    assert waiting(session) == [1, 1, 1]


@either
def test_the_driver_keeps_their_plans_unless_its_user_has_none(run: Run, database: str) -> None:
    assert run(database, sends(), sends()).plans == len(QUEUES)
    assert run(database, sends(), sends(), prepare_threshold=None).plans == 0


@either
@pytest.mark.parametrize("position", [0, 1, 3])
def test_what_fails_is_named_undone_and_forgotten(
    run: Run, position: int, database: str, session: Session
) -> None:
    failing = sends()
    failing[position:position] = sends([QueueTable(QueueAddress("public", "Missing"))])

    complaints = run(database, failing, failing, sends()).complaints

    assert ['"Missing"' in complaint for complaint in complaints] == [True, True]
    assert waiting(session) == [1, 1, 1]
