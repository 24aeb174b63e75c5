"""Names come without end from whoever may send: what Rowbus remembers of them is bounded. Nothing here does I/O."""

from __future__ import annotations

import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import make_dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from rowbus.database.backends import bound_table
from rowbus.endpoint.handlers import Handlers
from rowbus.errors import QueueNotFoundError, UnknownMessageTypeError
from rowbus.log import event as change
from rowbus.messages import message_types as messages
from rowbus.messages.address import PostgresAddresses, QueueAddress
from rowbus.messages.dispatch import AppendedEvent, DelayedSend, Send
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.sqlserver_address import SqlServerAddress, SqlServerAddresses
from rowbus.running.bounded import LONGEST_REMEMBERED, MOST, Bounded
from rowbus.spark.sink.targets.queue import FrameRow, HeaderWriter
from rowbus.transport.client import Inserts
from rowbus.transport.delayed import policy as due_moves
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.events import log_table
from rowbus.transport.queues.postgresql import COPIES_AT_ONCE, SETS_KEPT, _copies
from rowbus.transport.queues.table import destination_table, queue_table
from rowbus.transport.receiving.dispatcher import Dispatcher
from tests.fixtures.every import every

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.database.sessions import SessionPool
    from rowbus.messages.address import Addresses

MANY = 20_000
SEVERAL = 3 * MOST  # where each costs a millisecond
MESSAGE = OutgoingMessage({"NServiceBus.MessageId": "1"}, b"{}")
MEGABYTE = 1_000_000

ADDRESSES = every(
    "addresses",
    [PostgresAddresses("public"), SqlServerAddresses("dbo", "Shop")],
)


def strangers(addresses: Addresses) -> Iterator[QueueAddress]:
    """Give addresses as replies name them; every tenth is one that no table can have."""
    for number in range(SEVERAL):
        yield addresses.parse(f"stranger{number}" + ("x" * 200 if number % 10 == 0 else ""))


def test_a_bounded_dict_forgets_the_oldest() -> None:
    bounded: Bounded[int, str] = Bounded(2)
    for number in (1, 2, 1, 3):
        bounded[number] = str(number)

    assert list(bounded) == [2, 3]


def test_threads_may_add_to_a_bounded_dict_at_the_same_time() -> None:
    bounded: Bounded[int, int] = Bounded(2)

    def add(first: int) -> None:
        for number in range(first, first + 20_000):
            bounded[number] = number

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for added in [threads.submit(add, 20_000 * number) for number in range(4)]:
                added.result()
    finally:
        sys.setswitchinterval(interval)


@ADDRESSES
def test_a_dispatcher_remembers_few_destinations(addresses: Addresses) -> None:
    dispatcher = Dispatcher(cast("SessionPool", None), notify=True)
    missing = 0
    for address in strangers(addresses):
        try:
            dispatcher.statements([Send(address, MESSAGE)])
        except QueueNotFoundError:
            missing += 1

    assert missing == SEVERAL / 10
    kept = destination_table.cache_info()
    assert kept.currsize == kept.maxsize


def test_a_dispatcher_remembers_few_logs() -> None:
    dispatcher = Dispatcher(cast("SessionPool", None), notify=True)
    for number in range(2 * MOST):
        dispatcher.statements([AppendedEvent(f"log{number}", "type", "data")])

    kept = log_table.cache_info()
    assert kept.currsize == kept.maxsize


@ADDRESSES
def test_a_client_remembers_few_destinations(addresses: Addresses) -> None:
    inserts = Inserts(addresses.from_user("Subscriptions"))
    for address in strangers(addresses):
        for send in (Send(address, MESSAGE), DelayedSend(address, MESSAGE, timedelta(1))):
            try:
                inserts.of(send)
            except QueueNotFoundError:
                break

    kept = bound_table.cache_info()
    assert kept.currsize == kept.maxsize


def test_few_sets_of_subscribers_are_remembered_and_none_is_large() -> None:
    subscribers = [QueueAddress("s" * 63, f"{number}".rjust(63, "q")) for number in range(2 * SETS_KEPT)]
    subscribers += [QueueAddress("s" * 63, f"more{number}") for number in range(SETS_KEPT * COPIES_AT_ONCE)]
    for statement in queue_table(subscribers[0]).send_together(MESSAGE, subscribers, notify=True):
        assert len(statement.query.native) < COPIES_AT_ONCE * 400

    kept = _copies.cache_info()
    assert kept.currsize == kept.maxsize == SETS_KEPT


@ADDRESSES
def test_a_mover_remembers_few_destinations(addresses: Addresses) -> None:
    table: Any = delayed_table(addresses.parse("Sales.Delayed"))
    missing = 0
    for address in strangers(addresses):
        try:
            table.move(["1@2026-01-01T00:00:00"], address)
        except QueueNotFoundError:
            missing += 1

    assert missing == SEVERAL / 10
    assert len(table._moves) == MOST


@every(
    "table",
    [QueueAddress("public", "Sales.Delayed"), SqlServerAddress("dbo", "Sales.Delayed", "Shop")],
    ids=str,
)
def test_what_delayed_messages_say_of_their_destinations_is_not_remembered_for_ever(
    table: QueueAddress,
) -> None:
    tracemalloc.start()
    for number in range(50):
        header = f'{{"{Header.FORWARD_DESTINATION}":"{number}{"x" * 20_000}"}}'
        due_moves.route(header, table)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert used < MEGABYTE


def test_an_endpoint_remembers_few_types() -> None:
    handlers = Handlers()
    handlers.add(handle, ["Shop.PlaceOrder"])
    for number in range(MANY):
        assert handlers.plans[f"stranger{number};Shop.PlaceOrder"]
        with pytest.raises(UnknownMessageTypeError):
            _ = handlers.plans[f"stranger{number}"]

    assert len(handlers.plans) <= 1000


def test_an_endpoint_remembers_no_long_types() -> None:
    handlers = Handlers()
    handlers.add(handle, ["Shop.PlaceOrder"])
    assert handlers.plans["Shop.PlaceOrder" + ";x" * LONGEST_REMEMBERED]

    assert not handlers.plans


def handle(message: dict[str, object]) -> None:
    raise NotImplementedError


def test_few_classes_are_remembered() -> None:
    for number in range(2 * MOST):
        messages.serialize(make_dataclass(f"Message{number}", ["name"])("a"))

    for cached in (messages.contract_of, messages._types_of):
        assert cached.cache_info().currsize == MOST


def test_no_long_type_of_an_event_is_remembered() -> None:
    before = change._remembered_kind.cache_info().currsize
    for number in range(100):
        change.kind_of(f"I:{number}" + "x" * LONGEST_REMEMBERED)

    assert change._remembered_kind.cache_info().currsize == before


def test_few_headers_of_rows_are_remembered() -> None:
    writer = HeaderWriter(None, None)
    for number in range(2 * MOST):
        writer.text(FrameRow("body", None, f"Shop.Type{number}", None, None))

    assert len(writer._texts) == MOST
