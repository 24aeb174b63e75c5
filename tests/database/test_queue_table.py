"""The queue's statements against real servers: its shape, sending, receiving, counting, and the plans they run by."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.database.statements import Statement
from rowbus.errors import QueueNotFoundError
from rowbus.model.address import QueueAddress
from rowbus.model.headers import decode_headers
from rowbus.model.lower_bound import FROM_THE_START
from rowbus.model.message import OutgoingMessage
from rowbus.tables.queue import QueueTable, copy_rows
from tests.database.conftest import bodies, message, put, take, take_and_put_back

Heard = Callable[[], int]
"""Tells how many notifications have come to the queue's channel since it was last asked."""

PAST = "update {} set expires = now() at time zone 'UTC' - interval '1 second'"


def answers(session: Session, query: str) -> list[tuple[Any, ...]]:
    return list(session.connection.execute(query).fetchall())


def run(session: Session, query: str) -> None:
    session.connection.execute(query)


# --------------------------------------------------------------------------------------------------------------- shape


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

    session.run(queue.create())

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


@pytest.mark.parametrize("name", NAMES)
def test_a_queue_of_any_name_keeps_it_and_works(session: Session, name: str) -> None:
    queue = QueueTable(QueueAddress("public", name))
    queue.address.validate()
    session.run(queue.create())

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

    session.run(queue.create())
    for statement in (*queue.create_body_string(), *queue.create_notify_trigger()):
        session.run(statement)
    put(session, queue)

    assert session.run(queue.exists())
    assert bodies(session, queue) == [b"1"]


def test_names_that_differ_only_in_case_are_two_queues(session: Session, queue: QueueTable) -> None:
    small = QueueTable(QueueAddress("public", "sales"))
    session.run(small.create())

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


# --------------------------------------------------------------------------------------------------------- body string


def add_body_string(session: Session, queue: QueueTable) -> None:
    with session.transaction():
        for statement in queue.create_body_string():
            session.run(statement)


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
    session.copy(queue.copy, copy_rows([("{}", b"by copy")], None))

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


# ------------------------------------------------------------------------------------------------------- notifications


@pytest.fixture
def heard(other: Session, queue: QueueTable) -> Iterator[Heard]:
    """Give a function that tells how many notifications have come to the queue's channel."""
    other.run(queue.listen())

    def count() -> int:
        other.connection.execute("select 1")
        return len(list(other.connection.notifies(timeout=0)))

    yield count
    other.run(queue.unlisten())


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
    session.run(queue.notify())
    assert heard() == 1

    other.run(queue.unlisten())
    session.run(queue.notify())

    assert heard() == 0


def test_queues_have_channels_of_their_own(session: Session, queue: QueueTable, heard: Heard) -> None:
    billing = QueueTable(QueueAddress("public", "Billing"))
    session.run(billing.create())

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


# ------------------------------------------------------------------------------------------------------------- sending


def test_what_was_sent_is_received_as_it_was(session: Session, queue: QueueTable) -> None:
    headers = {"a": 'quote " and \\ and ż and \U0001f680', "NServiceBus.MessageId": "m"}
    body = bytes(range(256))
    session.run(queue.send(OutgoingMessage(headers, body), notify=False))

    (row,) = take(session, queue)

    assert decode_headers(row.headers) == headers
    assert row.body == body
    assert row.expired is False
    assert row.seq == 1


def test_the_rows_id_is_a_random_uuid_and_never_the_messages(session: Session, queue: QueueTable) -> None:
    own = str(uuid.uuid4())
    for _ in range(2):
        session.run(queue.send(OutgoingMessage({"NServiceBus.MessageId": own}), notify=False))

    first, second = take(session, queue, 2)

    assert len({first.id, second.id, own}) == 3
    assert uuid.UUID(first.id).version == 4
    assert first.id == str(uuid.UUID(first.id))


def test_an_empty_body_is_written_as_an_empty_value_never_as_null(
    session: Session, queue: QueueTable
) -> None:
    empty = message(body=b"")
    session.run(queue.send(empty, notify=False))
    session.run(queue.send_batch([empty, empty], notify=False))
    session.copy(queue.copy, copy_rows([("{}", b"")], None))

    assert answers(session, 'select body is null, octet_length(body) from "Sales"') == [(False, 0)] * 4


def test_a_batch_keeps_its_order(session: Session, queue: QueueTable) -> None:
    put(session, queue, 500)

    assert bodies(session, queue) == [b"%d" % number for number in range(1, 501)]


