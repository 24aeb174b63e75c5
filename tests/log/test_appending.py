"""Appending through a connection of the user's: what is stored, in whose transaction, and by whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy
from psycopg import sql
from sqlalchemy.ext.asyncio import create_async_engine

import rowbus
from rowbus import AsyncLog, Log
from rowbus.errors import (
    ConfigurationError,
    LogNotFoundError,
    MessageSerializationError,
    StorageError,
)
from tests.fixtures.every import every

NAME = 'Café "orders"; drop table x --'


@rowbus.event("Shop.OrderPlaced")
@dataclass
class OrderPlaced:
    order_id: str


@dataclass
class Undeclared:
    order_id: str


class Struct(msgspec.Struct):
    order_id: str


class Model:
    """Parts of a pydantic model that we use."""

    def model_dump_json(self) -> str:
        return '{"order_id":"42"}'


Row = tuple[Any, ...]
Stored = Callable[[], list[Row]]

FIELDS = "ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"


@pytest.fixture
def stored(pgq: psycopg.Connection) -> Stored:
    """Give what lists the committed events of the log: type, data, extras."""
    assert pgq.execute("select pgq.create_queue(%s)", [NAME]).fetchone() == (1,)
    found = pgq.execute("select queue_data_pfx from pgq.queue where queue_name = %s", [NAME]).fetchone()
    assert found is not None
    table = sql.Identifier(*found[0].split("."))

    def rows() -> list[Row]:
        query = sql.SQL("select {} from {} order by ev_id").format(sql.SQL(FIELDS), table)
        return pgq.execute(query).fetchall()

    return rows


@pytest.fixture
def own(log_database: str) -> Iterator[psycopg.Connection]:
    """Give a connection as users have it: psycopg's default, which begins a transaction by itself."""
    with psycopg.connect(log_database) as connection:
        yield connection


@pytest.fixture
async def own_asynchronous(log_database: str) -> AsyncIterator[psycopg.AsyncConnection]:
    async with await psycopg.AsyncConnection.connect(log_database) as connection:
        yield connection


def row(type: str | None, data: str | None, *extras: str | None) -> Row:
    return (type, data, *extras, *(None,) * (4 - len(extras)))


# ------------------------------------------------------------------------------------------------ whose transaction


def test_an_event_exists_when_the_callers_transaction_commits(
    own: psycopg.Connection, stored: Stored
) -> None:
    number = Log(own, NAME).append({"order": 42}, type="order_placed")
    assert number == 1
    assert stored() == []

    own.commit()

    assert stored() == [row("order_placed", '{"order":42}')]


def test_events_of_a_transaction_that_is_rolled_back_were_never_there(
    own: psycopg.Connection, stored: Stored
) -> None:
    log = Log(own, NAME)
    log.append("one")
    assert log.append_many(["two", "three"]) == 2
    own.rollback()
    own.commit()

    assert stored() == []


def test_in_autocommit_mode_each_call_is_its_own_transaction(log_database: str, stored: Stored) -> None:
    with psycopg.connect(log_database, autocommit=True) as own:
        log = Log(own, NAME)
        log.append("one")
        assert len(stored()) == 1
        log.append_many(["two", "three"])
        assert len(stored()) == 3
        assert own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def broken_events() -> Iterator[str]:
    yield "1"
    raise LookupError("the file ends here")


@pytest.mark.parametrize("autocommit", [True, False])
def test_many_events_are_appended_all_or_none(log_database: str, stored: Stored, *, autocommit: bool) -> None:
    with psycopg.connect(log_database, autocommit=autocommit) as own:
        with pytest.raises(LookupError):
            Log(own, NAME).append_many(broken_events())
        own.rollback()

    assert stored() == []


async def transaction_of(connection: psycopg.AsyncConnection) -> int:
    found = await (await connection.execute("select pg_current_xact_id_if_assigned()::text")).fetchone()
    assert found is not None
    return int(found[0])


