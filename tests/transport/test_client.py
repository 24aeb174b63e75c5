"""The clients: messages in the caller's own transaction, one by one or by COPY, and no commit but the caller's."""

from __future__ import annotations

import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from rowbus import AsyncClient, Client, QueueAddress, ReturnCode
from rowbus.database.postgresql.connection import BLOCK_SIZE, Session
from rowbus.errors import (
    ConfigurationError,
    ConnectionLostError,
    InvalidAddressError,
    InvalidHeaderError,
    MessageSerializationError,
    QueueNotFoundError,
    StorageError,
)
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message_types import command
from rowbus.running.host import this_host, this_program
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.every import every
from tests.fixtures.sessions import bodies, listening_to, take


@command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str
    total: float = 0.0


@pytest.fixture
def own(database: str) -> Iterator[psycopg.Connection]:
    """Give a connection as users have it: psycopg's default, which begins a transaction by itself."""
    with psycopg.connect(database) as connection:
        yield connection


@pytest.fixture
async def own_asynchronous(database: str) -> AsyncIterator[psycopg.AsyncConnection]:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        yield connection


def orders(number: int) -> Iterator[PlaceOrder]:
    return (PlaceOrder(str(one)) for one in range(number))


def received(session: Session, queue: QueueTable) -> list[tuple[dict[str, str | None], bytes | None]]:
    return [(decode_headers(row.headers), row.body) for row in take(session, queue, 1000)]


# ------------------------------------------------------------------------------------------------ whose transaction