def test_each_message_of_a_batch_has_its_own_time_to_be_received(session: Session, queue: QueueTable) -> None:
    spans = [None, timedelta(minutes=1), timedelta(hours=1)]
    session.run(queue.send_batch([message(ttbr=span) for span in spans], notify=False))

    left = answers(session, """select expires - now() at time zone 'UTC' from "Sales" order by seq""")

    assert left[0] == (None,)
    assert timedelta(seconds=50) < left[1][0] <= timedelta(minutes=1)
    assert timedelta(minutes=59) < left[2][0] <= timedelta(hours=1)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_a_message_expires_in_utc_wall_time_whatever_the_senders_time_zone(
    session: Session, other: Session, queue: QueueTable, zone: str
) -> None:
    other.connection.execute("select set_config('timezone', %s, false)", [zone])
    other.run(queue.send(message(ttbr=timedelta(minutes=5)), notify=False))
    expires = other.run(queue.expiry(timedelta(minutes=5)))
    other.copy(queue.copy, copy_rows([("{}", b"")], expires))

    for (moment,) in answers(session, 'select expires from "Sales"'):
        left = moment.replace(tzinfo=UTC) - datetime.now(UTC)
        assert timedelta(minutes=4) < left <= timedelta(minutes=5)
    assert [row.expired for row in take(other, queue, 2)] == [False, False]


def test_a_time_to_be_received_may_be_longer_than_nservicebus_can_write(
    session: Session, queue: QueueTable
) -> None:
    session.run(queue.send(message(ttbr=timedelta(days=3650)), notify=False))

    assert answers(session, "select expires > now() + interval '9 years' from \"Sales\"") == [(True,)]


# ------------------------------------------------------------------------------------------------------------ receiving


def test_the_oldest_message_is_received_first(session: Session, queue: QueueTable) -> None:
    put(session, queue, 3)

    assert [take(session, queue)[0].body for _ in range(3)] == [b"1", b"2", b"3"]
    assert take(session, queue) == []


@pytest.mark.parametrize("most", [1, 10])
def test_an_empty_queue_gives_nothing(session: Session, queue: QueueTable, most: int) -> None:
    assert take(session, queue, most) == []


def test_a_batch_is_the_oldest_messages_in_their_order(session: Session, queue: QueueTable) -> None:
    put(session, queue, 60)

    rows = take(session, queue, 50)

    assert [row.body for row in rows] == [b"%d" % number for number in range(1, 51)]
    assert [row.seq for row in rows] == sorted(row.seq for row in rows)
    assert len(take(session, queue, 50)) == 10


def test_what_somebody_has_in_hand_is_passed_over_without_waiting(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 5)
    other.connection.execute("set lock_timeout to '20ms'")
    with session.transaction():
        mine = take(session, queue, 2)
        theirs = [*take(other, queue), *take(other, queue, 10)]

    assert [row.body for row in mine] == [b"1", b"2"]
    assert [row.body for row in theirs] == [b"3", b"4", b"5"]
    assert bodies(session, queue) == []


def test_a_message_rolled_back_is_back_in_its_old_place(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 2)
    (first,) = take_and_put_back(session, queue)

    assert take(other, queue) == [first]


def test_a_later_message_that_commits_first_is_received_first_and_the_earlier_one_is_not_lost(
    session: Session, other: Session, queue: QueueTable
) -> None:
    with session.transaction():
        session.run(queue.send(message(1), notify=False))
        other.run(queue.send(message(2), notify=False))
        assert [row.body for row in take(other, queue, 10)] == [b"2"]

    assert [row.body for row in take(other, queue, 10)] == [b"1"]


@pytest.mark.parametrize("most", [1, 10])
def test_messages_below_the_lower_bound_are_not_looked_at(
    session: Session, queue: QueueTable, most: int
) -> None:
    put(session, queue, 3)

    assert [row.body for row in take(session, queue, most, lower_bound=3)] == [b"3"]
    assert take(session, queue, most, lower_bound=3) == []
    assert len(take(session, queue, 10)) == 2


def test_messages_with_negative_positions_are_received(session: Session, queue: QueueTable) -> None:
    session.connection.execute('alter sequence "Sales_seq_seq" minvalue -2147483648 restart with -2147483648')
    put(session, queue, 2)

    assert [row.seq for row in take(session, queue, 2)] == [-(2**31), -(2**31) + 1]