async def test_the_asynchronous_twin_does_the_same(
    own_asynchronous: psycopg.AsyncConnection, stored: Stored
) -> None:
    log = AsyncLog(own_asynchronous, NAME)
    assert await log.append(type="order_placed", data={"order": 42}) == 1
    assert await log.append_many([("a", "1"), ("b", "2", "extra")]) == 2
    assert await log.position() == await transaction_of(own_asynchronous)
    assert stored() == []

    await own_asynchronous.commit()

    assert stored() == [row("order_placed", '{"order":42}'), row("a", "1"), row("b", "2", "extra")]


@pytest.mark.one_version
def test_sqlalchemys_connections_are_as_good(log_database: str, stored: Stored) -> None:
    dsn = log_database.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(dsn)
    with engine.connect() as connection:
        Log(connection, NAME).append("one")
        Log(connection, NAME).append_many(["two"])
        connection.commit()
        Log(connection, NAME).append("undone")
        connection.rollback()
    engine.dispose()

    assert [found[1] for found in stored()] == ["one", "two"]


@pytest.mark.one_version
async def test_sqlalchemys_asynchronous_connections_are_as_good(log_database: str, stored: Stored) -> None:
    engine = create_async_engine(log_database.replace("postgresql://", "postgresql+psycopg://"))
    async with engine.connect() as connection:
        await AsyncLog(connection, NAME).append("one")
        await AsyncLog(connection, NAME).append_many(["two"])
        await connection.commit()
    await engine.dispose()

    assert [found[1] for found in stored()] == ["one", "two"]


@pytest.mark.one_version
def test_a_log_on_a_database_says_that_appending_needs_a_connection(log_database: str) -> None:
    with pytest.raises(ConfigurationError, match="connection"):
        Log(log_database, NAME).append("one")


# -------------------------------------------------------------------------------------------------- what is stored


@pytest.mark.one_version
@every(
    "data, type, text",
    [
        (None, None, None),
        ("", None, ""),
        ("as it is, é", None, "as it is, é"),
        ('{"not": parsed', None, '{"not": parsed'),
        ("é".encode(), None, "é"),
        (bytearray(b"x"), None, "x"),
        ({"b": 1, "a": [None, True]}, None, '{"b":1,"a":[null,true]}'),
        ([1, 2], None, "[1,2]"),
        (42, None, "42"),
        (OrderPlaced("42"), "Shop.OrderPlaced", '{"order_id":"42"}'),
        (Undeclared("42"), None, '{"order_id":"42"}'),
        (Struct("42"), None, '{"order_id":"42"}'),
        (Model(), None, '{"order_id":"42"}'),
        ({"nul": "\0"}, None, '{"nul":"\\u0000"}'),
    ],
)
def test_data_is_text_as_it_is_and_everything_else_json(
    own: psycopg.Connection, stored: Stored, data: object, type: str | None, text: str | None
) -> None:
    log, before = Log(own, NAME), len(stored())
    log.append(data)
    log.append(data, type="another")
    log.append_many([("third", data), (None, data), {"data": data}])
    log.append_many(
        [(None, data) if isinstance(data, dict) else data]
    )  # a mapping's keys are an event's fields
    own.commit()

    types = [type, "another", "third", type, type, type]
    assert stored()[before:] == [row(each, text) for each in types]


