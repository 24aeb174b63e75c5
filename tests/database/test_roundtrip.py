"""Round trips keep plans on the server, but not for ever: a queue that was empty fills up."""

from __future__ import annotations

import pytest

from rowbus.database.postgresql import roundtrip
from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.errors import QueueNotFoundError
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions.lower_bound import FROM_THE_START
from tests.fixtures.sessions import put

BURST = 20_000


async def receive(receiver: ReceiveSession, queue: QueueTable, times: int = 1) -> None:
    for _ in range(times):
        await receiver.begin(queue.receive(1, FROM_THE_START))
        await receiver.rollback()


async def pages_read(receiver: ReceiveSession, session: Session, queue: QueueTable) -> int:
    """Say how many pages of the table one receive reads; a scan reads them all."""
    count = "select pg_stat_get_blocks_fetched('\"Sales\"'::regclass)"
    await receiver.connection.execute("select pg_stat_force_next_flush()")
    before = session.connection.execute(count).fetchone()
    await receive(receiver, queue)
    await receiver.connection.execute("select pg_stat_force_next_flush()")
    after = session.connection.execute(count).fetchone()
    assert before is not None
    assert after is not None
    return int(after[0]) - int(before[0])


async def test_a_plan_made_for_an_empty_queue_is_not_kept_for_a_full_one(
    receiver: ReceiveSession, session: Session, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roundtrip, "STALE_AFTER", 3600.0)
    # Which nearly empty queue is planned as a scan depends on the server's version; here every server does.
    session.connection.execute('alter table "Sales" set (autovacuum_enabled = false)')
    await receiver.connection.execute("set enable_indexscan = off; set enable_bitmapscan = off")
    await receive(receiver, queue, times=10)
    await receiver.connection.execute("reset enable_indexscan; reset enable_bitmapscan")
    put(session, queue, BURST)
    kept = await pages_read(receiver, session, queue)

    monkeypatch.setattr(roundtrip, "STALE_AFTER", 0.0)
    anew = await pages_read(receiver, session, queue)

    assert kept > 100, "the kept plan scans the table, or this test proves nothing"
    assert anew < 20


async def test_a_plan_is_made_anew_under_its_name_so_that_plans_do_not_pile_up(
    receiver: ReceiveSession, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roundtrip, "STALE_AFTER", 0.0)
    await receive(receiver, queue, times=10)

    cursor = await receiver.connection.execute(
        "select count(*), count(distinct name) from pg_prepared_statements where statement like 'delete%'"
    )
    assert await cursor.fetchone() == (1, 1)


async def test_plans_that_somebody_deallocated_are_made_anew_after_one_failure(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    await receive(receiver, queue)
    await receiver.connection.execute("deallocate all")

    with pytest.raises(Exception, match="does not exist"):
        await receive(receiver, queue)
    await receive(receiver, queue)


async def test_plans_for_many_queues_do_not_pile_up_on_the_server(
    receiver: ReceiveSession, session: Session, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roundtrip, "MOST_PLANS", 5)
    for number in range(12):
        session.connection.execute(f'create table "Other{number}" (like "Sales" including all)'.encode())
    others = [QueueTable(queue.address.neighbour(f"Other{number}")) for number in range(12)]
    for other in (*others, *reversed(others), queue):
        await receive(receiver, other)

    plans = await receiver.connection.execute(
        "select count(*) from pg_prepared_statements where name like 'rowbus%'"
    )
    assert await plans.fetchone() == (5,)


async def test_a_plan_that_could_not_leave_is_remembered(
    receiver: ReceiveSession, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roundtrip, "MOST_PLANS", 1)
    missing = QueueTable(queue.address.neighbour("Missing"))
    await receive(receiver, queue)
    for _ in range(3):
        with pytest.raises(QueueNotFoundError):
            await receive(receiver, missing)
        await receiver.rollback()
        await receive(receiver, queue)
