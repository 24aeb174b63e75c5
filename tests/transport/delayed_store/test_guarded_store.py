"""A store that cannot be trusted: its answers are looked at, its calls are bounded, it cancels nothing but itself."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowbus import DelayedMessage, DelayedMessageStore, StoreError, StoreUnavailableError
from rowbus.running.threads import run_in_thread
from rowbus.testing import FakeClock
from rowbus.transport.delayed_store import guarded_store
from rowbus.transport.delayed_store.guarded_store import GuardedStore
from tests.fixtures.every import every
from tests.fixtures.strangers import Panic
from tests.transport.delayed_store.stores import MemoryStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MESSAGE = DelayedMessage(message_id="1", destination="Sales", time=NOON, headers=b"{}")
LONG = timedelta(minutes=10)
AT_ONCE = timedelta(milliseconds=1)

Use = Callable[[DelayedMessageStore], Any]
Anything = Any  # for answers that are wrong on purpose


class Odd(MemoryStore):
    """Does what a test tells it, instead of answering."""

    def __init__(self, do: Callable[[], Any]) -> None:
        super().__init__({}, {}, FakeClock())
        self._do = do

    async def _answer(self, *_arguments: object) -> Anything:
        answer = self._do()
        return await answer if hasattr(answer, "__await__") else answer

    store = remove = increment_failure_count = next = fetch_next_due = _answer  # type: ignore[assignment]  # odd


def guarded(do: Callable[[], Any], timeout: timedelta = LONG) -> GuardedStore:
    return GuardedStore.of(Odd(do), timeout)


def wrong(**parts: object) -> DelayedMessage:
    return replace(MESSAGE, **parts)  # type: ignore[arg-type]  # wrong on purpose


@every(
    "method, answer, says",
    [
        ("next", datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001 - naive on purpose
        ("next", 1767268800.0, "(float)"),
        ("next", "2026-01-01", "(str)"),
        ("fetch_next_due", ("1", "Sales"), "not a DelayedMessage"),
        ("fetch_next_due", wrong(time=NOON.replace(tzinfo=None)), "no time zone"),
        ("fetch_next_due", wrong(time=1.5), "1.5 (float), not a message whose time"),
        ("fetch_next_due", wrong(headers="{}"), "headers"),
        ("fetch_next_due", wrong(body=None), "body is None"),
        ("fetch_next_due", wrong(message_id=7), "message_id is 7"),
        ("fetch_next_due", wrong(number_of_retries=None), "number_of_retries"),
        ("fetch_next_due", wrong(number_of_retries=-1), "number_of_retries"),
        ("fetch_next_due", wrong(time=NOON + timedelta(seconds=1)), "is due at"),
        ("remove", None, "None (NoneType), not True or False"),
        ("remove", 2, "not True or False"),
        ("increment_failure_count", "yes", "not True or False"),
    ],
)
async def test_a_wrong_answer_names_the_class_the_method_and_the_answer(
    method: str, answer: object, says: str
) -> None:
    argument = {"next": (), "fetch_next_due": (NOON,)}.get(method, (MESSAGE,))

    with pytest.raises(StoreError) as raised:
        await getattr(guarded(lambda: answer), method)(*argument)

    assert raised.value.store == "Odd"
    assert raised.value.method == method
    assert f"Odd.{method}" in str(raised.value)
    assert says in str(raised.value)


@every(
    "method, answer",
    [("next", None), ("next", NOON), ("fetch_next_due", None), ("fetch_next_due", MESSAGE)]
    + [(method, one) for method in ("remove", "increment_failure_count") for one in (True, False, 1, 0)],
)
async def test_a_right_answer_is_passed_on(method: str, answer: object) -> None:
    argument = {"next": (), "fetch_next_due": (NOON,)}.get(method, (MESSAGE,))

    assert await getattr(guarded(lambda: answer), method)(*argument) == answer


def cancelled() -> None:
    raise asyncio.CancelledError


@every("use", [lambda store: store.next(), lambda store: store.store(MESSAGE)])
async def test_a_cancellation_of_the_stores_own_is_its_failure_and_not_the_end(use: Use) -> None:
    with pytest.raises(StoreError, match="CancelledError"):
        await use(guarded(cancelled))


@every("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Panic()])
async def test_what_would_end_the_program_is_the_stores_failure(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(StoreError, match="which is no Exception"):
        await guarded(fail).next()


async def test_a_cancellation_of_ours_ends_the_call_and_is_passed_on() -> None:
    entered, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    call = asyncio.ensure_future(guarded(hang).next())
    await entered.wait()
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


async def test_a_call_that_hangs_is_given_up_and_the_store_is_said_to_be_away() -> None:
    with pytest.raises(StoreUnavailableError, match=r"Odd\.next was given up after 0\.001 s"):
        await guarded(asyncio.Event().wait, AT_ONCE).next()


async def test_a_call_that_heeds_no_cancellation_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(guarded_store, "PATIENCE", 0.01)
    over = asyncio.Event()

    async def stubborn() -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(StoreUnavailableError):
        await guarded(stubborn, AT_ONCE).next()
    over.set()

    assert "Odd.next does not end" in caplog.text


async def test_stopping_shortens_the_calls_in_progress_and_those_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarded_store, "WHEN_STOPPING", 0.001)
    entered = asyncio.Event()

    async def hang() -> None:
        entered.set()
        await asyncio.Event().wait()

    store = guarded(hang)
    call = asyncio.ensure_future(store.next())
    await entered.wait()
    store.hurry()

    for later in (call, store.next()):
        with pytest.raises(StoreUnavailableError):
            await later


async def test_stopping_gives_no_call_more_time_than_it_had() -> None:
    store = guarded(asyncio.Event().wait, timedelta(milliseconds=20))
    call = asyncio.ensure_future(store.next())

    async with asyncio.timeout(5):
        while not call.done():
            store.hurry()
            await asyncio.sleep(0)
    with pytest.raises(StoreUnavailableError):
        await call


class Plain(MemoryStore):
    def next(self) -> Anything:  # not asynchronous on purpose
        return None


async def test_a_method_that_is_not_asynchronous_is_told_so() -> None:
    with pytest.raises(StoreError, match=r"Plain\.next is not asynchronous"):
        await GuardedStore.of(Plain({}, {}, FakeClock()), LONG).next()


CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("CURRENT", default="none")


class Transactional(MemoryStore):
    """Keeps its transaction in a context variable, and swallows errors."""

    seen = "nothing"

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        CURRENT.set("begun")
        try:
            yield self
        except ValueError:
            self.seen = f"rolled back {CURRENT.get()}"

    async def next(self) -> datetime | None:
        self.seen = CURRENT.get()
        return None


async def test_the_calls_of_a_transaction_share_their_context_variables() -> None:
    store = Transactional({}, {}, FakeClock())

    async with GuardedStore.of(store, LONG).transaction() as inside:
        await inside.next()

    assert store.seen == "begun"
    assert CURRENT.get() == "none"


async def test_an_error_in_a_transaction_comes_out_of_it_also_when_the_store_swallows_it() -> None:
    store = Transactional({}, {}, FakeClock())

    with pytest.raises(ValueError, match="ours"):
        async with GuardedStore.of(store, LONG).transaction():
            raise ValueError("ours")

    assert store.seen == "rolled back begun"


@every("method", ["transaction", "enlist"])
async def test_what_is_no_store_is_not_used_as_one(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore({}, {}, FakeClock())
    monkeypatch.setattr(store, method, lambda *_arguments: 7)
    guard = GuardedStore.of(store, LONG)

    async def use() -> None:
        if method == "enlist":
            guard.enlist(object())
        else:
            await guard.transaction().__aenter__()

    with pytest.raises(StoreError, match=rf"MemoryStore\.{method} answered a int"):
        await use()


async def test_a_blocking_call_that_hangs_keeps_nothing_waiting() -> None:
    entered, over = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def block() -> None:
        threads.append(threading.current_thread())
        entered.set()
        over.wait()

    call = asyncio.ensure_future(run_in_thread(block))
    await run_in_thread(entered.wait)
    assert threads[0].daemon
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    over.set()


async def test_a_blocking_call_answers_and_raises() -> None:
    assert await run_in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(divmod, 7, 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run_in_thread(next, iter(()))