@pytest.mark.one_version
@every(
    "data",
    ["\0", b"\0", b"\xff", "\ud800", object(), {1, object()}],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(
    own: psycopg.Connection, stored: Stored, data: object
) -> None:
    log, before = Log(own, NAME), len(stored())
    with pytest.raises(MessageSerializationError):
        log.append(data)
    with pytest.raises(MessageSerializationError):
        log.append("data", type="\0")
    log.append("the transaction is not spoilt")
    own.commit()

    assert len(stored()) == before + 1


@pytest.mark.one_version
@every("bad", ["\0", "\ud800", {"surprise": 1}, ("a",) * 7, (16705, "data"), ("a", "b", 3)], ids=repr)
def test_one_bad_event_of_many_leaves_none_of_them(log_database: str, stored: Stored, bad: object) -> None:
    with psycopg.connect(log_database, autocommit=True) as own:
        with pytest.raises((MessageSerializationError, ConfigurationError, StorageError)):
            Log(own, NAME).append_many(["good", bad])
        wholes: list[Any] = ["text", b"text", {"type": "a", "data": "b"}, pa.table({"type": ["a"]})]
        for whole in wholes:
            with pytest.raises(ConfigurationError, match="one after the other"):
                Log(own, NAME).append_many(whole)
        assert own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    assert stored() == []


EVENT = rowbus.Event(7, datetime(2026, 11, 21, tzinfo=UTC), 1, 3, "kind", "data", "1", None, "3", None)

MANY: list[tuple[Iterable[object], list[Row]]] = [
    ([], []),
    (["one", "two"], [row(None, "one"), row(None, "two")]),
    ([("a",), (), ("b", None)], [row("a", None), row(None, None), row("b", None)]),
    ([("a", "1", "x"), ("b", "2")], [row("a", "1", "x"), row("b", "2")]),
    (
        [("b", "2"), ("a", "1", None, "x"), ("c", {"n": 1})],
        [row("b", "2"), row("a", "1", None, "x"), row("c", '{"n":1}')],
    ),
    ([{"type": "a", "extra4": "x"}, {}], [row("a", None, None, None, None, "x"), row(None, None)]),
    (
        [EVENT, OrderPlaced("1")],
        [row("kind", "data", "1", None, "3"), row("Shop.OrderPlaced", '{"order_id":"1"}')],
    ),
]


@every("events, rows", MANY)
def test_many_events_may_be_given_in_many_ways(
    own: psycopg.Connection, stored: Stored, events: Iterable[object], rows: list[Row]
) -> None:
    before = len(stored())
    assert Log(own, NAME).append_many(events) == len(rows)
    own.commit()

    assert stored()[before:] == rows


@pytest.mark.one_version
def test_the_type_of_many_is_that_of_those_without(own: psycopg.Connection, stored: Stored) -> None:
    Log(own, NAME).append_many(["a", ("own", "b"), {"data": "c"}, ("x",) * 3], type="default")
    own.commit()

    assert [found[0] for found in stored()] == ["default", "own", "default", "x"]


@pytest.mark.one_version
def test_an_iterable_is_streamed(own: psycopg.Connection, stored: Stored) -> None:
    """The server has had the first events before the last are made."""
    seen: list[int] = []

    def events() -> Iterator[str]:
        for number in range(100_000):
            yield "x" * 100
            if number % 50_000 == 49_999:
                seen.append(_copied(own))

    assert Log(own, NAME).append_many(events()) == 100_000
    assert seen[0] > 0


def _copied(own: psycopg.Connection) -> int:
    """Ask how many events are there so far."""
    found = own.execute(
        "select count(*) from pgq.event_template"
    ).fetchone()  # the events' tables inherit from it
    assert found is not None
    return int(found[0])


# ---------------------------------------------------------------------------------------------------- in the server


def test_events_of_all_kinds_are_numbered_by_the_logs_sequence(
    own: psycopg.Connection, pgq: psycopg.Connection, stored: Stored
) -> None:
    """A sequence's step, which tells the ticker that there is something new."""
    log = Log(own, NAME)
    first = log.append("1")
    log.append_many(["2", "3"])
    log.append_many([("4", "4", "extra")])
    last = log.append("5")
    own.commit()

    assert last - first == 4
    sequence = pgq.execute("select pgq.seq_getval(queue_event_seq) from pgq.queue").fetchone()
    assert sequence == (last,)


def test_appended_events_carry_the_transactions_time_and_number(
    own: psycopg.Connection, pgq: psycopg.Connection, stored: Stored
) -> None:
    log = Log(own, NAME)
    log.append("1")
    log.append_many(["2", ("3", "3", "extra")])
    expected = own.execute("select now(), txid_current()").fetchone()
    own.commit()

    table = pgq.execute("select queue_data_pfx from pgq.queue").fetchone()
    assert table is not None
    query = sql.SQL("select distinct ev_time, ev_txid from {}").format(sql.Identifier(*table[0].split(".")))
    assert pgq.execute(query).fetchall() == [expected]


@pytest.mark.every_version
def test_many_events_are_in_a_transaction_that_has_its_number_before_the_table_is_chosen(
    own: psycopg.Connection, pgq: psycopg.Connection, stored: Stored
) -> None:
    """Otherwise a rotation between the two would hide them: younger transactions are looked for in the next table."""

    def events() -> Iterator[str]:
        query = "select backend_xid is not null from pg_stat_activity where pid = %s"
        has_number.extend(pgq.execute(query, [own.info.backend_pid]).fetchall())
        yield "one"

    has_number: list[Row] = []
    Log(own, NAME).append_many(events())

    assert has_number == [(True,)]


ATTEMPTS: tuple[Callable[[Log], int], ...] = (lambda log: log.append("x"), lambda log: log.append_many(["x"]))


def test_a_missing_log_is_named_with_what_creates_it(
    own: psycopg.Connection, pgq: psycopg.Connection
) -> None:
    for attempt in ATTEMPTS:
        with pytest.raises(LogNotFoundError, match="rowbus log create") as caught:
            attempt(Log(own, "nowhere"))
        assert caught.value.log == "nowhere"
        own.rollback()


def test_a_database_without_the_schema_is_told_how_to_install_it(database: str) -> None:
    with psycopg.connect(database) as own:
        for attempt in ATTEMPTS:
            with pytest.raises(LogNotFoundError, match="rowbus log install"):
                attempt(Log(own, "orders"))
            own.rollback()


async def test_the_asynchronous_twin_names_a_missing_log(own_asynchronous: psycopg.AsyncConnection) -> None:
    with pytest.raises(LogNotFoundError, match="rowbus log create"):
        await AsyncLog(own_asynchronous, "nowhere").append_many(["x"])


@pytest.fixture
def writer(log_database: str, stored: Stored) -> Iterator[str]:
    """Give the DSN of a role that may append through functions and cannot write to the log's tables."""
    with psycopg.connect(log_database, autocommit=True) as connection:
        connection.execute("create role rowbus_test_writer")
        connection.execute("grant pgq_writer to rowbus_test_writer")
        connection.execute("grant usage on schema pgq to rowbus_test_writer")
        yield psycopg.conninfo.make_conninfo(log_database, options="-c role=rowbus_test_writer")
        connection.execute("drop owned by rowbus_test_writer; drop role rowbus_test_writer")


@pytest.mark.every_version
def test_a_role_that_may_not_copy_appends_many_all_the_same(writer: str, stored: Stored) -> None:
    events: list[object] = [("a", str(number)) for number in range(2500)]
    events[1700] = ("with", "extras", "1", None, None, "4")
    with psycopg.connect(writer) as own:
        refused = own.execute("select has_table_privilege(pgq.current_event_table(%s), 'insert')", [NAME])
        assert refused.fetchone() == (False,)
        assert Log(own, NAME).append_many(events) == 2500

    found = stored()
    assert [data for _, data, *_ in found[:1700]] == [str(number) for number in range(1700)]
    assert found[1700] == row("with", "extras", "1", None, None, "4")
    assert len(found) == 2500


@pytest.mark.one_version
async def test_such_a_role_appends_many_asynchronously_too(writer: str, stored: Stored) -> None:
    async with await psycopg.AsyncConnection.connect(writer) as own:
        assert await AsyncLog(own, NAME).append_many(["one", "two"]) == 2

    assert [found[1] for found in stored()] == ["one", "two"]


def test_a_log_that_is_closed_for_writing_says_so(
    own: psycopg.Connection, pgq: psycopg.Connection, stored: Stored
) -> None:
    pgq.execute("update pgq.queue set queue_disable_insert = true")
    with pytest.raises(StorageError, match="disallowed"):
        Log(own, NAME).append("x")
    own.rollback()
    with pytest.raises(StorageError, match="disabled"):
        Log(own, NAME).append_many(["x"])


def test_appending_is_not_for_two_threads_at_once_but_for_many_connections(
    log_database: str, stored: Stored
) -> None:
    async def append(number: int) -> None:
        async with await psycopg.AsyncConnection.connect(log_database) as connection:
            await AsyncLog(connection, NAME).append_many(f"{number}-{each}" for each in range(50))

    async def all_of_them() -> None:
        await asyncio.gather(*map(append, range(4)))

    asyncio.run(all_of_them())

    assert len({data for _, data, *_ in stored()}) == 200