@pytest.mark.parametrize("most", [1, 10])
def test_an_expired_message_says_so(session: Session, queue: QueueTable, most: int) -> None:
    put(session, queue)
    run(session, PAST.format('"Sales"'))

    assert [row.expired for row in take(session, queue, most)] == [True]


@pytest.mark.parametrize("most", [1, 10])
def test_a_null_body_of_other_software_is_received_as_none(
    session: Session, queue: QueueTable, most: int
) -> None:
    session.connection.execute("""insert into "Sales" (id, headers) values (gen_random_uuid(), '{}')""")

    assert [row.body for row in take(session, queue, most)] == [None]


# ------------------------------------------------------------------------------------------- counting, peeking, purging


def available(session: Session, queue: QueueTable, most: int = 100, lower_bound: int = FROM_THE_START) -> int:
    return session.run(queue.count_available(most, lower_bound))


def test_waiting_messages_are_counted_up_to_the_limit(session: Session, queue: QueueTable) -> None:
    assert available(session, queue) == 0
    put(session, queue, 7)

    assert available(session, queue) == 7
    assert available(session, queue, most=3) == 3
    assert available(session, queue, lower_bound=6) == 2


@pytest.mark.parametrize("most", [1, 2])
def test_messages_in_hand_are_not_available(
    session: Session, other: Session, queue: QueueTable, most: int
) -> None:
    put(session, queue, 3)

    with session.transaction():
        take(session, queue, most)
        assert available(other, queue) == 3 - most

    assert available(other, queue) == 3 - most


def test_messages_in_the_hands_of_a_transaction_that_began_after_another_are_not_available(
    session: Session, other: Session, queue: QueueTable, database: str
) -> None:
    """Whether the taker is listed as running or lies beyond the snapshot, it has the message in hand."""
    put(session, queue, 2)
    with psycopg.connect(database) as bystander:
        bystander.execute("select pg_current_xact_id()")  # an older transaction that stays open
        with session.transaction():
            take(session, queue)
            assert available(other, queue) == 1
        bystander.execute("select 1")
        assert available(other, queue) == 1


def test_a_counters_old_snapshot_sees_what_was_taken_since_as_in_hand(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 2)
    with psycopg.connect(other.connection.info.dsn, autocommit=True) as old:
        old.execute("begin transaction isolation level repeatable read")
        old.execute("select 1")
        with session.transaction():
            take(session, queue)
            assert available(Session(old), queue) == 1


def test_messages_put_back_are_available_again(session: Session, other: Session, queue: QueueTable) -> None:
    put(session, queue, 3)
    take_and_put_back(session, queue, 2)

    assert available(other, queue) == 3


def test_messages_somebody_locked_and_let_go_are_available(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 3)
    with session.transaction():
        session.connection.execute('select from "Sales" for update')
        assert available(other, queue) == 0

    assert available(other, queue) == 3


def test_counting_keeps_no_receiver_from_any_message(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 2)
    with session.transaction():
        assert available(session, queue) == 2
        session.run(queue.peek(10))
        assert len(take(other, queue, 10)) == 2


def test_peeking_shows_the_oldest_first_without_taking_them(
    session: Session, other: Session, queue: QueueTable
) -> None:
    session.run(queue.send(message(1, ttbr=timedelta(hours=1)), notify=False))
    session.run(queue.send(message(2), notify=False))
    with session.transaction():
        take(session, queue)
        first, second = other.run(queue.peek(10))

    assert (first.body, second.body) == (b"1", b"2")
    assert isinstance(first.expires, datetime)
    assert first.expires.utcoffset() == timedelta(0)
    assert timedelta(minutes=59) < first.expires - datetime.now(UTC) <= timedelta(hours=1)
    assert second.expires is None
    assert decode_headers(first.headers) == {"NServiceBus.MessageId": "m-1"}
    assert str(uuid.UUID(first.id)) == first.id
    assert (first.seq, second.seq) == (1, 2)


def test_peeking_is_bounded(session: Session, queue: QueueTable) -> None:
    put(session, queue, 5)

    assert [peeked.body for peeked in session.run(queue.peek(2))] == [b"1", b"2"]


def test_purging_deletes_everything_and_says_how_much(session: Session, queue: QueueTable) -> None:
    put(session, queue, 5)

    assert session.run(queue.purge()) == 5
    assert session.run(queue.purge()) == 0
    assert bodies(session, queue) == []


