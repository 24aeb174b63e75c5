"""The queue's table: its exact shape, under any name; the column BodyString; who is notified of what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.database.statements import Statement
from rowbus.errors import QueueNotFoundError
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.fixtures.every import every
from tests.fixtures.sessions import answers, bodies, message, put, take

Heard = Callable[[], int]
"""Tells how many notifications have come to the queue's channel since it was last asked."""


# ---------------------------------------------------------------------------------------------------------------- shape


def test_the_columns_are_exactly_those_that_nservicebus_and_servicecontrol_look_for(
    session: Session, queue: QueueTable
) -> None:
    columns = answers(
        session,
        """
        select column_name, data_type, is_nullable, column_default, is_identity, is_generated
        from information_schema.columns where table_name = 'Sales' order by ordinal_position
        """,
    )

    assert columns == [
        ("id", "uuid", "NO", None, "NO", "NEVER"),
        ("expires", "timestamp without time zone", "YES", None, "NO", "NEVER"),
        ("headers", "text", "NO", None, "NO", "NEVER"),
        ("body", "bytea", "YES", None, "NO", "NEVER"),
        ("seq", "integer", "NO", "nextval('\"Sales_seq_seq\"'::regclass)", "NO", "NEVER"),
    ]


def test_the_sequence_and_the_constraints_have_the_names_that_others_rely_on(
    session: Session, queue: QueueTable
) -> None:
    sequences = answers(session, "select sequencename::text, data_type::text from pg_sequences")
    constraints = answers(
        session,
        """
        select conname::text, contype::text, pg_get_constraintdef(oid) from pg_constraint
        where conrelid = '"Sales"'::regclass and contype in ('p', 'u') order by 1
        """,
    )
    indexes = answers(session, "select indexname::text from pg_indexes where tablename = 'Sales' order by 1")

    assert sequences == [("Sales_seq_seq", "integer")]
    assert constraints == [("Sales_pkey", "p", "PRIMARY KEY (id)"), ("Sales_seq_key", "u", "UNIQUE (seq)")]
    assert indexes == [("Sales_pkey",), ("Sales_seq_key",)]


def test_the_table_is_logged_and_has_no_trigger(session: Session, queue: QueueTable) -> None:
    assert answers(
        session, "select relpersistence::text, relhastriggers from pg_class where oid = '\"Sales\"'::regclass"
    ) == [("p", False)]


def test_creating_again_changes_nothing_and_loses_nothing(session: Session, queue: QueueTable) -> None:
    put(session, queue)

    session.run_all(queue.create())

    assert bodies(session, queue) == [b"1"]


NAMES = [
    "sales",
    "Sales",
    "Shop.Sales",
    'say "hi"',
    "100%",
    "%s %(a)s",
    "a b;c",
    "x" * 55,
    "ż" * 27,
    "select",
    "1",
]


@every("name", NAMES)
def test_a_queue_of_any_name_keeps_it_and_works(session: Session, name: str) -> None:
    queue = QueueTable(QueueAddress("public", name))
    queue.address.validate()
    session.run_all(queue.create())

    put(session, queue, 3)

    assert session.run(queue.exists())
    assert [row.body for row in take(session, queue, 2)] == [b"1", b"2"]
    assert session.run(queue.count_available(10, FROM_THE_START)) == 1
    assert answers(session, "select tablename::text from pg_tables where schemaname = 'public'") == [(name,)]
    assert answers(session, "select sequencename::text from pg_sequences") == [(queue.address.sequence,)]
    session.run(queue.drop())
    assert not session.run(queue.exists())


@pytest.mark.parametrize("schema", ["Shop", 'my "schema"', "a.b", "100%"])
def test_a_queue_lives_in_any_schema(session: Session, schema: str) -> None:
    session.connection.execute(psycopg.sql.SQL("create schema {}").format(psycopg.sql.Identifier(schema)))
    queue = QueueTable(QueueAddress(schema, "Sales"))

    session.run_all(queue.create())
    for statement in (*queue.create_body_string(), *queue.create_notify_trigger()):
        session.run(statement)
    put(session, queue)

    assert session.run(queue.exists())
    assert bodies(session, queue) == [b"1"]


def test_names_that_differ_only_in_case_are_two_queues(session: Session, queue: QueueTable) -> None:
    small = QueueTable(QueueAddress("public", "sales"))
    session.run_all(small.create())

    put(session, small)

    assert bodies(session, queue) == []


@pytest.mark.one_version
def test_a_queue_that_is_not_there_is_named_by_every_statement(session: Session) -> None:
    missing = QueueTable(QueueAddress("public", "Missing"))
    statements: list[Statement[Any]] = [
        missing.send(message(), notify=False),
        missing.send_batch([message()], notify=True),
        missing.receive(1, 0),
        missing.receive(10, 0),
        missing.count_available(1, 0),
        missing.peek(1),
        missing.purge(),
        missing.purge_expired(1),
    ]

    for statement in statements:
        with pytest.raises(
            QueueNotFoundError, match=r"^Failed to .* \"public\"\.\"Missing\": the queue does not exist"
        ) as caught:
            session.run(statement)
        assert caught.value.queue == '"public"."Missing"'
    assert not session.run(missing.exists())
    session.run(missing.drop())


