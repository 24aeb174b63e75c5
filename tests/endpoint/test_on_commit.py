"""`context.on_commit`: called after the commit of an attempt that succeeded, in both kinds of handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import rowbus
from rowbus.testing import run_handlers
from tests.conformance.endpoints import NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.transport import eventually, in_transaction_modes
from tests.fixtures.every import every

ONE_RETRY = rowbus.Recoverability(immediate=1, delayed=0)


@pytest.mark.parametrize("kind", ["def", "async def"])
@in_transaction_modes
async def test_calls_are_made_once_the_message_is_gone(endpoints: Endpoints, kind: str) -> None:
    called = list[str]()
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    if kind == "def":

        @sales.handler
        def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
            context.on_commit(lambda: called.append(message.order_id))

    else:

        @sales.handler
        async def place_async(message: PlaceOrder, context: rowbus.Context) -> None:
            context.on_commit(lambda: called.append(message.order_id))

    async def all_called() -> bool:
        return len(called) == 3

    async with sales:
        for number in range(3):
            await sales.send("Sales", PlaceOrder(str(number)))
        await eventually(all_called)

    assert sorted(called) == ["0", "1", "2"]
    assert await endpoints.backend.count("Sales") == 0


async def test_an_attempt_that_fails_takes_its_calls_with_it(endpoints: Endpoints) -> None:
    called, attempts = list[int](), list[int]()
    sales = endpoints.make("Sales", recoverability=ONE_RETRY)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts.append(len(attempts))
        attempt = attempts[-1]
        context.on_commit(lambda: called.append(attempt))
        if message.order_id == "never" or attempt == 0:
            raise ValueError("no")

    async def is_called() -> bool:
        return bool(called)

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))
        await eventually(is_called)
        await sales.send("Sales", PlaceOrder("never"))

        async def given_up() -> bool:
            return await endpoints.backend.count("error") == 1

        await eventually(given_up)

    assert called == [1]


# ------------------------------------------------------------------------------------------------- what is not awaited


async def notify() -> None: ...


class Notifier:
    async def __call__(self) -> None: ...

    async def notify(self) -> None: ...


def yielding() -> Iterator[None]:
    yield


def of_one(order: PlaceOrder) -> None: ...


NOT_CALLED: dict[str, tuple[Callable[[], object], str]] = {
    "a coroutine function": (lambda: notify, "notify(), of which a call runs nothing"),
    "a partial of one": (lambda: partial(notify), "notify(), of which a call runs nothing"),
    "a bound method": (lambda: Notifier().notify, "Notifier.notify(), of which a call runs nothing"),
    "an object that is called like one": (Notifier, "Notifier(), of which a call runs nothing"),
    "a generator": (lambda: yielding, "yielding(), of which a call runs nothing"),
    "a coroutine": (notify, "a coroutine, of which nothing ran: give it a function to call"),
    "no function": (lambda: None, "None: give a function that takes no arguments"),
    "a function of something": (lambda: of_one, "of_one(order): it must take no arguments"),
}


@every("case", NOT_CALLED)
async def test_what_would_never_run_is_refused_when_it_is_given(case: str) -> None:
    make, text = NOT_CALLED[case]
    sales = rowbus.Endpoint("Sales")

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        context.on_commit(make())  # type: ignore[arg-type]  # the mistake

    outcome = await run_handlers(sales, PlaceOrder("42"))

    assert isinstance(outcome.error, rowbus.HandlerError)
    assert text in str(outcome.error)


class Panic(BaseException):
    """As pyo3's, which is no Exception."""


def raising(error: BaseException) -> Callable[[], object]:
    def call() -> None:
        raise error

    return call


async def test_whatever_a_call_does_the_next_is_made_and_the_next_message_handled(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    called, loop = list[str](), asyncio.get_running_loop()
    sales = endpoints.make("Sales", recoverability=NO_RETRIES, concurrency=1)
    ends = (ValueError(), Panic(), SystemExit(), KeyboardInterrupt(), GeneratorExit(), StopIteration())

    @sales.handler
    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        for end in ends:
            context.on_commit(raising(end))
        context.on_commit(lambda: asyncio.run_coroutine_threadsafe(sales.stop(), loop).result())
        context.on_commit(lambda: notify())  # noqa: PLW0108 - what is awaited is seen when it is called
        context.on_commit(lambda: called.append(context.message_id))

    async def all_called() -> bool:
        return len(called) == 2

    async with sales:
        ids = [await sales.send("Sales", PlaceOrder(str(number))) for number in range(2)]
        await eventually(all_called)

    assert sorted(called) == sorted(ids)
    for message_id in ids:
        assert caplog.text.count(f"A call after the commit of message '{message_id}' failed") == len(ends) + 1
        assert "stops its own Endpoint" in caplog.text
        assert f"of message '{message_id}' returned what has to be awaited" in caplog.text