def test_purging_expired_messages_leaves_the_others(session: Session, queue: QueueTable) -> None:
    put(session, queue, 4)
    run(session, (PAST + " where seq in (1, 3, 4)").format('"Sales"'))
    session.run(queue.send(message(5, ttbr=timedelta(hours=1)), notify=False))

    assert session.run(queue.purge_expired(2)) == 2
    assert session.run(queue.purge_expired(2)) == 1
    assert session.run(queue.purge_expired(2)) == 0
    assert bodies(session, queue) == [b"2", b"5"]


def test_purging_expired_messages_passes_over_those_in_hand(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 2)
    run(session, PAST.format('"Sales"'))
    other.connection.execute("set lock_timeout to '20ms'")

    with session.transaction():
        take(session, queue)
        assert other.run(queue.purge_expired(10)) == 1


# --------------------------------------------------------------------------------------------------------------- plans

DEEP = 100_000
HISTORIES = {
    "never analysed": (),
    "analysed when empty": ("analyze",),
    "vacuumed when empty": ("vacuum analyze",),
}
FILL = """
insert into {} (id, headers, body) select gen_random_uuid(), repeat('h', 200), '' from generate_series(1, {})
"""


NOT_OF_TABLES = {"CTE Scan", "Function Scan", "Subquery Scan"}


def scans(plan: dict[str, Any]) -> set[tuple[str, str]]:
    """Give how each table is read, as (node, index), and every sort."""
    node = plan["Node Type"]
    here = {(node, plan.get("Index Name", ""))} if "Scan" in node or node == "Sort" else set()
    return here.union(*(scans(child) for child in plan.get("Plans", ()))) - {
        (skip, "") for skip in NOT_OF_TABLES
    }


def explained(
    session: Session, statement: str, parameters: Mapping[str, object] | None = None
) -> set[tuple[str, str]]:
    query = f"explain (format json) {statement}"
    ((plan,),) = session.connection.execute(query, parameters).fetchall()
    return scans(plan[0]["Plan"])


def statements_that_look_from_the_head(queue: QueueTable, lower_bound: int) -> list[Statement[Any]]:
    return [
        queue.receive(1, lower_bound),
        queue.receive(100, lower_bound),
        queue.count_available(1, lower_bound),
        queue.count_available(100, lower_bound),
        queue.peek(100),
    ]


def prepare_while_empty(session: Session, queue: QueueTable) -> list[str]:
    """Have the server settle on plans while there is nothing in the queue, as for an endpoint that starts idle."""
    executions: list[str] = []
    for number, statement in enumerate(statements_that_look_from_the_head(queue, FROM_THE_START)):
        values = ", ".join(str(statement.parameters[name]) for name in statement.query.names)
        run(session, f"prepare plan_{number} as {statement.query.native.decode()}")
        executions.append(f"execute plan_{number} ({values})")
        for _ in range(10):
            run(session, executions[-1])
    return executions


def deep_queue(session: Session, history: str) -> QueueTable:
    queue = QueueTable(QueueAddress("public", "Deep"))
    session.run(queue.create())
    run(session, 'alter table "Deep" set (autovacuum_enabled = false)')
    for command in HISTORIES[history]:
        run(session, f'{command} "Deep"')
    return queue


def is_read_by_its_indexes(plan: set[tuple[str, str]]) -> bool:
    by_position = ("Index Scan", "Deep_seq_key")
    by_id = {("Index Scan", "Deep_pkey"), ("Bitmap Heap Scan", ""), ("Bitmap Index Scan", "Deep_pkey")}
    return by_position in plan and plan <= {by_position} | by_id


@pytest.mark.parametrize("history", HISTORIES)
def test_a_deep_queue_is_read_by_its_indexes_alone_whatever_the_planner_knows_of_it(
    session: Session, history: str
) -> None:
    queue = deep_queue(session, history)
    run(session, FILL.format('"Deep"', DEEP))

    for lower_bound in (FROM_THE_START, 0, DEEP - 1000):
        for statement in statements_that_look_from_the_head(queue, lower_bound):
            plan = explained(session, statement.query.text.decode(), statement.parameters)
            assert is_read_by_its_indexes(plan), (statement.query.text, plan)


def test_plans_kept_since_a_new_queue_was_empty_do_when_it_is_deep(session: Session) -> None:
    queue = deep_queue(session, "never analysed")
    prepared = prepare_while_empty(session, queue)
    run(session, FILL.format('"Deep"', DEEP))

    for execution in prepared:
        assert is_read_by_its_indexes(explained(session, execution)), execution