def test_a_message_exists_when_the_callers_transaction_commits(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    Client(own).send("Sales", PlaceOrder("42"))
    assert bodies(session, queue) == []

    own.commit()

    assert bodies(session, queue) == [b'{"order_id":"42","total":0.0}']


def test_a_message_of_a_transaction_that_is_rolled_back_was_never_there(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    Client(own).send("Sales", PlaceOrder("42"))
    own.rollback()
    own.commit()

    assert bodies(session, queue) == []


def test_many_messages_exist_when_the_callers_transaction_commits(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    assert Client(own).send_many("Sales", orders(10)) == 10
    assert bodies(session, queue) == []

    own.commit()

    assert len(bodies(session, queue)) == 10


def test_many_messages_of_a_transaction_that_is_rolled_back_were_never_there(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    Client(own).send_many("Sales", orders(10), time_to_be_received=timedelta(hours=1))
    own.rollback()
    own.commit()

    assert bodies(session, queue) == []


def test_messages_and_business_data_commit_together(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    own.execute("create table orders (id text)")
    with own.transaction():
        own.execute("insert into orders values ('42')")
        Client(own).send("Sales", PlaceOrder("42"))
        Client(own).send_many("Sales", orders(2))
        assert bodies(session, queue) == []
    own.commit()

    assert len(bodies(session, queue)) == 3
    assert session.connection.execute("select * from orders").fetchall() == [("42",)]


def test_a_savepoint_of_the_callers_that_is_rolled_back_takes_its_messages_with_it(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    client = Client(own)
    with own.transaction():
        client.send("Sales", PlaceOrder("kept"))
        with own.transaction(force_rollback=True):
            client.send("Sales", PlaceOrder("undone"))
            client.send_many("Sales", orders(3))

    assert bodies(session, queue) == [b'{"order_id":"kept","total":0.0}']


def test_in_autocommit_mode_each_call_is_its_own_transaction(
    database: str, session: Session, queue: QueueTable
) -> None:
    with psycopg.connect(database, autocommit=True) as own:
        Client(own).send("Sales", PlaceOrder("42"))
        assert len(bodies(session, queue)) == 1
        Client(own).send_many("Sales", orders(2))
        assert len(bodies(session, queue)) == 3
        assert own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def broken_orders() -> Iterator[PlaceOrder]:
    yield PlaceOrder("1")
    raise LookupError("the file ends here")


@pytest.mark.parametrize("autocommit", [True, False])
def test_many_messages_are_sent_all_or_none(
    database: str, session: Session, queue: QueueTable, *, autocommit: bool
) -> None:
    def asking(own: psycopg.Connection) -> Iterator[PlaceOrder]:
        for order in broken_orders():
            yield order
            own.execute("select 1")  # what was given before has left

    def failing(own: psycopg.Connection) -> Iterator[PlaceOrder]:
        yield PlaceOrder("x" * BLOCK_SIZE)
        own.execute("select %s", [])  # which the driver refuses, and the server never sees

    with psycopg.connect(database, autocommit=autocommit) as own:
        for given in (broken_orders(), asking(own)):
            with pytest.raises(LookupError, match="the file ends here"):
                Client(own).send_many("Sales", given)
            own.commit()
        with pytest.raises(StorageError):
            Client(own).send_many("Sales", failing(own))
        own.commit()

    assert bodies(session, queue) == []


def test_after_many_messages_failed_inside_the_callers_transaction_it_can_go_on(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    client = Client(own)
    client.send("Sales", PlaceOrder("before"))
    with pytest.raises(LookupError):
        client.send_many("Sales", broken_orders())
    client.send("Sales", PlaceOrder("after"))
    own.commit()

    assert len(bodies(session, queue)) == 2


def test_the_connection_stays_as_it_was(own: psycopg.Connection, queue: QueueTable) -> None:
    own.row_factory = dict_row  # type: ignore[assignment]  # a user's own choice
    own.execute("set timezone to 'Asia/Tokyo'")
    own.commit()

    Client(own).send("Sales", PlaceOrder("42"), time_to_be_received=timedelta(minutes=5))
    Client(own).send_many("Sales", orders(2), time_to_be_received=timedelta(minutes=5))

    zone: object = own.execute("show timezone").fetchone()
    assert zone == {"TimeZone": "Asia/Tokyo"}
    assert not own.autocommit
    own.rollback()


async def test_an_asynchronous_client_keeps_to_the_same_rules(
    own_asynchronous: psycopg.AsyncConnection, session: Session, queue: QueueTable
) -> None:
    client = AsyncClient(own_asynchronous)
    for end in (own_asynchronous.rollback, own_asynchronous.commit):
        await client.send("Sales", PlaceOrder("42"))
        assert await client.send_many("Sales", orders(10)) == 10
        assert await client.send_many("Sales", orders(1), time_to_be_received=timedelta(hours=1)) == 1
        assert bodies(session, queue) == []
        await end()

    assert len(bodies(session, queue)) == 12


async def test_many_messages_on_an_idle_asynchronous_connection_wait_for_the_callers_commit(
    own_asynchronous: psycopg.AsyncConnection, session: Session, queue: QueueTable
) -> None:
    await AsyncClient(own_asynchronous).send_many("Sales", orders(10))
    await own_asynchronous.rollback()

    assert bodies(session, queue) == []


async def test_an_asynchronous_client_sends_all_or_none(
    database: str, session: Session, queue: QueueTable
) -> None:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as own:
        with pytest.raises(LookupError):
            await AsyncClient(own).send_many("Sales", broken_orders())
        await AsyncClient(own).send("Sales", PlaceOrder("42"))

    assert len(bodies(session, queue)) == 1


# ------------------------------------------------------------------------------------------------------ what is sent


def test_the_message_has_the_standard_headers_of_a_bare_client(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    message_id = Client(own, reply_to="Web").send("Sales", PlaceOrder("42"), headers={"Shop.Tenant": "7"})
    own.commit()

    ((headers, _),) = received(session, queue)

    assert headers == {
        Header.MESSAGE_ID: message_id,
        Header.MESSAGE_INTENT: "Send",
        Header.CONTENT_TYPE: "application/json",
        Header.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder",
        Header.CORRELATION_ID: message_id,
        Header.CONVERSATION_ID: message_id,
        Header.TIME_SENT: headers[Header.TIME_SENT],
        Header.VERSION: headers[Header.VERSION],
        Header.REPLY_TO_ADDRESS: '"public"."Web"',
        Header.START_NEW_TRACE: "False",
        Header.ORIGINATING_ENDPOINT: this_program(),
        Header.ORIGINATING_MACHINE: socket.gethostname(),
        Header.ORIGINATING_HOST_ID: this_host().id,
        "Shop.Tenant": "7",
    }
    assert uuid.UUID(message_id).version == 4


HOST_ID = "0696488b-a526-b5ea-d0a4-fd9bb712ddbd"


def test_a_client_may_say_who_sends(own: psycopg.Connection, session: Session, queue: QueueTable) -> None:
    client = Client(own, endpoint="Shop.Web", machine="web-7", host_id=HOST_ID)

    client.send("Sales", PlaceOrder("42"))
    client.send_many("Sales", [PlaceOrder("43")])
    own.commit()

    told = [
        tuple(headers[name] for name in (*_ORIGIN, Header.ORIGINATING_HOST_ID))
        for headers, _ in received(session, queue)
    ]
    assert told == [("Shop.Web", "web-7", HOST_ID.replace("-", ""))] * 2


def test_a_host_id_that_is_no_uuid_is_refused(own: psycopg.Connection) -> None:
    with pytest.raises(ConfigurationError, match="'web-7'; it must be a UUID"):
        Client(own, host_id="web-7")


@every(
    "argument, name",
    [
        ("/srv/shop/importer.py", "importer"),
        ("/srv/shop/__main__.py", "shop"),
        ("/usr/bin/rowbus", "rowbus"),
        ("-c", "python"),
        ("", "python"),
    ],
)
def test_a_program_goes_by_the_name_of_its_file(
    monkeypatch: pytest.MonkeyPatch, argument: str, name: str
) -> None:
    monkeypatch.setattr("sys.argv", [argument])

    assert this_program.__wrapped__() == name


_ORIGIN = (Header.ORIGINATING_ENDPOINT, Header.ORIGINATING_MACHINE)


def test_each_of_many_messages_has_an_id_of_its_own_and_they_keep_their_order(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    Client(own).send_many("Sales", orders(500), headers={"Shop.Tenant": "7"})
    own.commit()

    sent = received(session, queue)

    assert [body for _, body in sent] == [b'{"order_id":"%d","total":0.0}' % number for number in range(500)]
    assert len({headers[Header.MESSAGE_ID] for headers, _ in sent}) == 500
    assert {headers["Shop.Tenant"] for headers, _ in sent} == {"7"}


def test_many_messages_may_be_a_generator_that_is_read_as_it_is_sent(
    own: psycopg.Connection, queue: QueueTable
) -> None:
    read = 0

    def counted() -> Iterator[PlaceOrder]:
        nonlocal read
        for order in orders(5):
            read += 1
            own.execute("select 1")
            yield order

    assert Client(own).send_many("Sales", counted()) == read == 5
    assert Client(own).send_many("Sales", []) == 0
    own.rollback()


@pytest.mark.every_version
def test_copied_rows_have_random_ids_of_version_4(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    Client(own).send_many("Sales", orders(200))
    own.commit()

    ids = [uuid.UUID(row.id) for row in take(session, queue, 1000)]

    assert len(set(ids)) == 200
    assert {(one.version, one.variant) for one in ids} == {(4, uuid.RFC_4122)}


@pytest.mark.every_version
def test_a_time_to_be_received_expires_the_message(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    client = Client(own)
    client.send("Sales", PlaceOrder("1"), time_to_be_received=timedelta(minutes=5))
    client.send_many("Sales", orders(2), time_to_be_received=timedelta(minutes=5))
    client.send("Sales", PlaceOrder("2"))
    own.commit()

    *expiring, lasting = session.run(queue.peek(10))

    for peeked in expiring:
        assert isinstance(peeked.expires, datetime)
        assert timedelta(minutes=4) < peeked.expires - datetime.now(UTC) <= timedelta(minutes=5)
        assert decode_headers(peeked.headers)[Header.TIME_TO_BE_RECEIVED] == "00:05:00"
    assert lasting.expires is None


def test_dicts_and_bytes_are_named_by_the_caller(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    client = Client(own)
    client.send("Sales", {"order_id": "42"}, type="Shop.PlaceOrder")
    client.send("Sales", b"\x00", type="Shop.Blob")
    client.send_many("Sales", [{"a": 1}, {"a": 2}], type="Shop.A")
    own.commit()

    sent = received(session, queue)

    assert [headers[Header.ENCLOSED_MESSAGE_TYPES] for headers, _ in sent] == [
        "Shop.PlaceOrder",
        "Shop.Blob",
        "Shop.A",
        "Shop.A",
    ]
    assert [body for _, body in sent] == [b'{"order_id":"42"}', b"\x00", b'{"a":1}', b'{"a":2}']


@pytest.mark.one_version
def test_a_client_takes_what_every_sender_takes(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    client = Client(own, reply_to="Web")
    client.send("Sales", ReturnCode(7), reply_to="Shop", new_conversation="order 42")
    client.send_many("Sales", orders(1), reply_to="Shop", new_conversation="order 42")
    own.commit()

    (code, body), (order, _) = received(session, queue)
    for headers in (code, order):
        assert headers[Header.REPLY_TO_ADDRESS] == '"public"."Shop"'
        assert headers[Header.CONVERSATION_ID] == "order 42"
    assert (code[Header.RETURN_MESSAGE_ERROR_CODE], code[Header.CONTROL_MESSAGE]) == ("7", "True")
    assert (body, Header.ENCLOSED_MESSAGE_TYPES in code) == (b"", False)


@pytest.mark.one_version
def test_what_a_client_cannot_do_is_refused_and_the_transaction_is_not_touched(
    own: psycopg.Connection, queue: QueueTable
) -> None:
    client = Client(own)
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: client.send("Sales", PlaceOrder("1"), immediate=True), "autocommit mode"),
        (lambda: client.send_many("Sales", orders(1), immediate=True), "autocommit mode"),
        (lambda: client.publish({}, type="Shop.Placed", immediate=True), "autocommit mode"),
        (lambda: client.send("Sales", PlaceOrder("1"), reply_to_this_instance=True), "give reply_to"),
        (lambda: client.send(PlaceOrder("1")), "no routes"),
    ]

    for call, reason in refused:
        with pytest.raises(ConfigurationError, match=reason):
            call()

    assert own.info.transaction_status is TransactionStatus.IDLE


def test_an_empty_body_is_never_null(own: psycopg.Connection, session: Session, queue: QueueTable) -> None:
    Client(own).send("Sales", b"", type="Shop.Nothing")
    Client(own).send_many("Sales", [b""], type="Shop.Nothing")
    own.commit()

    assert [row.body for row in take(session, queue, 10)] == [b"", b""]


@pytest.mark.every_version
@pytest.mark.parametrize("notify", [True, False])
def test_receivers_are_woken_by_the_callers_commit_if_they_are_to_be(
    own: psycopg.Connection, session: Session, queue: QueueTable, *, notify: bool
) -> None:
    session.run_all(queue.listen())
    client = Client(own, notify=notify)
    for send in (
        lambda: client.send("Sales", PlaceOrder("42")),
        lambda: client.send_many("Sales", orders(2)),
    ):
        send()
        own.commit()

    session.connection.execute("select 1")
    assert len(list(session.connection.notifies(timeout=0))) == (2 if notify else 0)


# --------------------------------------------------------------------------------------------------------- where to


def test_destinations_are_names_in_the_clients_schema_or_addresses(
    own: psycopg.Connection, session: Session
) -> None:
    session.connection.execute('create schema "Shop"')
    queues = [QueueTable(QueueAddress("Shop", "Sales")), QueueTable(QueueAddress("public", "Shop.Sales"))]
    for queue in queues:
        session.run_all(queue.create())
    client = Client(own, schema="Shop")

    client.send("Sales", PlaceOrder("42"))
    client.send('"public"."Shop.Sales"', PlaceOrder("42"))
    client.send(QueueAddress("public", "Shop.Sales"), PlaceOrder("42"))
    own.commit()

    assert [len(bodies(session, queue)) for queue in queues] == [1, 2]


@pytest.mark.one_version
def test_an_ambiguous_or_impossible_destination_is_refused_and_the_transaction_is_not_touched(
    own: psycopg.Connection, queue: QueueTable
) -> None:
    with listening_to(own) as wire:
        given: list[Any] = ["Shop.Sales", "", "x" * 56, PlaceOrder, PlaceOrder("42")]
        for destination in given:
            with pytest.raises(InvalidAddressError):
                Client(own).send(destination, PlaceOrder("42"))
        with pytest.raises(MessageSerializationError):
            Client(own).send("Sales", {"no": "type"})
        with pytest.raises(InvalidHeaderError):
            Client(own).send("Sales", PlaceOrder("42"), time_to_be_received=timedelta(0))
        assert wire.statements == []


@pytest.mark.parametrize("reply_to", ["Shop.Web", "x" * 56])
def test_an_impossible_reply_address_is_refused_at_once(own: psycopg.Connection, reply_to: str) -> None:
    with pytest.raises(InvalidAddressError):
        Client(own, reply_to=reply_to)


def test_what_needs_an_answer_is_refused_in_a_pipeline_and_single_sends_are_not(
    own: psycopg.Connection, session: Session, queue: QueueTable
) -> None:
    client = Client(own)
    with own.pipeline():
        client.send("Sales", PlaceOrder("1"))
        with pytest.raises(ConfigurationError, match=r"Sales.*in a pipeline, in which no answer comes"):
            client.send_many("Sales", orders(2))
        with pytest.raises(ConfigurationError, match="in a pipeline"):
            client.cancel("Sales", "1")
    own.commit()

    assert len(received(session, queue)) == 1


async def test_send_many_is_refused_in_an_asynchronous_pipeline(
    own_asynchronous: psycopg.AsyncConnection, queue: QueueTable
) -> None:
    async with own_asynchronous.pipeline():
        with pytest.raises(ConfigurationError, match="in a pipeline"):
            await AsyncClient(own_asynchronous).send_many("Sales", orders(2))


def test_a_missing_queue_is_named(own: psycopg.Connection) -> None:
    with pytest.raises(
        QueueNotFoundError, match=r'^Failed to send message to "public"\."Missing": '
    ) as caught:
        Client(own).send("Missing", PlaceOrder("42"))
    own.rollback()
    assert caught.value.queue == '"public"."Missing"'

    with pytest.raises(QueueNotFoundError, match=r'^Failed to send messages to "public"\."Missing": '):
        Client(own).send_many("Missing", orders(1))


def test_in_a_spoilt_transaction_a_send_is_a_storage_error(
    own: psycopg.Connection, queue: QueueTable
) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        own.execute("select 1 / 0")

    with pytest.raises(StorageError, match="Failed to send message to") as caught:
        Client(own).send("Sales", PlaceOrder("42"))

    assert caught.value.sqlstate == "25P02"


def test_a_closed_connection_is_a_lost_one(own: psycopg.Connection, queue: QueueTable) -> None:
    client = Client(own)
    own.close()

    for of_now in (client, Client(own)):
        with pytest.raises(ConnectionLostError):
            of_now.send("Sales", PlaceOrder("42"))


# ----------------------------------------------------------------------------------------------------------- poolers


def test_behind_a_pooler_nothing_is_prepared(database: str, session: Session, queue: QueueTable) -> None:
    """PgBouncer in transaction mode wants `prepare_threshold=None`, which sends must respect."""
    with psycopg.connect(database, prepare_threshold=None) as own:
        for _ in range(10):
            Client(own).send("Sales", PlaceOrder("42"))
            Client(own).send_many("Sales", orders(1))
        assert own.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)

    assert len(bodies(session, queue)) == 20


async def test_behind_a_pooler_nothing_is_prepared_asynchronously(database: str, queue: QueueTable) -> None:
    async with await psycopg.AsyncConnection.connect(database, prepare_threshold=None) as own:
        for _ in range(10):
            await AsyncClient(own).send("Sales", PlaceOrder("42"))
        cursor = await own.execute("select count(*) from pg_prepared_statements")
        assert await cursor.fetchone() == (0,)


def test_otherwise_the_send_is_prepared_once(own: psycopg.Connection, queue: QueueTable) -> None:
    client = Client(own)
    for _ in range(10):
        client.send("Sales", PlaceOrder("42"))

    assert own.execute("select count(*) from pg_prepared_statements").fetchone() == (1,)
    own.rollback()
