"""Reading what a log retains, without being a consumer."""

from __future__ import annotations

import psycopg
import pytest

import rowbus
from tests.log.orders import Orders, texts


@pytest.fixture
def ticks(orders: Orders) -> list[int]:
    """Deliver a, b and c in a batch each, and give the ticks: before and after each."""
    (first,) = orders.one("select max(tick_id) from pgq.tick")
    return [first, orders.deliver("a"), orders.deliver("b"), orders.deliver("c")]


def datas(events: object) -> list[str | None]:
    return [event.data for event in events]  # type: ignore[attr-defined] # any iterable of events


def test_the_ticks_that_are_retained_are_listed(orders: Orders, ticks: list[int]) -> None:
    log = orders.log()
    assert [tick.id for tick in log.ticks()] == ticks
    assert [tick.id for tick in log.ticks(after=ticks[1])] == ticks[2:]
    times = [tick.time for tick in log.ticks()]
    assert times == sorted(times)


def test_a_range_is_what_lies_behind_its_first_tick_up_to_its_last(orders: Orders, ticks: list[int]) -> None:
    log = orders.log()
    assert datas(log.read(ticks[0], ticks[1])) == ["a"]
    assert datas(log.read(ticks[1], ticks[3])) == ["b", "c"]
    assert datas(log.read(ticks[1], ticks[1])) == []


def test_without_bounds_all_that_is_retained_and_ticked_is_read(orders: Orders, ticks: list[int]) -> None:
    orders.put("not ticked")
    log = orders.log()
    assert datas(log.read()) == ["a", "b", "c"]
    assert datas(log.read(ticks[2])) == ["c"]
    assert datas(log.read(to_tick=ticks[2])) == ["a", "b"]


def test_reading_can_be_repeated_and_takes_nothing_from_consumers(orders: Orders, ticks: list[int]) -> None:
    orders.register("one")
    log = orders.log()
    assert list(log.read()) == list(log.read())
    assert orders.position() == (ticks[-1], None)


def test_events_that_are_read_are_those_that_consumers_are_given(orders: Orders) -> None:
    orders.register("one")
    orders.connection.execute("select pgq.insert_event('orders', 'kind', 'data', '1', '2', '3', null)")
    orders.tick()
    (batch,) = orders.one("select pgq.next_batch('orders', 'one')")
    assert list(orders.log().read()) == orders.all("select * from pgq.get_batch_events(%s)", batch)


@pytest.mark.parametrize("wanted", [(0, None), (None, 99), (99, None)])
def test_a_range_that_is_not_retained_is_lost(
    orders: Orders, ticks: list[int], wanted: tuple[int | None, int | None]
) -> None:
    with pytest.raises(rowbus.LostPositionError) as caught:
        list(orders.log().read(*wanted))
    assert caught.value.oldest == ticks[0]


def test_reading_a_log_that_is_not_there_says_so(orders: Orders) -> None:
    with pytest.raises(rowbus.LogNotFoundError):
        list(rowbus.Log(orders.dsn, "nowhere").read())
    with pytest.raises(rowbus.LogNotFoundError):
        rowbus.Log(orders.dsn, "nowhere").ticks()


def test_a_large_range_is_fetched_piece_by_piece(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, ticks: list[int]
) -> None:
    monkeypatch.setattr("rowbus.log.log.READ_SIZE", 7)
    orders.deliver(*texts(range(50)))
    assert datas(orders.log().read(ticks[-1])) == texts(range(50))


def test_reading_may_be_broken_off(orders: Orders, ticks: list[int]) -> None:
    with psycopg.connect(orders.dsn) as connection:
        log = rowbus.Log(connection, "orders")
        reading = log.read()
        assert next(reading).data == "a"
        reading.close()
        assert datas(log.read(ticks[1])) == ["b", "c"]
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_consumers_retries_are_read_when_asked_for(orders: Orders) -> None:
    orders.register("one")
    start = orders.deliver("a")
    (batch,) = orders.one("select pgq.next_batch('orders', 'one')")
    orders.connection.execute(
        "select pgq.event_retry(%s::bigint, ev_id, 0) from pgq.get_batch_events(%s)", [batch, batch]
    )
    orders.connection.execute("select pgq.finish_batch(%s)", [batch])
    orders.redeliver()
    log = orders.log()
    assert datas(log.read(start)) == []
    assert [(event.data, event.retry) for event in log.read(start, consumer="one")] == [("a", 1)]


async def test_the_asynchronous_twin_reads_the_same(orders: Orders, ticks: list[int]) -> None:
    log = rowbus.AsyncLog(orders.dsn, "orders")
    assert [event.data async for event in log.read(ticks[1])] == ["b", "c"]
    assert await log.ticks() == orders.log().ticks()
    async with await psycopg.AsyncConnection.connect(orders.dsn) as connection:
        assert [event.data async for event in rowbus.AsyncLog(connection, "orders").read()] == ["a", "b", "c"]
