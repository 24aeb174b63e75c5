"""Calls that come while some are on their way leave together after them, and each hears of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowbus.errors import ConnectionLostError, StorageError
from rowbus.running.together import Together
from tests.conformance.transport import eventually, within

if TYPE_CHECKING:
    from collections.abc import Sequence


class Ends:
    """Notes what leaves together, and holds the first of it back."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.sent: list[list[str]] = []
        self.may_go = asyncio.Event()
        self.together = Together(self.leave)
        self._failure = failure

    async def leave(self, items: Sequence[str]) -> Sequence[bool]:
        self.sent.append(list(items))
        await self.may_go.wait()
        if len(items) > 1 and self._failure is not None:
            raise self._failure
        return [item != "lost" for item in items]

    async def end(self, item: str) -> bool:
        fate = self.together.join(item)
        self.together.go_on()
        return await fate

    async def all(self, *items: str) -> list[bool | BaseException]:
        """Have the first be on its way, and the others come behind it."""
        first, *others = items
        tasks = [asyncio.create_task(self.end(first))]
        await eventually(lambda: self.sent == [[first]])
        tasks += [asyncio.create_task(self.end(item)) for item in others]
        await eventually(lambda: len(self.together.waiting) == len(items))
        self.may_go.set()
        return await within(asyncio.gather(*tasks, return_exceptions=True))


async def test_what_comes_while_others_are_on_their_way_leaves_together_and_each_hears_of_its_own() -> None:
    ends = Ends()

    assert await ends.all("first", "second", "lost", "third") == [True, True, False, True]
    assert ends.sent == [["first"], ["second", "lost", "third"]]


async def test_where_the_whole_fails_each_is_tried_alone() -> None:
    ends = Ends(StorageError("No", sqlstate="40001", transient=True))

    assert await ends.all("first", "second", "third") == [True, True, True]
    assert ends.sent == [["first"], ["second", "third"], ["second"], ["third"]]


@pytest.mark.parametrize(
    "failure", [ConnectionLostError("Gone", sqlstate=None, transient=True), RuntimeError("No")]
)
async def test_what_may_have_been_done_is_not_tried_again(failure: Exception) -> None:
    ends = Ends(failure)

    assert await ends.all("first", "second", "third") == [True, failure, failure]
    assert ends.sent == [["first"], ["second", "third"]]
    assert await within(ends.end("fourth")) is True


async def test_who_has_gone_while_waiting_is_left_out() -> None:
    ends = Ends()
    first = asyncio.create_task(ends.end("first"))
    await eventually(lambda: ends.sent == [["first"]])
    gone = asyncio.create_task(ends.end("gone"))
    await eventually(lambda: len(ends.together.waiting) == 2)
    gone.cancel()
    stays = asyncio.create_task(ends.end("stays"))
    await eventually(lambda: len(ends.together.waiting) == 3)
    ends.may_go.set()

    assert list(await within(asyncio.gather(first, stays))) == [True, True]
    assert ends.sent == [["first"], ["stays"]]
