"""A client's event to many subscribers: few statements, which fail as those of single queues would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, LiteralString, NamedTuple

import psycopg
import pytest
from psycopg import sql

import rowbus
from rowbus.database.postgresql.connection import Session
from rowbus.errors import DestinationRefusedError, PermissionDeniedError
from rowbus.messages.headers import Header, decode_headers
from rowbus.transport.pubsub.postgresql import SubscriptionRouting
from rowbus.transport.queues.postgresql import COPIES_AT_ONCE, QueueTable
from tests.conformance.on_postgresql import queue
from tests.fixtures.every import every
from tests.fixtures.sessions import listening_to
from tests.transport.pubsub.shop import ORDER_PLACED, OrderPlaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.endpoints import Endpoints

pytestmark = pytest.mark.one_version

EVENT = OrderPlaced("42")
MANY = 2 * COPIES_AT_ONCE + 1
PLANS: LiteralString = "select count(*) from pg_prepared_statements where statement like 'with part0%'"


class Outcome(NamedTuple):
    """The error of a publish in a transaction, and how many pipelines and single statements it was."""

    error: rowbus.RowbusError | None
    round_trips: int


Publish = Callable[..., Outcome]


def publish(database: str, *, autocommit: bool) -> Outcome:
    """Publish between two statements of a transaction, which is committed."""
    error = None
    with (
        psycopg.connect(database, autocommit=autocommit) as connection,
        connection.transaction() if autocommit else nullcontext(),
    ):
        connection.execute("insert into business values ('before')")
        with suppress(rowbus.RowbusError), connection.transaction(force_rollback=True):
            rowbus.Client(connection).publish(EVENT)  # looks at the queues
        with listening_to(connection) as wire:
            try:
                rowbus.Client(connection).publish(EVENT)
            except rowbus.RowbusError as failed:
                error = failed
            round_trips = wire.round_trips
        connection.execute("insert into business values ('after')")
    return Outcome(error, round_trips)


def publish_async(database: str, *, autocommit: bool) -> Outcome:
    """Do the same on an asynchronous connection."""

    async def work() -> Outcome:
        error = None
        async with (
            await psycopg.AsyncConnection.connect(database, autocommit=autocommit) as connection,
            connection.transaction() if autocommit else nullcontext(),
        ):
            await connection.execute("insert into business values ('before')")
            with suppress(rowbus.RowbusError):
                async with connection.transaction(force_rollback=True):
                    await rowbus.AsyncClient(connection).publish(EVENT)  # looks at the queues
            with listening_to(connection) as wire:
                try:
                    await rowbus.AsyncClient(connection).publish(EVENT)
                except rowbus.RowbusError as failed:
                    error = failed
                round_trips = wire.round_trips
            await connection.execute("insert into business values ('after')")
        return Outcome(error, round_trips)

    return asyncio.run(work())


either = pytest.mark.parametrize("publishing", [publish, publish_async], ids=["sync", "async"])
in_each_mode = pytest.mark.parametrize("autocommit", [True, False], ids=["autocommit", "no autocommit"])


@pytest.fixture
def own(database: str) -> Iterator[psycopg.Connection]:
    """Give a connection in autocommit mode, on which two queues subscribe, and a table of business data."""
    with psycopg.connect(database, autocommit=True) as connection:
        Session(connection).run_all(SubscriptionRouting(queue("SubscriptionRouting")).create())
        connection.execute("create table business (done text)")
        subscribe(connection, "Billing", "Shipping")
        yield connection


def subscribe(connection: psycopg.Connection, *names: str, create: bool = True) -> None:
    """Have queues subscribe to the event, and make them."""
    session, routing = Session(connection), SubscriptionRouting(queue("SubscriptionRouting"))
    for name in names:
        session.run(routing.subscribe(name, [ORDER_PLACED], queue(name)))
        if create:
            session.run_all(QueueTable(queue(name)).create())


def run(connection: psycopg.Connection, command: LiteralString) -> None:
    connection.execute(command)


def count(connection: psycopg.Connection, table: str) -> int:
    query = sql.SQL("select count(*) from {}").format(sql.Identifier(table))
    return int((connection.execute(query).fetchone() or (0,))[0])


# --- what is sent


async def test_tasks_that_share_a_connection_take_turns(database: str, own: psycopg.Connection) -> None:
    """Verbs of several statements wait for their like, of another client too; the driver mixes them."""
    async with await psycopg.AsyncConnection.connect(database) as shared:
        await asyncio.gather(
            *(rowbus.AsyncClient(shared).publish(EVENT) for _ in range(3)),
            *(rowbus.AsyncClient(shared).send_many("Billing", [{}], type="Shop.Bill") for _ in range(3)),
            shared.execute("select 1"),
        )

    assert (count(own, "Billing"), count(own, "Shipping")) == (6, 3)


def test_each_of_many_subscribers_gets_one_copy_and_is_woken(database: str, own: psycopg.Connection) -> None:
    names = [f"Subscriber{number}" for number in range(MANY)]
    subscribe(own, *names)
    with psycopg.connect(database, autocommit=True) as listening:
        for name in names:
            listening.execute(sql.SQL("listen {}").format(sql.Identifier(queue(name).channel)))
        message_id = rowbus.Client(own).publish(
            EVENT, headers={"Tenant": "ü"}, time_to_be_received=timedelta(minutes=1)
        )
        listening.execute("select 1")
        woken = {heard.channel for heard in listening.notifies(timeout=0)}

    assert woken == {queue(name).channel for name in names}
    each: LiteralString = "select id, headers, body, expires - now() at time zone 'UTC' from {}"
    union = sql.SQL(" union all ").join(sql.SQL(each).format(sql.Identifier(name)) for name in names)
    rows = own.execute(union).fetchall()
    assert len({row_id for row_id, *_ in rows}) == len(rows) == MANY
    ((headers, body),) = {(headers, body) for _, headers, body, _ in rows}
    assert (
        decode_headers(headers)[Header.MESSAGE_ID] == message_id not in {str(row_id) for row_id, *_ in rows}
    )
    assert decode_headers(headers)["Tenant"] == "ü"
    assert body == b'{"order_id":"42"}'
    assert all(timedelta(0) < left <= timedelta(minutes=1) for *_, left in rows)


def test_a_copy_without_a_time_to_be_received_never_expires(own: psycopg.Connection) -> None:
    rowbus.Client(own).publish(EVENT)

    assert own.execute('select expires from "Billing"').fetchall() == [(None,)]


@either
@in_each_mode
def test_a_publish_in_the_callers_transaction_is_one_pipeline(
    publishing: Publish, database: str, own: psycopg.Connection, *, autocommit: bool
) -> None:
    assert publishing(database, autocommit=autocommit) == (None, 1)
    assert [count(own, name) for name in ("Billing", "Shipping", "business")] == [1, 1, 2]


def test_the_driver_keeps_one_plan_for_all_copies_unless_its_user_has_none(own: psycopg.Connection) -> None:
    for _ in range(3):
        rowbus.Client(own).publish(EVENT)
    assert own.execute(PLANS).fetchone() == (1,)

    own.execute("discard all")
    own.prepare_threshold = None
    for _ in range(3):
        rowbus.Client(own).publish(EVENT)
    assert own.execute(PLANS).fetchone() == (0,)


@pytest.mark.parametrize("statement", ["discard all", "do $$ begin execute 'deallocate all'; end $$"])
def test_plans_that_the_user_discards_are_made_anew(
    own: psycopg.Connection, statement: LiteralString
) -> None:
    for _ in range(2):
        with own.transaction():
            rowbus.Client(own).publish(EVENT)
        run(own, statement)
    with own.transaction():
        rowbus.Client(own).publish(EVENT)

    assert count(own, "Billing") == 3


def test_a_publish_may_be_in_a_pipeline_of_the_users(own: psycopg.Connection) -> None:
    own.autocommit = False
    with own.pipeline():
        own.execute("insert into business values ('before')")
        rowbus.Client(own).publish(EVENT)
    subscribe(own, "Gone", create=False)
    with own.pipeline():
        with pytest.raises(rowbus.QueueNotFoundError, match="Gone"):
            rowbus.Client(own).publish(EVENT)
        own.execute("insert into business values ('after')")
    own.commit()

    assert [count(own, name) for name in ("Billing", "business")] == [1, 2]


# --- what fails


@either
@in_each_mode
def test_a_missing_queue_is_named_and_the_callers_transaction_goes_on(
    publishing: Publish, database: str, own: psycopg.Connection, *, autocommit: bool
) -> None:
    subscribe(own, "Gone", create=False)

    error = publishing(database, autocommit=autocommit).error

    assert isinstance(error, rowbus.QueueNotFoundError)
    assert error.queue == '"public"."Gone"'
    assert [count(own, name) for name in ("Billing", "Shipping", "business")] == [0, 0, 2]


def test_a_transaction_that_a_failed_publish_began_goes_on(database: str, own: psycopg.Connection) -> None:
    subscribe(own, "Gone", create=False)

    with psycopg.connect(database) as connection:
        with pytest.raises(rowbus.QueueNotFoundError, match="Gone"):
            rowbus.Client(connection).publish(EVENT)
        connection.execute("insert into business values ('after')")

    assert [count(own, name) for name in ("Billing", "business")] == [0, 1]


AS_ANOTHER_ROLE: list[LiteralString] = [
    "create role publisher",
    "grant select, insert on all tables in schema public to publisher",
    "grant usage on all sequences in schema public to publisher",
]
REFUSALS: dict[str, tuple[str, list[LiteralString]]] = {
    "a constraint": ("23514", ['alter table "Shipping" add check (expires is not null)']),
    "a right": ("42501", [*AS_ANOTHER_ROLE, 'revoke insert on "Shipping" from publisher']),
}


@pytest.mark.parametrize("sqlstate, commands", REFUSALS.values(), ids=list(REFUSALS))
def test_a_queue_that_refuses_its_copy_is_named(
    own: psycopg.Connection, sqlstate: str, commands: Sequence[LiteralString]
) -> None:
    with own.transaction(force_rollback=True):
        for command in commands:
            run(own, command)
        if AS_ANOTHER_ROLE[0] in commands:
            run(own, "set local role publisher")
        with pytest.raises(
            rowbus.StorageError, match=r'Failed to send message to "public"\."Shipping": '
        ) as raised:
            rowbus.Client(own).publish(EVENT)

        assert raised.value.sqlstate == sqlstate
        assert isinstance(raised.value, PermissionDeniedError) == (sqlstate == "42501")
        assert count(own, "Billing") == 0
        run(own, "reset role")


TRAP: LiteralString = """
    create role rowbus_test_mallory; create sequence caught;
    create function trap() returns trigger language plpgsql as 'begin perform nextval($$caught$$); return new; end';
    alter function trap() owner to rowbus_test_mallory