# ---------------------------------------------------------------------------------------------------------- body string


def add_body_string(session: Session, queue: QueueTable) -> None:
    with session.transaction():
        for statement in queue.create_body_string():
            session.run(statement)


def test_a_queue_is_known_by_its_columns_also_where_all_names_are_quoted(
    session: Session, queue: QueueTable
) -> None:
    session.connection.execute("set quote_all_identifiers = on")

    (look,) = queue.are_queues([queue.address])

    assert session.run(look) == {queue.address: True}


def test_body_string_is_nservicebuss_generated_column(session: Session, queue: QueueTable) -> None:
    put(session, queue)
    add_body_string(session, queue)

    assert answers(
        session,
        """
        select column_name, data_type, is_generated, replace(generation_expression, '::text', '')
        from information_schema.columns where table_name = 'Sales' and ordinal_position = 6
        """,
    ) == [("bodystring", "text", "ALWAYS", "encode(body, 'escape')")]
    assert answers(session, 'select bodystring from "Sales"') == [("1",)]


def test_adding_body_string_twice_is_harmless_and_sends_go_on(session: Session, queue: QueueTable) -> None:
    add_body_string(session, queue)
    add_body_string(session, queue)

    put(session, queue, 2)
    session.copy(queue.copy, queue.copy_rows([("{}", b"by copy")], None))

    assert answers(session, 'select bodystring from "Sales" order by seq') == [("1",), ("2",), ("by copy",)]
    assert len(take(session, queue, 10)) == 3


def test_adding_body_string_waits_for_whoever_adds_it_already(
    session: Session, other: Session, queue: QueueTable
) -> None:
    lock, _ = queue.create_body_string()
    other.connection.execute("set statement_timeout to '50ms'")

    with session.transaction():
        session.run(lock)
        with pytest.raises(Exception, match="statement timeout"):
            add_body_string(other, queue)


# -------------------------------------------------------------------------------------------------------- notifications


@pytest.fixture
def heard(other: Session, queue: QueueTable) -> Iterator[Heard]:
    """Give a function that tells how many notifications have come to the queue's channel."""
    other.run_all(queue.listen())

    def count() -> int:
        other.connection.execute("select 1")
        return len(list(other.connection.notifies(timeout=0)))

    yield count
    other.run_all(queue.unlisten())


def test_a_send_wakes_receivers_when_it_commits(session: Session, queue: QueueTable, heard: Heard) -> None:
    with session.transaction():
        session.run(queue.send(message(), notify=True))
        assert heard() == 0

    assert heard() == 1


def test_a_batch_wakes_them_once(session: Session, queue: QueueTable, heard: Heard) -> None:
    session.run(queue.send_batch([message(number) for number in range(5)], notify=True))

    assert heard() == 1


def test_a_send_that_should_not_notify_does_not(session: Session, queue: QueueTable, heard: Heard) -> None:
    session.run(queue.send(message(), notify=False))
    put(session, queue, 3)

    assert heard() == 0


def test_a_send_that_is_rolled_back_wakes_nobody(session: Session, queue: QueueTable, heard: Heard) -> None:
    with psycopg.connect(session.connection.info.dsn) as own:
        Session(own).run(queue.send(message(), notify=True))
        own.rollback()

    assert heard() == 0


def test_notify_alone_wakes_and_unlistening_ends_it(
    session: Session, other: Session, queue: QueueTable, heard: Heard
) -> None:
    session.run_all(queue.notify())
    assert heard() == 1

    other.run_all(queue.unlisten())
    session.run_all(queue.notify())

    assert heard() == 0


def test_queues_have_channels_of_their_own(session: Session, queue: QueueTable, heard: Heard) -> None:
    billing = QueueTable(QueueAddress("public", "Billing"))
    session.run_all(billing.create())

    session.run(billing.send(message(), notify=True))

    assert heard() == 0


FOREIGN_INSERT = """insert into "Sales" (id, headers, body) values (gen_random_uuid(), '{}', '')"""


def test_with_the_trigger_inserts_by_other_software_wake_receivers_too(
    session: Session, queue: QueueTable, heard: Heard
) -> None:
    session.connection.execute(FOREIGN_INSERT)
    without = heard()
    for _ in range(2):  # installing twice is harmless
        for statement in queue.create_notify_trigger():
            session.run(statement)

    session.connection.execute(FOREIGN_INSERT)

    assert (without, heard()) == (0, 1)


def test_with_the_trigger_own_sends_notify_once(session: Session, queue: QueueTable, heard: Heard) -> None:
    for statement in queue.create_notify_trigger():
        session.run(statement)

    session.run(queue.send(message(), notify=True))

    assert heard() == 1
