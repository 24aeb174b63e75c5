"""Statements that take the oldest rows use an index under any statistics; those of handlers are planned freely."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from uuid import UUID

import psycopg
import pytest
from psycopg.pq import DiagnosticField
from psycopg.pq.abc import PGconn

from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.database.postgresql.roundtrip import PLANNED_EACH_TIME, SETTLED
from rowbus.database.statements import control
from rowbus.errors import QueueNotFoundError
from rowbus.messages.address import QueueAddress
from rowbus.transport.delayed.mover import open_session
from rowbus.transport.delayed.policy import PassedOver
from rowbus.transport.delayed.postgresql import DelayedTable
from rowbus.transport.queues.lookout import CONFIGURE
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.fixtures.sessions import FILL_DELAYED, FILL_QUEUE, answers, listening_to, mislead, put, run

BACKLOG = 3_000
EXPLAINED = "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_level = warning"
SETTINGS = "select name, setting from pg_settings where name ~ '^enable_|^jit$|^cpu_' order by name"
SLOW = re.compile(r"Seq Scan on|Bitmap Heap Scan|->  Sort")


def _stay(_session: Session, _table: str) -> None:
    """Leave a table as it was made: the server knows nothing of it."""


def _analyse(session: Session, table: str) -> None:
    run(session, f'alter table "{table}" set (autovacuum_enabled = false)')
    run(session, f'analyze "{table}"')


def _analyse_small(session: Session, table: str) -> None:
    fill = FILL_DELAYED if table.endswith("Delayed") else FILL_QUEUE
    run(session, f'alter table "{table}" set (autovacuum_enabled = false)')
    run(session, fill.format(f'"{table}"').replace("2000", "40"))
    run(session, f'analyze "{table}"')


def _mislead(session: Session, table: str) -> None:
    mislead(session, table, FILL_DELAYED if table.endswith("Delayed") else FILL_QUEUE)


STATES: dict[str, Callable[[Session, str], None]] = {
    "unknown": _stay,
    "empty": _analyse,
    "stale": _analyse_small,
    "misled": _mislead,
}
every_state = pytest.mark.parametrize("state", STATES)


async def plans_of(session: AsyncSession) -> list[str]:
    """Have a session's plans noted in a list; statements about settings and plans are left out."""
    noted: list[str] = []

    def note(result: object) -> None:
        text = bytes(result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode()  # type: ignore[attr-defined]
        if "plan:" in text and "set_config" not in text:
            noted.append(text)

    try:
        await session.connection.execute(EXPLAINED)
    except psycopg.errors.UndefinedFile:
        pytest.skip("this server has no auto_explain")
    if isinstance(session, ReceiveSession):
        session.connection.own_settings = ()  # what a handler sets, the next commit would put back
    pgconn: PGconn = session.connection.pgconn
    pgconn.notice_handler = note
    return noted


@pytest.fixture
async def slot(database: str, queue: QueueTable) -> AsyncIterator[ReceiveSession]:
    """Give a slot's session; the queue is empty."""
    slot = await Database(database).connect_receiver()
    yield slot
    await slot.close()


@every_state
@pytest.mark.parametrize("most", [1, 100])
async def test_a_receive_reads_by_the_index(
    slot: ReceiveSession, session: Session, queue: QueueTable, state: str, most: int
) -> None:
    STATES[state](session, "Sales")
    put(session, queue, BACKLOG)
    plans = await plans_of(slot)

    for _ in range(SETTLED + 2):
        await slot.begin(queue.receive(most, FROM_THE_START))
        await slot.rollback()

    assert len(plans) == SETTLED + 2
    assert not [plan for plan in plans if SLOW.search(plan)]
    kept = (
        "select generic_plans > 0, custom_plans from pg_prepared_statements where statement ~ 'delete from'"
    )
    assert await (await slot.connection.execute(kept)).fetchall() == [(True, PLANNED_EACH_TIME)]


async def test_the_plan_for_any_values_is_kept_also_where_one_for_these_is_cheaper(
    slot: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    """The server takes `limit $1` for a tenth of all messages: dearer than a hundred, if planning costs little."""
    put(session, queue, 5 * BACKLOG)
    _analyse(session, "Sales")

    for _ in range(SETTLED + 2):
        await slot.begin(queue.receive(100, FROM_THE_START))
        await slot.rollback()

    kept = "select generic_plans, custom_plans from pg_prepared_statements where statement ~ 'delete from'"
    assert await (await slot.connection.execute(kept)).fetchall() == [(3, PLANNED_EACH_TIME)]


@every_state
async def test_a_receive_whose_plan_is_not_kept_reads_by_the_index(
    database: str, session: Session, queue: QueueTable, state: str
) -> None:
    STATES[state](session, "Sales")
    put(session, queue, BACKLOG)
    unprepared = await Database(database).connect()
    plans = await plans_of(unprepared)

    await unprepared.run_together([queue.receive(1, FROM_THE_START)])
    await unprepared.run_together([queue.receive(10, FROM_THE_START, passed_over=[2])])

    await unprepared.close()
    assert len(plans) == 2
    assert not [plan for plan in plans if SLOW.search(plan)]


@every_state
async def test_looks_read_by_the_index(
    database: str, session: Session, queue: QueueTable, state: str
) -> None:
    delayed, looks, plans = await _looking(database, session, queue, state)

    found = await looks.run_together(
        [queue.count_available(10, FROM_THE_START), delayed.has_any()], within=30, each=True
    )
    used = [*plans]
    kept = await (await looks.connection.execute("select name from pg_prepared_statements")).fetchall()

    await looks.close()
    assert found == [10, 1]
    assert len(used) == 2
    assert not [plan for plan in used if SLOW.search(plan)]
    assert kept == []  # a lookout looks into more tables than a connection has plans


@every_state
async def test_due_messages_are_read_by_the_index(
    database: str, session: Session, queue: QueueTable, state: str
) -> None:
    delayed = _delayed(session, state)
    mover = await open_session(Database(database), delayed)
    assert isinstance(mover, AsyncSession)
    plans = await plans_of(mover)

    await mover.run(delayed.next_due())
    async with mover.transaction():
        await mover.run(delayed.take_due(10))
    await mover.run(delayed.move_expected(10, queue.address, "x"))
    place = PassedOver(1_000_000, (str(UUID(int=1)),))
    await mover.run(delayed.next_due_behind(place))
    await mover.run(delayed.take_due_behind(10, place))

    await mover.close()
    assert len(plans) == 5
    assert all(re.search(r"Index Cond: .*due >= ", plan) for plan in plans[3:])
    assert not [plan for plan in plans if re.search(r"(Seq|Bitmap Heap) Scan on \"?Sales", plan)]


async def _looking(
    database: str, session: Session, queue: QueueTable, state: str
) -> tuple[DelayedTable, AsyncSession, list[str]]:
    """Fill a queue and a table of delayed messages; return the table, a session that looks, and its plans."""
    delayed = _delayed(session, state)
    STATES[state](session, "Sales")
    put(session, queue, BACKLOG)
    looks = await Database(database).connect_reader()
    await looks.run_all([CONFIGURE])
    return delayed, looks, await plans_of(looks)


def _delayed(session: Session, state: str) -> DelayedTable:
    """Make a table of delayed messages, bring it into a state, and have messages become due in it."""
    table = DelayedTable(QueueAddress("public", "Sales.Delayed"))
    session.run_all(table.create())
    STATES[state](session, "Sales.Delayed")
    run(session, FILL_DELAYED.format('"Sales.Delayed"'))
    return table


async def test_a_receive_leaves_the_settings_of_its_session_as_they_were(
    slot: ReceiveSession, queue: QueueTable
) -> None:
    await slot.connection.execute("set enable_sort = off; set cpu_operator_cost = 0.5")
    before = await (await slot.connection.execute(SETTINGS)).fetchall()

    for most in (1, 1, 100):
        slot.connection.own_settings = ()  # no handler's: a role's, say
        await slot.begin(queue.receive(most, FROM_THE_START))
        assert await (await slot.connection.execute(SETTINGS)).fetchall() == before
        slot.connection.own_settings = ()
        await slot.commit()

    assert await (await slot.connection.execute(SETTINGS)).fetchall() == before


async def test_a_receive_that_fails_leaves_the_settings_as_they_were(
    slot: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    before = await (await slot.connection.execute(SETTINGS)).fetchall()
    session.run(queue.drop())

    with pytest.raises(QueueNotFoundError):
        await slot.begin(queue.receive(1, FROM_THE_START))
    await slot.rollback()

    assert await (await slot.connection.execute(SETTINGS)).fetchall() == before


async def test_a_receive_whose_plan_is_kept_is_one_statement(
    slot: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    put(session, queue, SETTLED + 1)
    for _ in range(SETTLED):
        await slot.begin(queue.receive(1, FROM_THE_START))
        await slot.commit()

    with listening_to(slot.connection) as wire:
        await slot.begin(queue.receive(1, FROM_THE_START))
        await slot.commit()
        assert len(wire.statements) == 3, "begin, the receive, and commit"
    assert answers(session, 'select count(*) from "Sales"') == [(0,)]


async def test_settings_around_a_statement_do_not_hide_its_failure(
    slot: ReceiveSession, queue: QueueTable
) -> None:
    failing = control(b"select 1 / 0", "Failed on purpose")
    for _ in range(2):
        with pytest.raises(Exception, match="division by zero"):
            await slot.run_together([failing, queue.receive(1, FROM_THE_START)])
        assert await slot.begin(queue.receive(1, FROM_THE_START)) == []
        await slot.rollback()