"""
NOT_SENT_TO: list[tuple[LiteralString, str]] = [
    ('alter table "Shipping" owner to rowbus_test_mallory', "belongs to rowbus_test_mallory"),
    (
        'create trigger evil before insert on "Shipping" for each row execute function trap()',
        "it runs function",
    ),
    ('alter table "Shipping" drop column body', "no queue"),
    ('drop table "Shipping"; create view "Shipping" as select * from "Billing"', "no queue"),
]


@every("change, reason", NOT_SENT_TO)
def test_a_client_sends_no_copy_to_a_queue_that_runs_a_strangers_code(
    change: LiteralString, reason: str, own: psycopg.Connection
) -> None:
    """Before, the stranger's trigger ran with the rights of whoever published."""
    with own.transaction(force_rollback=True):
        run(own, TRAP)
        run(own, change)
        with pytest.raises(DestinationRefusedError, match=reason):
            rowbus.Client(own).publish(EVENT)
        run(own, "reset role")
        assert own.execute("select is_called from caught").fetchone() == (False,)
        assert count(own, "Billing") == 0


def test_a_queue_that_strangers_could_change_is_locked_before_its_copy_is_sent(
    database: str, own: psycopg.Connection
) -> None:
    """A trigger that comes between the look and the send waits for the end of the transaction, or is seen."""
    run(own, "grant create on schema public to public")
    with psycopg.connect(database) as stranger, own.transaction():
        rowbus.Client(own).publish(EVENT)
        run(stranger, "set lock_timeout = 1")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            run(stranger, 'alter table "Shipping" rename to hidden')
    with psycopg.connect(database) as stranger:
        run(
            stranger,
            'alter table "Shipping" rename to hidden; create view "Shipping" as select * from hidden',
        )
        with ThreadPoolExecutor() as beside:
            published = beside.submit(rowbus.Client(own).publish, EVENT)
            await_lock(database, published)
            stranger.commit()
    with pytest.raises(DestinationRefusedError, match="no queue"):
        published.result()


