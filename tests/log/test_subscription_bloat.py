"""Consumers beside an old snapshot, which keeps every dead version of their rows.

Each batch updates pgq.subscription twice (docs/decisions/0011-subscriptions-stay-hot.md). Invariant: finding the live
version reads neither the whole table nor the entries that its index has for the dead ones; and wherever it is, it is
found.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.fixtures.processes import await_blocked
from tests.log.queue_q import Connect, consume, insert, scalar, tick

SCANS = (
    "select pg_stat_get_xact_numscans('pgq.subscription'::regclass)"
    " + pg_stat_get_xact_numscans('pgq.subscription_pkey'::regclass)"
)
PAGES = "select pg_relation_size('pgq.subscription') / 8192"


@pytest.fixture
def held(connect: Connect) -> Iterator[None]:
    """Hold a snapshot."""
    holder = connect()
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select from pgq.queue")
    yield
    holder.rollback()


def grow(queue: psycopg.Connection) -> None:
    """Make a consumer "d" leave pages full of dead versions behind it."""
    queue.execute("select pgq.register_consumer('q', 'd')")
    tick(queue)
    while int(str(scalar(queue, PAGES))) < 7:
        batch = scalar(queue, "select pgq.next_batch('q', 'd')")
        queue.execute("select pgq.finish_batch(%s), pgq.register_consumer_at('q', 'd', 1)", [batch])


def scans_of_a_batch(queue: psycopg.Connection) -> int:
    """Give how often a batch had the table or its index scanned."""
    insert(queue, "one")
    tick(queue)
    with queue.transaction():  # the counters of a session are reported, and begin anew, between transactions
        before = scalar(queue, SCANS)
        assert consume(queue) == ["one"]
        after = scalar(queue, SCANS)
    assert isinstance(before, int)
    assert isinstance(after, int)
    return after - before


@pytest.mark.usefixtures("held")
def test_a_batch_scans_neither_the_subscriptions_nor_their_index(queue: psycopg.Connection) -> None:
    for _ in range(8):  # the server keeps its plans from the sixth time on
        scans_of_a_batch(queue)
    assert scans_of_a_batch(queue) == 0


@pytest.mark.usefixtures("held")
def test_a_session_finds_what_another_one_has_updated_last(
    queue: psycopg.Connection, connect: Connect
) -> None:
    other = connect()
    other.autocommit = True
    for session in (queue, other) * 8:
        assert scans_of_a_batch(session) == 0


@pytest.mark.usefixtures("held")
def test_a_batch_taken_long_ago_is_found_behind_the_dead_versions(
    queue: psycopg.Connection, connect: Connect
) -> None:
    insert(queue, "one")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    grow(queue)

    other = connect()
    assert scalar(other, "select pgq.next_batch('q', 'c')") == batch
    assert scalar(other, "select count(*) from pgq.get_batch_events(%s)", batch) == 1
    assert scalar(other, "select pgq.finish_batch(%s)", batch) == 1


def test_a_wrong_guess_where_a_subscription_is_misleads_nobody(queue: psycopg.Connection) -> None:
    queue.execute("select pgq.register_consumer('q', 'd')")
    for guess in ("(0,1)", "(0,2)", "(7,1)", "(0,0)", ""):
        queue.execute("select set_config('pgq.subscription_place', %s, false)", [guess])
        insert(queue, guess)
        tick(queue)
        assert [consume(queue, "d"), consume(queue, "c")] == [[guess], [guess]]


def test_a_batch_that_is_rolled_back_is_given_again(queue: psycopg.Connection) -> None:
    insert(queue, "one")
    tick(queue)
    with queue.transaction(force_rollback=True):
        assert consume(queue) == ["one"]
    assert consume(queue) == ["one"]


def test_a_batch_is_finished_though_its_consumer_gives_a_sign_of_life_meanwhile(
    queue: psycopg.Connection, connect: Connect
) -> None:
    insert(queue, "one")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    alive, finishing = connect(), connect()
    alive.execute("update pgq.subscription set sub_active = now() where sub_batch = %s", [batch])
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(scalar, finishing, "select pgq.finish_batch(%s)", batch)
        await_blocked(queue, finishing)
        alive.commit()
        assert waiting.result() == 1
