"""One look into many tables answers as a look into each of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.errors import StorageError
from rowbus.messages.address import QueueAddress
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.delayed.postgresql import DelayedTable
from rowbus.transport.queues.common_look import look_into
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions.lower_bound import FROM_THE_START

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ["Sales", "Bil'ling", 'Ship"ping %s %% %I', "Krak\\ów"]
MESSAGE = OutgoingMessage({})


@pytest.fixture
def queues(session: Session) -> list[QueueTable]:
    session.connection.execute('create schema "Shop\'s ""own"""')
    schemas = ["public", "public", 'Shop\'s "own"', "public"]
    made = [QueueTable(QueueAddress(*names)) for names in zip(schemas, NAMES, strict=True)]
    for statement in [statement for queue in made for statement in queue.create()]:
        session.run(statement)
    return made


def look(
    session: Session, queues: Sequence[QueueTable | DelayedTable], *bounds: int | None
) -> frozenset[int]:
    return session.run(look_into([queue.address for queue in queues], bounds))


def test_it_says_which_queues_have_messages(session: Session, queues: list[QueueTable]) -> None:
    bounds = [FROM_THE_START] * len(queues)
    assert look(session, queues, *bounds) == frozenset()

    for place in (1, 2):
        session.run(queues[place].send(MESSAGE, notify=False))

    assert look(session, queues, *bounds) == {1, 2}
    assert [session.run(queue.count_available(1, FROM_THE_START)) for queue in queues] == [0, 1, 1, 0]


def test_it_finds_no_message_below_the_lower_bound(session: Session, queues: list[QueueTable]) -> None:
    for queue in queues[:3]:
        session.run(queue.send_batch([MESSAGE] * 2, notify=False))

    assert look(session, queues, 1, 2, 3, 1) == {0, 1}


def test_it_finds_no_message_in_flight(session: Session, queues: list[QueueTable], database: str) -> None:
    for queue, count in zip(queues, (1, 2, 0, 1), strict=True):
        for _ in range(count):
            session.run(queue.send(MESSAGE, notify=False))
    with psycopg.connect(database) as connection:
        for queue in queues[:2]:
            assert len(Session(connection).run(queue.receive(1, FROM_THE_START))) == 1

        assert look(session, queues, *[FROM_THE_START] * 4) == {1, 3}

        connection.rollback()
    assert look(session, queues, *[FROM_THE_START] * 4) == {0, 1, 3}


def test_it_says_which_tables_of_delayed_messages_have_any(
    session: Session, queues: list[QueueTable]
) -> None:
    delayed = [DelayedTable(QueueAddress("public", f"{name}.Delayed")) for name in NAMES[:2]]
    for statement in [statement for table in delayed for statement in table.create()]:
        session.run(statement)
    session.run(delayed[1].store(MESSAGE, timedelta(days=1), notify=False))

    assert look(session, [queues[0], *delayed], FROM_THE_START, None, None) == {2}
    assert [session.run(table.has_any()) for table in delayed] == [0, 1]


def test_it_fails_where_a_table_is_missing(session: Session, queues: list[QueueTable]) -> None:
    missing = QueueTable(QueueAddress("public", "Nowhere"))

    with pytest.raises(StorageError, match="Nowhere"):
        look(session, [*queues, missing], *[FROM_THE_START] * 5)
