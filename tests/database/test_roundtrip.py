"""Round trips keep plans on the server, but not for ever: a queue that was empty fills up."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import psycopg
import pytest
from psycopg.pq import ExecStatus

from rowbus.database.postgresql import roundtrip
from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.handler_connection import HandlerConnection
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.database.postgresql.roundtrip import SETTLED, Roundtrips, _Request
from rowbus.database.statements import control
from rowbus.errors import QueueNotFoundError, StorageError
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.fixtures.sessions import mislead, put, received

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
    await receive(receiver, queue, times=SETTLED)
    mislead(session, "Sales")  # which gives the plan up: the server makes another, without our help
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
    await psycopg.AsyncRawCursor(receiver.connection).execute("deallocate all")  # which tells nothing

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

    cursor = await receiver.connection.execute(
        "select count(*) from pg_prepared_statements where name like 'rowbus%'"
    )
    assert await cursor.fetchone() == (5,)


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


FAILING = control(b"select 1/0", "Failed on purpose")
EVERYTHING = control(b"select * from changing", "Failed to read the table that changes")


async def test_a_failure_says_more_than_what_comes_after_it(receiver: ReceiveSession) -> None:
    done, failure, ended = map(
        receiver.connection.pgconn.make_empty_result,
        (ExecStatus.COMMAND_OK, ExecStatus.FATAL_ERROR, ExecStatus.FATAL_ERROR),
    )
    last = [_Request(FAILING, ())]
    roundtrips = Roundtrips(receiver.connection)

    assert roundtrips._settle(last, [failure, ended])[0] is failure
    assert roundtrips._settle(last, [done, ended])[0] is ended


async def plans_of(receiver: ReceiveSession) -> list[tuple[str]]:
    cursor = await receiver.connection.execute(
        "select name from pg_prepared_statements where name like 'rowbus%' order by name"
    )
    return [(name,) for (name,) in await cursor.fetchall()]


async def test_a_round_trip_that_fails_before_it_makes_a_plan_anew_costs_no_later_one(
    receiver: ReceiveSession, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roundtrip, "STALE_AFTER", 0.0)
    await receive(receiver, queue)
    for _ in range(3):
        with pytest.raises(StorageError, match="division by zero"):
            await receiver.run_together([FAILING, queue.receive(1, FROM_THE_START)])
        await receive(receiver, queue)


async def test_a_round_trip_that_fails_between_plans_leaves_those_it_made_and_those_it_did_not(
    receiver: ReceiveSession, session: Session, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roundtrip, "MOST_PLANS", 3)
    for number in range(6):
        session.connection.execute(f'create table "Other{number}" (like "Sales" including all)'.encode())
    others = [
        QueueTable(queue.address.neighbour(f"Other{number}")).receive(1, FROM_THE_START)
        for number in range(6)
    ]
    for place in range(len(others)):
        statements = [*others[:place], FAILING, *others[place:], *others]
        with pytest.raises(StorageError, match="division by zero"):
            await receiver.run_together(statements)
        await receiver.run_together([*others, *reversed(others)])
        assert len(await plans_of(receiver)) == 3


async def test_a_table_that_changes_under_a_plan_fails_once(
    receiver: ReceiveSession, session: Session
) -> None:
    session.connection.execute("create table changing (one int)")
    for column in ("two", "three"):
        await receiver.run_together([EVERYTHING])
        session.connection.execute(f"alter table changing add {column} int".encode())
        with pytest.raises(StorageError, match="must not change result type"):
            await receiver.run_together([EVERYTHING])
        with pytest.raises(StorageError, match="division by zero"):  # the plan is to be made anew, and is not
            await receiver.run_together([FAILING, EVERYTHING])


async def test_an_attempt_is_undone_when_there_is_no_room_for_the_plan_that_undoes_it(
    receiver: ReceiveSession, queue: QueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roundtrip, "MOST_PLANS", 1)
    await received(receiver, queue)
    with pytest.raises(psycopg.errors.DivisionByZero):
        await receiver.handler_connection.execute("select 1/0")

    assert await receiver.undo_attempt()


@pytest.mark.parametrize("in_pipeline", [False, True])
async def test_plans_outlive_a_deallocation_that_fails(
    receiver: ReceiveSession, queue: QueueTable, *, in_pipeline: bool
) -> None:
    """The driver deallocates all after a rollback that it sees; in a spoilt transaction the server refuses."""
    handler = receiver.handler_connection
    for _ in range(2):
        await received(receiver, queue)
        await handler.execute("select 1", prepare=True)
        with suppress(psycopg.Error):
            async with handler.pipeline() if in_pipeline else nullcontext():
                with suppress(psycopg.errors.DivisionByZero):
                    await handler.execute("select 1/0")
                await deallocate_all(handler)
        await receiver.rollback()


async def deallocate_all(connection: HandlerConnection) -> None:
    """Do what the driver does when it sees a rollback."""
    connection._prepared.clear()
    await connection.wait(connection._prepared.maintain_gen(connection))


async def test_plans_that_are_deallocated_one_by_one_cost_one_failure_each(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    await receive(receiver, queue)
    name = (await plans_of(receiver))[0][0]
    await psycopg.AsyncRawCursor(receiver.connection).execute(f"deallocate {name}".encode())

    with pytest.raises(StorageError, match="does not exist"):
        await receive(receiver, queue)
    await receiver.rollback()
    await receive(receiver, queue, times=2)
