"""Exactly once into a database that is not the log's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

import rowbus
from tests.log.orders import QUICK, Orders, texts

TIME = datetime(2026, 1, 1, tzinfo=UTC)
BATCH = rowbus.Batch(7, 1, 2, TIME, TIME)


def event(number: int) -> rowbus.Event:
    return rowbus.Event(number, TIME, 1, None, "kind", str(number))


@pytest.fixture
def target(log_database: str) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection to the target: here the same database, but none of the consumer's transactions."""
    with psycopg.connect(log_database, autocommit=True) as connection:
        yield connection


async def test_what_the_target_applied_before_a_crash_is_not_applied_again(
    orders: Orders, target: psycopg.Connection[Any]
) -> None:
    target.execute("create table applied (data text)")
    log, calls = orders.log(), list[int]()

    @log.consumer("one", batch=True, settings=replace(QUICK, chunk_size=4))
    def one(events: list[rowbus.Event], context: rowbus.SyncLogContext) -> None:
        with target.transaction():
            for event in rowbus.Deduplication(target, "one").new_events(context.batch, events):
                target.execute("insert into applied values (%s)", [event.data])
        calls.append(len(events))
        if len(calls) in {1, 3}:
            orders.end_sessions()  # after the target's commit, before ours

    async with log:
        orders.deliver(*texts(range(6)))
        await orders.finished()
    assert sum(calls) > 6  # what was lost came again
    assert [data for (data,) in target.execute("select data from applied").fetchall()] == texts(range(6))


def test_events_are_new_once_and_again_after_a_rollback(target: psycopg.Connection[Any]) -> None:
    applied = rowbus.Deduplication(target, "one")
    with target.transaction(force_rollback=True):
        assert applied.new_events(BATCH, [event(1)]) == [event(1)]
    assert applied.new_events(BATCH, [event(2), event(1)]) == [event(2), event(1)]
    assert applied.new_events(BATCH, [event(1), event(3)]) == [event(3)]
    assert rowbus.Deduplication(target, "two").new_events(BATCH, [event(1)]) == [event(1)]


def test_a_batch_is_done_once(target: psycopg.Connection[Any]) -> None:
    applied = rowbus.Deduplication(target, "one")
    assert not applied.is_batch_done(BATCH)
    assert applied.set_batch_done(BATCH)
    assert applied.is_batch_done(BATCH)
    assert not applied.set_batch_done(BATCH)


def test_the_last_tick_is_remembered(target: psycopg.Connection[Any]) -> None:
    applied = rowbus.Deduplication(target, "one", "part")
    assert applied.last_tick() is None
    applied.set_last_tick(5)
    assert applied.last_tick() == 5
    applied.set_last_tick(None)
    assert applied.last_tick() is None


async def test_the_asynchronous_twin_does_the_same(log_database: str) -> None:
    async with await psycopg.AsyncConnection.connect(log_database, autocommit=True) as target:
        applied = rowbus.AsyncDeduplication(target, "one")
        assert await applied.new_events(BATCH, [event(1)]) == [event(1)]
        assert await applied.new_events(BATCH, [event(1)]) == []
        assert await applied.set_batch_done(BATCH)
        assert await applied.is_batch_done(BATCH)
        await applied.set_last_tick(5)
        assert await applied.last_tick() == 5
