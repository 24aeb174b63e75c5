"""Calls that were not awaited: each is found, named with its line, and can do nothing any more."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from rowbus.errors import HandlerError
from rowbus.running.handling import AwaitedCall, Awaiting, awaited, refuse_forgotten, refuse_unbegun


class Context(Awaiting):
    """Has one verb."""

    def __init__(self) -> None:
        self._calls = []
        self.sent: list[int] = []

    @awaited
    async def send(self, number: int) -> int:
        await asyncio.sleep(0)
        self.sent.append(number)
        return number


async def test_awaited_calls_pass_however_they_are_awaited() -> None:
    context = Context()

    assert await context.send(1) == 1
    assert await asyncio.gather(*map(context.send, (2, 3))) == [2, 3]
    assert await asyncio.create_task(context.send(4)) == 4

    refuse_forgotten(context)


async def test_a_forgotten_call_is_named_with_its_function_and_line() -> None:
    context = Context()

    context.send(1)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine] - the mistake
    line = inspect.stack()[0].lineno - 1

    with pytest.raises(HandlerError) as caught:
        refuse_forgotten(context)
    assert str(caught.value) == (
        "test_a_forgotten_call_is_named_with_its_function_and_line "
        f"({__file__}, line {line}) called context.send(…) and did not await it: write `await`. "
        "Nothing of this attempt was committed."
    )


def numbers() -> Iterator[int]:
    yield 1


async def numbers_to_await() -> AsyncIterator[int]:
    yield 1


async def number() -> int:
    return 1


@pytest.mark.parametrize(
    "make",
    [number, numbers, numbers_to_await, contextmanager(numbers), asynccontextmanager(numbers_to_await)],
)
def test_what_was_returned_and_would_never_run_is_refused(
    make: Callable[[], object], recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(
        HandlerError, match=r"^numbers? returned an unused|^numbers_to_await returned an unused"
    ):
        refuse_unbegun(make, make())

    gc.collect()
    assert not recwarn.list


async def test_what_was_forgotten_does_nothing_and_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    context = Context()

    for number in range(3):
        context.send(number)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    with pytest.raises(HandlerError, match=r"did not await it \(and 2 more\)"):
        refuse_forgotten(context)
    await asyncio.sleep(0)

    assert not context.sent
    assert not recwarn.list


async def test_a_task_that_has_not_ended_counts_as_forgotten() -> None:
    context = Context()

    task = asyncio.create_task(context.send(1))
    await asyncio.sleep(0)

    with pytest.raises(HandlerError, match="did not await it"):
        refuse_forgotten(context)
    assert await task == 1


async def test_a_long_loop_of_calls_holds_none_of_those_that_ended() -> None:
    context = Context()

    for number in range(100):
        await context.send(number)

    assert sum(isinstance(one, AwaitedCall) for one in gc.get_referents(context.__dict__["_calls"])) == 1
