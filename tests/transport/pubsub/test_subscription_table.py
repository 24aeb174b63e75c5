"""The table of subscriptions: the shape that .NET gives it, and who may be changing it at the same time."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import psycopg
import pytest

import rowbus
from rowbus.database.postgresql.connection import Session
from rowbus.messages.address import QueueAddress
from rowbus.transport.pubsub.postgresql import SubscriptionRouting
from rowbus.transport.pubsub.publication import TopicSubscription, check_subscription, topics_of
from rowbus.transport.pubsub.table import create_subscriptions
from tests.fixtures.every import every

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.backend import Backend

TABLE = QueueAddress("public", "SubscriptionRouting")
BILLING = QueueAddress("public", "Billing")
ROUTING = SubscriptionRouting(TABLE)


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def session(connection: psycopg.Connection) -> Session:
    session = Session(connection)
    session.run_all(ROUTING.create())
    return session


def test_it_has_the_shape_that_nservicebus_gives_it(session: Session) -> None:
    columns = session.connection.execute(
        "select column_name, data_type, character_maximum_length, is_nullable from information_schema.columns"
        " where table_name = 'SubscriptionRouting' order by ordinal_position"
    ).fetchall()
    key = session.connection.execute(
        "select column_name from information_schema.key_column_usage"
        " where table_name = 'SubscriptionRouting' order by ordinal_position"
    ).fetchall()

    assert columns == [
        (name, "character varying", 200, "NO") for name in ("queueaddress", "endpoint", "topic")
    ]
    assert key == [("endpoint",), ("topic",)]


def test_a_subscription_is_written_once_and_says_whether_it_is_news(session: Session) -> None:
    assert session.run(ROUTING.subscribe("Billing", ["B", "A", "B"], BILLING)) == 2
    assert session.run(ROUTING.subscribe("Billing", ["A", "B"], BILLING)) == 0
    assert session.run(ROUTING.subscribe("Billing", ["A", "C"], QueueAddress("new", "Billing"))) == 2

    assert session.run(ROUTING.list()) == [
        TopicSubscription("Billing", "A", '"new"."Billing"'),
        TopicSubscription("Billing", "B", '"public"."Billing"'),
        TopicSubscription("Billing", "C", '"new"."Billing"'),
    ]


def test_unsubscribing_says_what_it_ended(session: Session) -> None:
    session.run(ROUTING.subscribe("Billing", ["A", "B"], BILLING))
    session.run(ROUTING.subscribe("Shipping", ["A"], BILLING))

    assert session.run(ROUTING.unsubscribe("Billing", ["A", "never"])) == ["A"]
    assert [(one.endpoint, one.topic) for one in session.run(ROUTING.list())] == [
        ("Billing", "B"),
        ("Shipping", "A"),
    ]


def test_names_may_hold_any_characters(session: Session) -> None:
    address = QueueAddress('sch"ema.', "Queue; drop table")
    session.run(ROUTING.subscribe("Kraków 🚀", ["Żółw+Nested`1"], address))

    assert session.run(ROUTING.subscribers(["Żółw+Nested`1"])) == (address,)


@pytest.mark.one_version
async def test_many_may_create_it_at_once(backend: Backend) -> None:
    sessions = await asyncio.gather(*(backend.database.connect() for _ in range(8)))

    await asyncio.gather(*(create_subscriptions(session, TABLE) for session in sessions))

    assert await backend.tables() == ["subscriptionrouting"]
    await asyncio.gather(*(session.close() for session in sessions))


@pytest.mark.one_version
async def test_a_schema_that_is_missing_is_named_and_not_created(backend: Backend) -> None:
    session = await backend.database.connect()

    with pytest.raises(rowbus.ConfigurationError, match=r"'shop' does not exist"):
        await create_subscriptions(session, QueueAddress("shop", "SubscriptionRouting"))
    await session.close()


def test_endpoints_that_subscribe_to_the_same_in_different_orders_never_deadlock(
    session: Session, database: str
) -> None:
    """Instances of one endpoint start together, and may know their handlers in different orders."""
    topics = [f"Event{number}" for number in range(20)]
    failures: list[BaseException] = []

    def subscribe(names: list[str], schema: str) -> None:
        try:
            with psycopg.connect(database, autocommit=True) as connection:
                for number in range(50):
                    queue = QueueAddress(f"{schema}{number}", "Billing")
                    Session(connection).run(ROUTING.subscribe("Billing", names, queue))
        except Exception as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    threads = [
        threading.Thread(target=subscribe, args=(names, schema))
        for names, schema in ((topics, "a"), (topics[::-1], "b"), (topics[10:] + topics[:10], "c"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures


def test_topics_are_those_of_the_event_then_of_its_parents_each_once() -> None:
    assert topics_of(("A", "B", "A")) == (
        "A",
        "B",
        "NServiceBus.IEvent",
        "NServiceBus.IMessage",
        "System.Object",
    )


@every(
    "endpoint, topic",
    [("", "A"), ("Billing", ""), ("B" * 201, "A"), ("Billing", "A\0"), ("Billing", "A" * 201)],
)
def test_what_does_not_fit_is_refused(endpoint: str, topic: str) -> None:
    check_subscription("B" * 200, ["A" * 200], BILLING)

    with pytest.raises(rowbus.ConfigurationError):
        check_subscription(endpoint, ["Fits", topic], BILLING)