def await_lock(database: str, published: Future[str]) -> None:
    """Wait until the publisher waits for a table's lock, or has ended."""
    with psycopg.connect(database, autocommit=True) as looking:
        while not published.done() and not looking.execute("select from pg_locks where not granted").rowcount:
            looking.execute("select pg_sleep(0.01)")


def test_copies_that_were_cancelled_are_not_tried_again(own: psycopg.Connection) -> None:
    run(
        own,
        """create sequence tries;
        create function cancel() returns trigger language plpgsql as $$
        begin perform nextval('tries'); raise 'too late' using errcode = '57014'; end $$;
        create trigger cancelling before insert on "Shipping" for each row execute function cancel()""",
    )

    with pytest.raises(
        rowbus.StorageError, match=r"Failed to send message to .* and 1 other queues: too late"
    ):
        rowbus.Client(own).publish(EVENT)

    assert own.execute("select last_value from tries").fetchone() == (1,)


def test_a_missing_table_of_subscriptions_leaves_the_callers_transaction_usable(
    own: psycopg.Connection,
) -> None:
    with own.transaction():
        with pytest.raises(rowbus.StorageError, match="rowbus subscriptions create"):
            rowbus.Client(own, subscription_table="Elsewhere").publish(EVENT)
        own.execute("insert into business values ('after')")

    assert count(own, "business") == 1


