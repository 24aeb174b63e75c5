"""The ends of work that takes long: together, and each with its own fate."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest

import rowbus
from rowbus.errors import StorageError
from rowbus.transport.long_work.ends import Ends
from rowbus.transport.long_work.table import Work
from tests.conformance.endpoints import PlaceOrder
from tests.conformance.transport import eventually, within

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tests.conformance.endpoints import Endpoints


def work(name: str) -> Work:
    return Work(name, "Sales", "{}", b"", 0, 1)


async def test_what_ends_while_others_are_on_their_way_leaves_together_and_each_hears_of_its_own() -> None:
    sent, may_go = list[list[str]](), asyncio.Event()

    async def end(together: Sequence[Work]) -> Collection[str]:
        sent.append([each.id for each in together])
        await may_go.wait()
        return {each.id for each in together if each.id != "lost"}

    ends = Ends(end)
    first = asyncio.create_task(ends.end(work("first")))
    await eventually(lambda: len(sent) == 1)
    others = [asyncio.create_task(ends.end(work(name))) for name in ("second", "lost", "third")]
    await asyncio.sleep(0)
    may_go.set()

    assert await within(asyncio.gather(first, *others)) == [True, True, False, True]
    assert sent == [["first"], ["second", "lost", "third"]]


async def test_a_transaction_that_fails_is_heard_of_by_all_that_it_was_to_end_and_by_no_other() -> None:
    asked = 0

    async def end(together: Sequence[Work]) -> Collection[str]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        if len(together) > 1:
            raise StorageError("No", sqlstate="40001", transient=True)
        return {each.id for each in together}

    ends = Ends(end)
    first = asyncio.create_task(ends.end(work("first")))
    await eventually(lambda: asked == 1)
    others = [asyncio.create_task(ends.end(work(name))) for name in ("second", "third")]
    found = await within(asyncio.gather(first, *others, return_exceptions=True))

    assert found[0] is True
    assert [type(each) for each in found[1:]] == [StorageError, StorageError]
    assert await within(ends.end(work("fourth"))) is True


@pytest.mark.only("PostgreSQL", reason="handlers that take long work on PostgreSQL alone")
async def test_an_end_whose_row_somebody_locks_keeps_no_other_from_ending(endpoints: Endpoints) -> None:
    sales, may_end, begun = endpoints.make("Sales"), asyncio.Event(), list[str]()

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        begun.append(context.message_id)
        await may_end.wait()

    async def left() -> int:
        (count,) = await endpoints.backend.values('select count(*) from "Sales.Running"')
        return int(count)

    async def is_one_left() -> bool:
        return await left() == 1

    async def is_none_left() -> bool:
        return await left() == 0

    async with sales:
        for number in range(3):
            await sales.send("Sales", PlaceOrder(str(number)))
        await eventually(lambda: len(begun) == 3)
        async with await psycopg.AsyncConnection.connect(endpoints.backend.dsn) as locking:
            await locking.execute('select 1 from "Sales.Running" order by seq limit 1 for update')
            may_end.set()
            await eventually(is_one_left)
        await eventually(is_none_left)
    assert len(begun) == 3
