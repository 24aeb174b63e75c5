"""Events whose handler loses its connection: they are isolated, and the others are handled."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import rowbus
from rowbus.log.consumers import chunk_worker
from rowbus.settings import ConsumerSettings
from tests.log.orders import QUICK, Given, Orders, note, several, texts, times, until

NEVER = replace(QUICK, max_retries=0)


async def lose_connection(context: rowbus.LogContext) -> None:
    """Do what `idle_in_transaction_session_timeout`, an operator or the kernel does to a session."""
    await context.connection.execute("select pg_terminate_backend(pg_backend_pid())")


@pytest.mark.parametrize(
    "settings",
    [
        NEVER,
        replace(NEVER, chunk_size=7),
        replace(NEVER, whole_batches=True),
        replace(NEVER, workers=3),
    ],
    ids=["chunk", "small chunks", "whole batch", "workers"],
)
@pytest.mark.parametrize("batch", [False, True], ids=["one by one", "batch"])
async def test_only_the_event_that_breaks_its_connection_is_put_aside(
    orders: Orders, caplog: pytest.LogCaptureFixture, settings: ConsumerSettings, *, batch: bool
) -> None:
    log = orders.log()

    @log.consumer("one", batch=batch, settings=settings, key="data" if settings.workers > 1 else None)
    async def one(given: Given, context: rowbus.LogContext) -> None:
        for event in several(given):
            await note(context, event)
            if event.data == "13":
                await lose_connection(context)

    async with log:
        orders.deliver(*texts(range(20)))
        await orders.finished()
        (dead,) = log.dead_letters("one")
    assert sorted(orders.seen(), key=int) == [data for data in texts(range(20)) if data != "13"]
    assert dead.event.data == "13"
    assert f"Event {dead.event.id} was handled alone when its connection broke" in dead.reason
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [f"Event {dead.event.id} of orders/one is a dead letter" in error for error in errors] == [True]


async def test_events_stay_in_order_around_the_one_that_breaks_its_connection(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if event.data == "4":
            await lose_connection(context)

    async with log:
        orders.deliver(*texts(range(9)))
        await orders.finished()
    assert orders.seen() == ["0", "1", "2", "3", "5", "6", "7", "8"]


async def test_what_is_committed_is_not_handled_again_when_a_later_event_breaks_its_connection(
    orders: Orders,
) -> None:
    """Events handled one by one, for the transaction of all failed as a whole, and then one loses its connection."""
    log = orders.log()

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if event.data == "ends it":
            await context.connection.execute("select 1; rollback")
        if event.data == "breaks it":
            await lose_connection(context)

    async with log:
        orders.deliver("0", "ends it", "1", "breaks it", "2")
        await orders.finished()
        dead = [letter.event.data for letter in log.dead_letters("one")]
    assert dead == ["ends it", "breaks it"]
    assert orders.seen() == ["0", "1", "2"]


async def test_an_event_that_breaks_its_connection_is_retried_as_the_policy_says(orders: Orders) -> None:
    log, tried = orders.log(), list[int | None]()

    @log.consumer("one", settings=replace(QUICK, max_retries=2))
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        if event.data == "bad":
            tried.append(event.retry)
            await lose_connection(context)
        await note(context, event)

    async with log:
        orders.deliver("bad")
        for _ in range(3):
            await orders.finished()
            orders.redeliver()
        await orders.finished()
        (dead,) = log.dead_letters("one")
    assert tried == [None, 1, 2]
    assert dead.event.data == "bad"


async def test_an_event_that_breaks_its_connection_once_is_handled(orders: Orders) -> None:
    log, broken = orders.log(), False

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        nonlocal broken
        await note(context, event)
        if event.data == "1" and not broken:
            broken = True
            await lose_connection(context)

    async with log:
        orders.deliver("0", "1", "2")
        await orders.finished()
        assert log.dead_letters("one") == []
    assert orders.seen() == ["0", "1", "2"]


async def test_a_server_that_is_away_counts_against_no_event(orders: Orders) -> None:
    """All sessions end at once, as in a fail-over, while the only event is in hand."""
    log, losses = orders.log(), 2

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        nonlocal losses
        assert event.retry is None
        if losses:
            losses -= 1
            await asyncio.to_thread(orders.end_sessions)
        await note(context, event)

    async with log:
        orders.deliver("a")
        await orders.finished()
        assert log.dead_letters("one") == []
    assert orders.seen() == ["a"]


async def test_short_connections_count_against_no_event(orders: Orders) -> None:
    """A connection is lost, and the server has none to give in its place for a while."""
    database = orders.one("select current_database()")[0]
    orders.connection.execute(
        sql.SQL("create role {} login in role pgq_reader").format(sql.Identifier(database))
    )
    orders.connection.execute(
        sql.SQL("grant all on seen, seen_at_seq to {}").format(sql.Identifier(database))
    )
    log, lost = rowbus.Log(make_conninfo(orders.dsn, user=database), "orders"), asyncio.Event()

    def limit(connections: int) -> None:
        command = sql.SQL("alter role {} connection limit {}")
        orders.connection.execute(command.format(sql.Identifier(database), connections))

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        if not lost.is_set():
            lost.set()
            limit(0)
            await lose_connection(context)
        await note(context, event)

    try:
        async with log:
            orders.deliver("a", "b")
            async with asyncio.timeout(20):
                await lost.wait()
            await until(lambda: not orders.all("select from pg_stat_activity where usename = %s", database))
            limit(-1)
            await orders.finished()
            assert log.dead_letters("one") == []
        assert orders.seen() == ["a", "b"]
    finally:
        orders.connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(database)))
        orders.connection.execute(sql.SQL("drop role {}").format(sql.Identifier(database)))


async def test_a_full_disk_counts_against_no_event(orders: Orders) -> None:
    """The handler's own statement finds the disk full, more often than the policy retries."""
    log, calls = orders.log(), 0

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        nonlocal calls
        calls += 1
        if calls <= 3:
            await context.connection.execute("do $$ begin raise sqlstate '53100'; end $$")
        await note(context, event)

    async with log:
        orders.deliver("a", "b")
        await orders.finished()
        assert log.dead_letters("one") == []
    assert orders.seen() == ["a", "b"]


