"""Rates as values, which messages pass, and what cannot have a limit; no database."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import rowbus
from rowbus.testing import run_handlers
from rowbus.transport.limits.decisions import LimitedMessage, TokenGrant, ask, judge
from rowbus.transport.limits.places import Returns
from rowbus.transport.limits.rate import Bucket, bucket_key
from tests.fixtures.every import every

pytestmark = pytest.mark.unit
POSTGRESQL = "postgresql://localhost/shop"
PER_SECOND = Bucket("A", 1.0, 1)
OTHER = Bucket("B", 2.0, 1)


@rowbus.command("Limits.Ship")
@dataclass
class Ship:
    customer: str


def limited(endpoint: rowbus.Endpoint) -> rowbus.Endpoint:
    @endpoint.handler(limit=rowbus.RateLimit("1/second", by=lambda message: message.customer))
    async def ship(message: Ship) -> None:
        assert message.customer

    return endpoint


@every(
    "rate, interval, at_once",
    [
        ("10/second", 0.1, 1),
        ("1000/second", 0.001, 100),
        ("100/minute", 0.6, 1),
        (" 7200 / hour ", 0.5, 1),
        ("1/day", 86400.0, 1),
        ("0.5/second", 2.0, 1),
    ],
)
def test_a_rate_is_a_number_and_a_span(rate: str, interval: float, at_once: int) -> None:
    limit = rowbus.RateLimit(rate)

    assert limit.interval == pytest.approx(interval)
    assert limit.at_once == at_once
    assert rowbus.RateLimit(rate, burst=7).at_once == 7


@every("rate", ["10", "10/s", "0/second", "-1/second", "fast", "1/week", "0.01/day", ""])
def test_what_is_no_rate_is_refused(rate: str) -> None:
    with pytest.raises(rowbus.ConfigurationError, match=r"is no rate: write a number and a span"):
        rowbus.RateLimit(rate)


def test_a_burst_is_at_least_one() -> None:
    with pytest.raises(rowbus.ConfigurationError, match=r"burst is 0; it must be from 1"):
        rowbus.RateLimit("1/second", burst=0)


@every("text", ["a" * 300, "nul\0", "sha256:x", "line\nbreak", "\ud800"])
def test_a_key_that_the_table_could_not_hold_has_a_digest(text: str) -> None:
    assert len(bucket_key(text)) == 71
    assert bucket_key(text) != bucket_key(text + "!")


def test_tokens_go_to_those_who_waited_and_then_in_order() -> None:
    messages = [
        LimitedMessage("late", (PER_SECOND,), waited=True),
        LimitedMessage("first", (PER_SECOND,), waited=False),
        LimitedMessage("second", (PER_SECOND,), waited=False),
    ]
    (asked,) = ask(messages)
    verdict = judge(messages, {PER_SECOND: TokenGrant(1, 0, 1.0, 3.0)}, 3600)

    assert (asked.waited, asked.fresh) == (1, 2)
    assert verdict.passing == ("late",)
    assert verdict.deferred == {"first": 3.0, "second": 4.0}


def test_a_message_with_two_limits_needs_both_and_gives_the_other_token_back() -> None:
    message = LimitedMessage("one", (PER_SECOND, OTHER), waited=False)
    verdict = judge(
        [message], {PER_SECOND: TokenGrant(0, 1, 1, 1), OTHER: TokenGrant(0, 0, 2.0, 9000.0)}, 3600
    )

    assert verdict.passing == ()
    assert verdict.deferred == {"one": 3600}
    assert verdict.unused == {PER_SECOND: 1}


def test_two_handlers_of_a_type_have_one_limit() -> None:
    sales = limited(rowbus.Endpoint("Sales", database=POSTGRESQL))
    with pytest.raises(rowbus.ConfigurationError, match=r"Limits.Ship has a limit already"):
        limited(sales)


async def test_a_limit_on_sql_server_is_refused_with_the_way_out() -> None:
    sales = limited(rowbus.Endpoint("Sales", database="mssql://sa:secret@host:1433/shop"))
    with pytest.raises(rowbus.ConfigurationError, match=r"these work on PostgreSQL alone.*concurrency"):
        await sales.start()


async def test_a_handlers_limit_needs_a_transaction_and_delayed_delivery() -> None:
    none = rowbus.EndpointSettings(transaction_mode=rowbus.TransactionMode.NONE)
    with pytest.raises(rowbus.ConfigurationError, match=r"In mode NONE a message is gone"):
        await limited(rowbus.Endpoint("Sales", database=POSTGRESQL, settings=none)).start()
    with pytest.raises(rowbus.ConfigurationError, match=r"nowhere to keep its messages"):
        await limited(rowbus.Endpoint("Sales", database=POSTGRESQL, delayed_delivery=None)).start()


async def test_handlers_run_without_a_database_know_no_limit_but_find_the_key() -> None:
    sales = limited(rowbus.Endpoint("Sales", database=POSTGRESQL))

    assert [(await run_handlers(sales, Ship("ada"))).error for _ in range(3)] == [None] * 3
    broken = rowbus.Endpoint("Sales", database=POSTGRESQL)
    broken.handler(limit=rowbus.RateLimit("1/second", by=lambda message: message.nothing))(accept)
    assert isinstance((await run_handlers(broken, Ship("ada"))).error, AttributeError)


async def accept(message: Ship) -> None:
    assert message.customer


def test_a_limit_of_concurrency_that_cannot_be_is_refused() -> None:
    for most in (0, 1001, "2", True):
        with pytest.raises(rowbus.ConfigurationError, match=r"most is .*; give a number from 1 to 1000"):
            rowbus.Concurrency(most)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(rowbus.ConfigurationError, match="give the name of a field"):
        rowbus.Concurrency(1, by="")


async def test_a_limit_of_concurrency_needs_a_transaction_on_postgresql() -> None:
    refusals = {
        "works on PostgreSQL alone": rowbus.Endpoint("Sales", database="mssql://sa:secret@host:1433/shop"),
        "In mode NONE a message is gone": rowbus.Endpoint(
            "Sales",
            database=POSTGRESQL,
            settings=rowbus.EndpointSettings(transaction_mode=rowbus.TransactionMode.NONE),
        ),
        "nowhere to keep its messages": rowbus.Endpoint("Sales", database=POSTGRESQL, delayed_delivery=None),
        "takes long, so no transaction holds its place": rowbus.Endpoint("Sales", database=POSTGRESQL),
    }
    for reason, sales in refusals.items():

        @sales.handler(limit=rowbus.Concurrency(1), long=reason.startswith("takes long"))
        async def ship(_message: Ship) -> None: ...

        with pytest.raises(rowbus.ConfigurationError, match=reason):
            await sales.start()


def test_a_key_may_be_named_by_its_field() -> None:
    limit = rowbus.RateLimit("1/second", by="customer")
    assert limit.bucket("Limits.Charge", {"customer": "A"}).key == "Limits.Charge/A"
    with pytest.raises(
        rowbus.HandlerError, match=r"limit of Limits.Charge is by customer, and this message has no"
    ):
        limit.bucket("Limits.Charge", {})


def test_the_pace_of_those_that_come_again_follows_what_they_find() -> None:
    now = 100.0
    returns = Returns(lambda: now)
    assert [returns.wait("A") for _ in range(3)] == pytest.approx([0.001, 0.002, 0.003])
    assert returns.wait("B") == pytest.approx(0.001)
    for _ in range(20):
        returns.lacked("A")
    now = 200.0
    assert [returns.wait("A") for _ in range(2)] == pytest.approx([1.0, 2.0])
    assert max(returns.wait("A") for _ in range(1000)) == pytest.approx(600.0)
    returns.found("A")
    now = 900.0
    assert returns.wait("A") == pytest.approx(0.5)
