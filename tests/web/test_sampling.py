"""The looks at the database: what they read again, and when."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg import sql

from rowbus.database.backends import addresses_of, inspecting, open_database
from rowbus.messages.address import QueueAddress
from rowbus.web import application
from rowbus.web.sampling import look as look_module
from rowbus.web.sampling.look import STILL_PERIOD, STILL_READS, Look, QueueLook
from rowbus.web.sampling.sampler import STEP, History
from rowbus.web.sampling.snapshot import Snapshot
from tests.fixtures.command_line import CommandLine

pytestmark = pytest.mark.one_version

SALES = QueueAddress("public", "Sales")


def test_a_queue_that_stands_still_is_read_now_and_then_for_what_is_in_hand(
    database: str, rowbus: CommandLine
) -> None:
    rowbus("queue", "create", "Sales")
    rowbus("queue", "send", "Sales", "{}", "--type", "Shop.PlaceOrder")
    look = QueueLook(addresses_of(database), has_statistics=True)

    with inspecting(open_database(database)) as session, psycopg.connect(database) as receiver:

        def in_hand(now: float) -> int | None:
            (sales,) = look.take(session, now)
            assert (sales.address, sales.depth, sales.is_exact) == (SALES, 1, True)
            assert sales.oldest_sent is not None
            return sales.in_hand

        assert in_hand(0) == 0
        receiver.execute('delete from "Sales"')
        assert in_hand(STILL_PERIOD - 1) == 0
        assert in_hand(STILL_PERIOD + 1) == 1
        receiver.rollback()
        assert in_hand(STILL_PERIOD + 2) == 1
        look.hasten()
        assert in_hand(STILL_PERIOD + 3) == 0


def test_of_many_queues_that_stand_still_a_look_reads_the_few_read_longest_ago(
    database: str, rowbus: CommandLine
) -> None:
    names = [f"Q{number}" for number in range(2 * STILL_READS)]
    rowbus("queue", "create", *names)
    for name in names:
        rowbus("queue", "send", name, "{}", "--type", "Shop.PlaceOrder")
    look = QueueLook(addresses_of(database), has_statistics=True)

    with inspecting(open_database(database)) as session, psycopg.connect(database) as receiver:

        def in_hand(look_number: int) -> int:
            figures = look.take(session, look_number * (STILL_PERIOD + 1))
            return sum(queue.in_hand or 0 for queue in figures)

        assert in_hand(0) == 0
        for name in names:
            receiver.execute(sql.SQL("delete from {}").format(sql.Identifier(name)))
        assert [in_hand(1), in_hand(2), in_hand(3)] == [STILL_READS, len(names), len(names)]


def test_a_table_of_delayed_messages_that_is_dropped_hides_no_other(
    database: str, rowbus: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_module, "LONGEST", 0.0)  # each look is due at once
    for name in ("Sales", "Billing"):
        rowbus("delayed", "create", name)
    look = Look(addresses_of(database), is_postgresql=True, period=0)

    with inspecting(open_database(database)) as session, psycopg.connect(database) as other:
        first = look.take(session, Snapshot())
        other.execute('drop table "Sales.Delayed"')
        other.commit()
        second = look.take(session, first)

    assert [[str(one.address) for one in snapshot.delayed] for snapshot in (first, second)] == [
        ['"public"."Billing.Delayed"', '"public"."Sales.Delayed"'],
        ['"public"."Billing.Delayed"'],
    ]
    assert second.notes == {}


def test_a_step_of_the_history_has_the_highest_of_its_values() -> None:
    history = History()
    for now, value in ((0.0, 2.0), (STEP, 1.0), (STEP + 1, 3.0), (STEP + 2, 2.0)):
        history.note("depth", value, now)

    assert history.series("depth", STEP)[-3:] == [None, 2.0, 3.0]


async def test_a_sampler_that_is_stopped_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    site = application("postgresql://127.0.0.1:1/nowhere").state.site

    await site.sampler.start()
    begun = asyncio.all_tasks() - before
    await site.sampler.stop()

    assert begun
    assert not begun & asyncio.all_tasks()
    await site.close()