async def test_an_event_that_finds_the_server_short_for_too_long_has_failed(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_worker, "PATIENCE", 0.0)
    log = orders.log()

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        if event.data == "too much":
            await context.connection.execute("do $$ begin raise sqlstate '53100'; end $$")
        await note(context, event)

    async with log:
        orders.deliver("a", "too much", "b")
        await orders.finished()
        (dead,) = log.dead_letters("one")
    assert dead.event.data == "too much"
    assert orders.seen() == ["a", "b"]


async def test_a_healthy_consumer_notes_nothing(orders: Orders) -> None:
    orders.connection.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'noted'; end $$; "
        "create trigger refuse before insert or update of bp_tried on pgq.batch_position "
        "for each row when (new.bp_tried is not null) execute function refuse()"
    )
    log = orders.log()

    @log.consumer("one", settings=replace(QUICK, chunk_size=2))
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if event.data == "3":
            raise ValueError

    async with log:
        orders.deliver(*texts(range(9)))
        await orders.finished()
    assert len(orders.seen()) == 8


async def test_a_batch_is_finished_only_by_who_has_marked_it(orders: Orders) -> None:
    """The first has the batch in hand as one chunk; the second commits a part of it meanwhile, and is then stopped."""
    first, second = orders.log(), orders.log()
    first_in_hand, go_on, second_in_hand = asyncio.Semaphore(0), asyncio.Event(), asyncio.Semaphore(0)

    @first.consumer("one", settings=replace(QUICK, stand_by=False))
    async def whole(event: rowbus.Event, context: rowbus.LogContext) -> None:
        first_in_hand.release()
        await go_on.wait()
        await note(context, event)

    @second.consumer("one", settings=replace(QUICK, stand_by=False, chunk_size=1))
    async def part(event: rowbus.Event, context: rowbus.LogContext) -> None:
        second_in_hand.release()
        if event.data == "b":
            await asyncio.Event().wait()
        await note(context, event)

    async with first:
        orders.deliver("a", "b")
        await times(first_in_hand)
        await second.start()
        await times(second_in_hand, 2)
        await second.stop(timeout=0)
        assert orders.seen() == ["a"]
        go_on.set()
        await orders.finished()
    assert orders.seen() == ["a", "b"]


def test_the_silence_is_at_least_a_second() -> None:
    with pytest.raises(rowbus.ConfigurationError, match="silence_timeout"):
        ConsumerSettings(silence_timeout=timedelta(milliseconds=999))
