"""Unique sends: of the messages of one value one exists, in the sender's transaction, whoever receives them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import rowbus
from rowbus.database.backends import scripts_of
from rowbus.errors import ConfigurationError, HandlerError, QueueNotFoundError
from rowbus.running.critical import Alarm
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.uniqueness.table import UniqueKeeper, unique_address, unique_table
from tests.conformance.transport import eventually
from tests.fixtures.every import every

if TYPE_CHECKING:
    from rowbus.database.statements import Statement
    from tests.conformance.endpoints import Endpoints

pytestmark = pytest.mark.only("PostgreSQL", reason="unique messages are on PostgreSQL")
HOUR = timedelta(hours=1)
"""Of delays: nothing that waits so long becomes due in a test."""


OF_EVERY_OUTCOME: list[dict[str, Any]] = [
    {},
    {},
    {"on_conflict": "replace", "delay": HOUR},
    {},
    {"on_conflict": "postpone", "delay": 2 * HOUR},
    {"on_conflict": "replace"},
]
"""Options of sends, one after the other, of one value."""


@rowbus.command("Unique.Remind")
@dataclass
class Remind:
    text: str


@rowbus.command("Unique.WithKey", key="text")
@dataclass
class MessageWithKey:
    text: str


@pytest.fixture
async def taker(endpoints: Endpoints) -> rowbus.Endpoint:
    """Install an endpoint that takes unique messages, and do not run it."""
    sales = endpoints.make("Sales", takes_unique=True)
    await sales.install()
    return sales


@contextmanager
def client(endpoints: Endpoints, *, autocommit: bool = False, **options: Any) -> Generator[rowbus.Client]:  # noqa: ANN401 - a client's
    """Give a client on a connection of its own, which commits at the end."""
    with psycopg.connect(endpoints.backend.dsn, autocommit=autocommit) as connection:
        yield rowbus.Client(connection, schema=endpoints.backend.schema, **options)


async def waiting(endpoints: Endpoints, table: str = "Sales") -> list[str]:
    """Return the texts of the messages in a table, in no order."""
    bodies = await endpoints.backend.values(
        f"select convert_from(body, 'UTF8')::json ->> 'text' from \"{table}\""
    )
    return sorted(bodies)


# ------------------------------------------------------------------------------------------------------ while it waits


@pytest.mark.parametrize("delay", [None, HOUR], ids=["at once", "delayed"])
@pytest.mark.parametrize("earlier", [None, HOUR], ids=["earlier at once", "earlier delayed"])
@pytest.mark.parametrize("autocommit", [False, True], ids=["transactions", "autocommit"])
async def test_while_a_message_waits_the_next_one_is_kept_away_or_replaces_it(
    endpoints: Endpoints,
    taker: rowbus.Endpoint,
    delay: timedelta | None,
    earlier: timedelta | None,
    *,
    autocommit: bool,
) -> None:
    with client(endpoints, autocommit=autocommit) as sender:
        first = sender.send("Sales", Remind("first"), unique="7", while_waiting=True, delay=earlier)
        kept = sender.send("Sales", Remind("second"), unique="7", while_waiting=True, delay=delay)
        other = sender.send("Sales", Remind("other"), unique="8", while_waiting=True)
    assert (first.outcome, kept.outcome, other.outcome) == ("sent", "kept", "sent")
    assert kept == first != other
    there = await waiting(endpoints) + await waiting(endpoints, "Sales.Delayed")
    assert sorted(there) == ["first", "other"]

    with client(endpoints, autocommit=autocommit) as sender:
        third = sender.send(
            "Sales", Remind("third"), unique="7", while_waiting=True, on_conflict="replace", delay=delay
        )
        again = sender.send("Sales", Remind("fourth"), unique="7", while_waiting=True)
    assert (third.outcome, again.outcome) == ("replaced", "kept")
    assert again == third != first
    due, delayed = ["other"], list[str]()
    (due if delay is None else delayed).append("third")
    assert await waiting(endpoints) == due
    assert await waiting(endpoints, "Sales.Delayed") == delayed


async def test_a_message_that_another_program_took_out_of_the_queue_frees_its_value(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    with client(endpoints) as sender:
        sender.send("Sales", Remind("first"), unique="7", while_waiting=True)
    await endpoints.backend.execute('delete from "Sales"')
    with client(endpoints) as sender:
        again = sender.send("Sales", Remind("second"), unique="7", while_waiting=True, on_conflict="replace")
    assert again.outcome == "sent"
    assert await waiting(endpoints) == ["second"]


async def test_a_message_in_hand_does_not_wait_any_more(endpoints: Endpoints, taker: rowbus.Endpoint) -> None:
    """A handler that has read what may be out of date: so another one is sent."""
    with client(endpoints) as sender:
        sender.send("Sales", Remind("first"), unique="7", while_waiting=True)
    with psycopg.connect(endpoints.backend.dsn) as receiver:
        receiver.execute('delete from "Sales"')  # as .NET and Rowbus receive, and not committed
        with client(endpoints) as sender:
            again = sender.send("Sales", Remind("second"), unique="7", while_waiting=True)
    assert again.outcome == "sent"
    assert await waiting(endpoints) == ["second"]


async def test_nobody_receives_a_kept_message_before_the_sender_who_kept_it_commits(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    with client(endpoints) as sender:
        sender.send("Sales", Remind("first"), unique="7", while_waiting=True)
    seen: list[str] = []

    @taker.handler
    async def remind(message: Remind) -> None:
        seen.append(message.text)

    with client(endpoints) as sender:
        assert sender.send("Sales", Remind("second"), unique="7", while_waiting=True).outcome == "kept"
        with client(endpoints) as another:
            another.send("Sales", Remind("plain"))
        async with taker:

            async def passed_over() -> bool:
                return seen == ["plain"]

            await eventually(passed_over)
            seen.clear()

    async def received() -> bool:
        return seen == ["first"]

    async with taker:
        await eventually(received)


async def test_a_due_message_that_was_delayed_still_waits_until_it_is_received(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    with client(endpoints) as sender:
        first = sender.send(
            "Sales", Remind("first"), unique="7", while_waiting=True, deliver_at=datetime.now(UTC)
        )
    async with rowbus.DelayedMover("Sales", database=endpoints.backend.dsn, schema=endpoints.backend.schema):

        async def moved() -> bool:
            return await waiting(endpoints) == ["first"]

        await eventually(moved)
    with client(endpoints) as sender:
        kept = sender.send("Sales", Remind("second"), unique="7", while_waiting=True)
        assert (kept.outcome, kept == first) == ("kept", True)
        replaced = sender.send(
            "Sales", Remind("third"), unique="7", while_waiting=True, on_conflict="replace"
        )
        assert replaced.outcome == "replaced"
    assert await waiting(endpoints) == ["third"]


async def test_an_expired_message_waits_no_more(endpoints: Endpoints, taker: rowbus.Endpoint) -> None:
    with client(endpoints) as sender:
        sender.send("Sales", Remind("first"), unique="7", while_waiting=True, time_to_be_received=HOUR)
    await endpoints.backend.execute("update \"Sales\" set expires = now() at time zone 'UTC'")
    with client(endpoints) as sender:
        assert sender.send("Sales", Remind("second"), unique="7", while_waiting=True).outcome == "sent"


# --------------------------------------------------------------------------------------------------------- for a time


async def test_within_a_time_one_message_is_sent_whatever_became_of_it(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    with client(endpoints) as sender:
        first = sender.send("Sales", Remind("first"), unique="7", within=HOUR)
    await endpoints.backend.execute('delete from "Sales"')
    with client(endpoints) as sender:
        for on_conflict in ("keep", "replace"):
            kept = sender.send("Sales", Remind("second"), unique="7", within=HOUR, on_conflict=on_conflict)
            assert (kept.outcome, kept == first) == ("kept", True)
    assert await waiting(endpoints) == []
    await endpoints.backend.execute('update "Sales.Unique" set free_at = clock_timestamp()')
    with client(endpoints) as sender:
        assert sender.send("Sales", Remind("third"), unique="7", within=HOUR).outcome == "sent"
        assert sender.send("Sales", Remind("fourth"), unique="7", within=HOUR).outcome == "kept"
    assert await waiting(endpoints) == ["third"]


async def test_a_postponed_message_becomes_due_later_and_never_sooner(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    async def due() -> datetime:
        (at,) = await endpoints.backend.values('select due::text from "Sales.Delayed"')
        return datetime.fromisoformat(at)

    later, sooner = (datetime(year, 1, 1, tzinfo=UTC) for year in (2110, 2090))
    with client(endpoints) as sender:
        first = sender.send("Sales", Remind("first"), unique="7", while_waiting=True, delay=HOUR)
    for deliver_at in (later, sooner):
        with client(endpoints) as sender:
            again = sender.send(
                "Sales",
                Remind("second"),
                unique="7",
                while_waiting=True,
                on_conflict="postpone",
                deliver_at=deliver_at,
            )
        assert (again.outcome, again == first) == ("postponed", True)
        assert await due() == later
    assert await waiting(endpoints, "Sales.Delayed") == ["first"]


async def test_what_is_due_already_is_kept_and_not_postponed(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    with client(endpoints) as sender:
        sender.send("Sales", Remind("first"), unique="7", while_waiting=True)
        again = sender.send(
            "Sales", Remind("second"), unique="7", while_waiting=True, on_conflict="postpone", delay=HOUR
        )
    assert again.outcome == "kept"


# -------------------------------------------------------------------------------------------------------- transactions


async def test_a_send_that_was_rolled_back_has_claimed_nothing(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    with psycopg.connect(endpoints.backend.dsn) as connection:
        sender = rowbus.Client(connection, schema=endpoints.backend.schema)
        sender.send("Sales", Remind("first"), unique="7", while_waiting=True)
        connection.rollback()
        assert sender.send("Sales", Remind("second"), unique="7", while_waiting=True).outcome == "sent"
        connection.commit()
        sender.send("Sales", Remind("third"), unique="7", while_waiting=True, on_conflict="replace")
        connection.rollback()
        assert sender.send("Sales", Remind("fourth"), unique="7", while_waiting=True).outcome == "kept"
    assert await waiting(endpoints) == ["second"]


@pytest.mark.parametrize("commits, outcome", [(True, "kept"), (False, "sent")])
async def test_of_two_senders_at_once_the_second_waits_for_the_fate_of_the_first(
    endpoints: Endpoints, taker: rowbus.Endpoint, outcome: str, *, commits: bool
) -> None:
    outcomes: list[str] = []

    def second() -> None:
        with client(endpoints) as sender:
            outcomes.append(
                sender.send("Sales", Remind("second"), unique="7", while_waiting=True, delay=HOUR).outcome
            )

    async def is_waiting() -> bool:
        return bool(
            await endpoints.backend.values(
                "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            )
        )

    with psycopg.connect(endpoints.backend.dsn) as connection:
        first = rowbus.Client(connection, schema=endpoints.backend.schema)
        first.send("Sales", Remind("first"), unique="7", while_waiting=True)
        thread = threading.Thread(target=second)
        thread.start()
        await eventually(is_waiting)
        with client(endpoints) as another:  # of another value: no lock but the row's
            another.send("Sales", Remind("other"), unique="8", while_waiting=True)
        (connection.commit if commits else connection.rollback)()
    await asyncio.to_thread(thread.join)
    assert outcomes == [outcome]
    there = await waiting(endpoints) + await waiting(endpoints, "Sales.Delayed")
    assert sorted(there) == (["first", "other"] if commits else ["other", "second"])


async def test_a_message_that_is_being_moved_is_waited_for_and_then_waits_in_the_queue(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    with client(endpoints) as sender:
        sender.send("Sales", Remind("first"), unique="7", while_waiting=True, delay=HOUR)
    outcomes: list[str] = []

    def second() -> None:
        with client(endpoints) as sender:
            outcomes.append(sender.send("Sales", Remind("second"), unique="7", while_waiting=True).outcome)

    async def is_waiting() -> bool:
        return bool(
            await endpoints.backend.values(
                "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            )
        )

    with psycopg.connect(endpoints.backend.dsn) as mover:
        mover.execute(
            'with moved as (delete from "Sales.Delayed" returning *) '
            'insert into "Sales" (id, headers, body) select id, headers, body from moved'
        )
        thread = threading.Thread(target=second)
        thread.start()
        await eventually(is_waiting)
    await asyncio.to_thread(thread.join)
    assert outcomes == ["kept"]
    assert await waiting(endpoints) == ["first"]


# --------------------------------------------------------------------------------------------------------- all senders


async def test_an_endpoint_outside_of_handlers_sends_unique_messages(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    sender = endpoints.make("Shop")
    async with sender:
        first = await sender.send("Sales", Remind("first"), unique="7", while_waiting=True)
        again = await sender.send("Sales", Remind("second"), unique="7", while_waiting=True)
    assert (first.outcome, again.outcome, first == again) == ("sent", "kept", True)


async def test_an_asynchronous_client_sends_unique_messages(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    async with await psycopg.AsyncConnection.connect(endpoints.backend.dsn) as connection:
        sender = rowbus.AsyncClient(connection, schema=endpoints.backend.schema)
        first = await sender.send("Sales", Remind("first"), unique="\ud800", while_waiting=True)
        again = await sender.send("Sales", Remind("second"), unique="\ud800", while_waiting=True)
    assert (first.outcome, again.outcome, first == again) == ("sent", "kept", True)


@pytest.mark.parametrize("kind", ["async def", "def"])
@pytest.mark.parametrize("mode", [*rowbus.TransactionMode][:3], ids=str)
async def test_a_handler_sends_unique_messages_in_its_receive_transaction(
    endpoints: Endpoints, taker: rowbus.Endpoint, kind: str, mode: rowbus.TransactionMode
) -> None:
    no_retries = rowbus.Recoverability(immediate=0, delayed=0)
    shop = endpoints.make("Shop", transaction_mode=mode, recoverability=no_retries)
    outcomes: list[str] = []

    def after(text: str) -> None:
        if text == "fails":
            raise ValueError(text)

    async def remind(message: Remind, context: rowbus.Context) -> None:
        sent = await context.send("Sales", message, unique="7", while_waiting=True)
        outcomes.append(sent.outcome)
        after(message.text)

    def remind_now(message: Remind, context: rowbus.SyncContext) -> None:
        outcomes.append(context.send("Sales", message, unique="7", while_waiting=True).outcome)
        after(message.text)

    shop.handler(remind if kind == "async def" else remind_now)
    async with shop:
        for number, text in enumerate(("fails", "first", "second"), 1):
            await shop.send_local(Remind(text))

            async def handled(number: int = number) -> bool:
                return len(outcomes) == number and not await waiting(endpoints, "Shop")

            await eventually(handled)
    is_undone = mode is not rowbus.TransactionMode.NONE
    assert outcomes == (["sent", "sent", "kept"] if is_undone else ["sent", "kept", "kept"])
    assert await waiting(endpoints) == (["first"] if is_undone else ["fails"])


async def test_a_long_handler_sends_unique_messages_in_a_step_or_at_once(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    shop = endpoints.make("Shop")
    outcomes: list[str] = []

    @shop.handler(long=True)
    async def remind(message: Remind, context: rowbus.LongContext) -> None:
        with pytest.raises(HandlerError, match="takes long"):
            await context.send("Sales", message, unique="7", while_waiting=True)
        async with context.transaction() as step:
            outcomes.append((await step.send("Sales", message, unique="7", while_waiting=True)).outcome)
        again = await context.send("Sales", message, unique="7", while_waiting=True, immediate=True)
        outcomes.append(again.outcome)

    async def handled() -> bool:
        return len(outcomes) == 2

    async with shop:
        await shop.send_local(Remind("first"))
        await eventually(handled)
    assert outcomes == ["sent", "kept"]


# ------------------------------------------------------------------------------------------------------ what is refused


def _send(sender: rowbus.Client, message: object = Remind("x"), **options: Any) -> None:  # noqa: ANN401 - a send's
    sender.send("Sales", message, **options)


@every(
    "options, said",
    [
        ({"while_waiting": True}, "while_waiting is for unique messages"),
        ({"within": HOUR}, "within is for unique messages"),
        ({"on_conflict": "keep"}, "on_conflict is for unique messages"),
        ({"unique": "7"}, "For how long is '7' unique"),
        ({"unique": "7", "while_waiting": True, "within": HOUR}, "one of them"),
        ({"unique": "", "while_waiting": True}, "give text"),
        ({"unique": 7, "while_waiting": True}, "give text"),
        ({"unique": "7", "within": timedelta()}, "longer than nothing"),
        ({"unique": "7", "within": 5}, "longer than nothing"),
        ({"unique": "7", "while_waiting": True, "on_conflict": "drop"}, "'keep', 'replace' or 'postpone'"),
        ({"unique": "7", "while_waiting": True, "on_conflict": "postpone"}, "give delay or deliver_at"),
        ({"unique": "7", "while_waiting": True, "key": "a"}, "has a key"),
        ({"unique": "7", "while_waiting": True, "message": MessageWithKey("a")}, "has a key"),
        ({"unique": "7", "while_waiting": True, "headers": {"Rowbus.Key": "a"}}, "has a key"),
        ({"unique": "7", "while_waiting": True, "immediate": True}, "immediate"),
    ],
)
async def test_what_cannot_be_unique_is_refused_and_nothing_is_sent(
    endpoints: Endpoints, taker: rowbus.Endpoint, options: dict[str, Any], said: str
) -> None:
    with client(endpoints) as sender, pytest.raises(ConfigurationError, match=said):
        _send(sender, **options)
    assert await waiting(endpoints) == []


async def test_a_delay_through_another_endpoint_is_refused(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    with (
        client(endpoints, delay_through="Shop") as sender,
        pytest.raises(ConfigurationError, match="delay_through"),
    ):
        sender.send("Sales", Remind("x"), unique="7", while_waiting=True, delay=HOUR)


async def test_a_queue_without_the_table_says_what_to_do(endpoints: Endpoints) -> None:
    await endpoints.make("Sales").install()
    with client(endpoints) as sender, pytest.raises(QueueNotFoundError, match="takes_unique=True"):
        sender.send("Sales", Remind("x"), unique="7", while_waiting=True)


async def test_a_client_that_creates_what_is_missing_creates_the_table_too(endpoints: Endpoints) -> None:
    with client(endpoints, create_missing=True) as sender:
        assert sender.send("Sales", Remind("x"), unique="7", while_waiting=True).outcome == "sent"
        assert sender.send("Sales", Remind("y"), unique="7", while_waiting=True, delay=HOUR).outcome == "kept"
    assert await waiting(endpoints) == ["x"]


@pytest.mark.parametrize(
    "others", [{"lanes": rowbus.by_key(2)}, {"delayed_delivery": None}], ids=["lanes", "no delays"]
)
async def test_an_endpoint_whose_messages_wait_elsewhere_takes_no_unique_ones(
    endpoints: Endpoints, others: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match="cannot take unique messages"):
        await endpoints.make("Sales", takes_unique=True, **others).install()


# ---------------------------------------------------------------------------------------------------- rights, sweeping


async def test_a_role_with_the_printed_rights_of_a_sender_sends_keeps_replaces_and_postpones(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    role, schema = "rowbus_unique_sender", endpoints.backend.schema
    queue, catalog = endpoints.queue("Sales"), catalog_of(taker.addresses)
    grants: list[Statement[None]] = [
        catalog.grant_send(queue, role),
        delayed_table(queue.satellite("Delayed")).grant_store(role),
        *(own.sender.grant_keep(role) for own in taker.parts.own_tables if own.sender is not None),
    ]
    with psycopg.connect(endpoints.backend.dsn) as connection:  # rolled back in the end, and the role with it
        connection.execute(f"create role {role}".encode())
        for grant in grants:
            connection.execute(scripts_of(queue).script(grant).encode())
        connection.execute(f"set local role {role}".encode())
        sender = rowbus.Client(connection, schema=schema)
        outcomes = [
            sender.send("Sales", Remind("x"), unique="7", while_waiting=True, **options).outcome
            for options in OF_EVERY_OUTCOME
        ]
        connection.rollback()
    assert outcomes == ["sent", "kept", "replaced", "kept", "postponed", "replaced"]


def _not_called(_text: str, _error: BaseException) -> None:
    raise AssertionError


async def test_the_sweeper_forgets_values_that_are_free_and_no_others(
    endpoints: Endpoints, taker: rowbus.Endpoint
) -> None:
    with client(endpoints) as sender:
        sender.send("Sales", Remind("gone"), unique="gone", while_waiting=True)
        sender.send("Sales", Remind("over"), unique="over", within=HOUR)
    await endpoints.backend.execute('delete from "Sales"')
    with client(endpoints) as sender:
        sender.send("Sales", Remind("waits"), unique="waits", while_waiting=True)
        sender.send("Sales", Remind("delayed"), unique="delayed", while_waiting=True, delay=HOUR)
        sender.send("Sales", Remind("open"), unique="open", within=HOUR)
    await endpoints.backend.execute("update \"Sales.Unique\" set claimed_at = now() - interval '2 minutes'")
    await endpoints.backend.execute("update \"Sales.Unique\" set free_at = now() where value = 'over'")
    with client(endpoints) as sender:
        sender.send("Sales", Remind("young"), unique="young", while_waiting=True)
    await endpoints.backend.execute("delete from \"Sales\" where convert_from(body, 'UTF8') like '%young%'")
    table = unique_table(unique_address(endpoints.queue("Sales")))
    pool = endpoints.backend.pool()
    await pool.open()
    try:
        assert await UniqueKeeper(pool, table.address, Alarm(_not_called, HOUR)).forget() == 2
    finally:
        await pool.close()
    left = await endpoints.backend.values('select value from "Sales.Unique" order by value')
    assert left == ["delayed", "open", "waits", "young"]
