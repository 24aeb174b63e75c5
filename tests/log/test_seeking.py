"""Moving a consumer: to a tick, to a time, to the end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import rowbus
from rowbus.errors import ConfigurationError
from tests.log.orders import QUICK, Orders, note, until


async def consume(orders: Orders, count: int) -> list[str]:
    """Have the consumer go on from where it is, and say what it was given."""
    orders.connection.execute("delete from seen")
    log = orders.log()

    @log.consumer("one", settings=replace(QUICK, max_retries=0))
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)

    async with log:
        await until(lambda: len(orders.seen()) >= count)
        await orders.finished()
    return orders.seen()


@pytest.fixture
def ticks(orders: Orders) -> list[int]:
    """Register the consumer, deliver a, b and c in a batch each, and give the ticks: before and after each."""
    orders.register("one")
    (first,) = orders.one("select max(tick_id) from pgq.tick")
    return [first, orders.deliver("a"), orders.deliver("b"), orders.deliver("c")]


async def test_a_consumer_moved_back_to_a_tick_is_given_again_what_followed_it(
    orders: Orders, ticks: list[int]
) -> None:
    assert await consume(orders, 3) == ["a", "b", "c"]
    assert orders.log().seek("one", tick=ticks[1]) == ticks[1]
    assert await consume(orders, 2) == ["b", "c"]


async def test_a_consumer_moved_to_the_end_skips_what_there_was(orders: Orders, ticks: list[int]) -> None:
    assert orders.log().seek("one") == ticks[-1]
    orders.deliver("d")
    assert await consume(orders, 1) == ["d"]


async def test_a_consumer_moved_to_a_time_is_given_what_was_ticked_after_it(
    orders: Orders, ticks: list[int]
) -> None:
    (time,) = orders.one("select tick_time from pgq.tick where tick_id = %s", ticks[2])
    log = orders.log()
    orders.connection.execute(f"alter database {orders.connection.info.dbname} set timezone = 'Asia/Tokyo'")
    for given in (time, time.astimezone(UTC).replace(tzinfo=None)):
        assert log.seek("one", time=given) == ticks[2]
        assert await consume(orders, 1) == ["c"]
    with pytest.raises(ConfigurationError, match="without a zone it is UTC"):
        log.seek("one", time="2026-11-30")  # type: ignore[arg-type]  # a mistake
    with pytest.raises(ConfigurationError, match="the number of a tick"):
        log.seek("one", tick="1")  # type: ignore[arg-type]  # as above
    assert log.seek("one", time=time - timedelta(microseconds=1)) == ticks[1]
    assert await consume(orders, 2) == ["b", "c"]


def test_a_position_that_is_not_retained_is_lost(orders: Orders, ticks: list[int]) -> None:
    log = orders.log()
    for wanted in (0, ticks[-1] + 1):
        with pytest.raises(rowbus.LostPositionError) as caught:
            log.seek("one", tick=wanted)
        assert (caught.value.tick, caught.value.oldest) == (wanted, ticks[0])
    with pytest.raises(rowbus.LostPositionError, match="No tick that old"):
        log.seek("one", time=datetime(2000, 1, 1, tzinfo=UTC))
    assert orders.position() == (ticks[0], None)


async def test_a_consumer_is_moved_to_a_tick_or_to_a_time_not_to_both(
    orders: Orders, ticks: list[int]
) -> None:
    now = datetime.now(UTC)
    with pytest.raises(ConfigurationError, match="either to a tick or to a time"):
        orders.log().seek("one", tick=ticks[0], time=now)
    with pytest.raises(ConfigurationError, match="either to a tick or to a time"):
        await rowbus.AsyncLog(orders.dsn, "orders").seek("one", tick=ticks[0], time=now)


def test_moving_who_is_not_registered_says_so(orders: Orders) -> None:
    with pytest.raises(rowbus.ConsumerNotFoundError) as caught:
        orders.log().seek("nobody")
    assert (caught.value.log, caught.value.consumer) == ("orders", "nobody")
    with pytest.raises(rowbus.LogNotFoundError):
        rowbus.Log(orders.dsn, "nowhere").seek("one")
    for lane in range(2):
        orders.register(f"wide#{lane}")
    with pytest.raises(rowbus.ConsumerNotFoundError, match="its lanes, each by itself: wide#0, wide#1"):
        orders.log().seek("wide")


def test_a_member_is_not_moved_for_its_batch_would_be_no_ones(orders: Orders) -> None:
    orders.one("select pgq_coop.register_subconsumer('orders', 'one', 'member')")
    orders.deliver("a")
    batch = orders.one("select pgq_coop.next_batch('orders', 'one', 'member')")
    with pytest.raises(ConfigurationError, match=r"one\.member is a member of one"):
        orders.log().seek("one.member")
    assert orders.one("select pgq_coop.next_batch('orders', 'one', 'member')") == batch


def test_moving_happens_in_the_users_transaction(orders: Orders, ticks: list[int]) -> None:
    with psycopg.connect(orders.dsn) as connection:
        rowbus.Log(connection, "orders").seek("one", tick=ticks[2])
        assert orders.position() == (ticks[0], None)
        connection.rollback()
        rowbus.Log(connection, "orders").seek("one", tick=ticks[2])
    assert orders.position() == (ticks[2], None)


async def test_the_asynchronous_twin_does_the_same(orders: Orders, ticks: list[int]) -> None:
    log = rowbus.AsyncLog(orders.dsn, "orders")
    assert await log.seek("one", tick=ticks[1]) == ticks[1]
    assert await log.seek("one") == ticks[-1]
    with pytest.raises(rowbus.LostPositionError):
        await log.seek("one", tick=0)
    with pytest.raises(rowbus.ConsumerNotFoundError):
        await log.seek("nobody")
    assert await log.unregister("one")
    assert not await log.unregister("one")


def test_an_unregistered_consumer_is_gone(orders: Orders) -> None:
    orders.register("one")
    log = orders.log()
    assert log.unregister("one")
    assert not log.unregister("one")