def test_in_a_spoilt_transaction_the_first_error_stays(own: psycopg.Connection) -> None:
    with own.transaction(force_rollback=True):
        with pytest.raises(psycopg.errors.DivisionByZero):
            own.execute("select 1 / 0")
        with pytest.raises(rowbus.StorageError) as raised:
            rowbus.Client(own).publish(EVENT)

    assert raised.value.sqlstate == "25P02"


# --- tables of other kinds


KINDS: dict[str, Sequence[LiteralString]] = {
    "a partitioned table": [
        'drop table "Shipping"',
        """create table "Shipping" (id uuid not null, expires timestamp, headers text not null, body bytea,
        seq serial not null) partition by range (seq)""",
        'create table part partition of "Shipping" default',
    ],
    "row security": [
        'alter table "Shipping" enable row level security',
        'alter table "Shipping" force row level security',
        'create policy everything on "Shipping" with check (true)',
    ],
}


@pytest.mark.parametrize("commands", KINDS.values(), ids=list(KINDS))
def test_a_queue_may_be_of_any_kind(own: psycopg.Connection, commands: Sequence[LiteralString]) -> None:
    for command in commands:
        run(own, command)

    with own.transaction():
        rowbus.Client(own).publish(EVENT)

    assert [count(own, name) for name in ("Billing", "Shipping")] == [1, 1]


def test_a_trigger_may_pass_over_a_copy(own: psycopg.Connection) -> None:
    run(
        own,
        """create function pass() returns trigger language plpgsql as $$ begin return null; end $$;
        create trigger passing before insert on "Shipping" for each row execute function pass()""",
    )

    rowbus.Client(own).publish(EVENT)

    assert [count(own, name) for name in ("Billing", "Shipping")] == [1, 0]


# --- a handler's connection


@pytest.mark.only("PostgreSQL", reason="the connection of a handler is psycopg's there")
async def test_a_client_on_a_handlers_connection_publishes_with_the_handler(endpoints: Endpoints) -> None:
    sales, billing = endpoints.make("Sales"), endpoints.make("Billing")
    got: asyncio.Queue[str] = asyncio.Queue()
    failures = iter([True, False])

    @sales.handler("Place")
    async def place(message: dict[str, str], context: rowbus.Context) -> None:
        await rowbus.AsyncClient(context.connection, schema=endpoints.queue("Sales").schema).publish(
            OrderPlaced(message["order"])
        )
        if next(failures):
            raise ValueError("once")

    @billing.handler
    async def note(event: OrderPlaced) -> None:
        got.put_nowait(event.order_id)

    async with billing, sales:
        await sales.send("Sales", {"order": "1"}, type="Place")
        async with asyncio.timeout(30):
            assert await got.get() == "1"

    assert got.empty(), "the failed attempt's copy is undone"
