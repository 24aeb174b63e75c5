"""Functions that are called and not awaited: an `async def` is refused where it is given."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

import rowbus
from rowbus.errors import ConfigurationError
from rowbus.log.consumers.event_attempts import Keys
from rowbus.log.event import Event
from rowbus.messages.conventions import conventions
from rowbus.platform.checks import made_check
from rowbus.running.critical import report
from rowbus.sagas.decisions import correlation_text
from rowbus.spark.pipelines.query_run import check_listeners
from rowbus.testing.template import template
from rowbus.web.asgi import application
from tests.conformance.endpoints import PlaceOrder
from tests.fixtures.every import every
from tests.fixtures.strangers import Panic, stranger

Function = Any  # the mistake is what the tests are about


async def of_any(*given: object) -> None: ...


class AsyncCallable:
    async def __call__(self, *given: object) -> None: ...


class AsyncMutator(rowbus.Mutator):
    async def outgoing(self, headers: object, body: bytes) -> bytes:  # type: ignore[override]  # the mistake
        return body


class AsyncDrafter(rowbus.Mutator):
    async def leaving(self, draft: rowbus.Draft) -> None:  # type: ignore[override]  # the mistake
        ...


class AsyncPolicy(rowbus.Recoverability):
    async def decide(self, attempt: object) -> rowbus.Discard:  # type: ignore[override]  # the mistake
        return rowbus.Discard("")


class AsyncJson(rowbus.Json):
    async def write(self, message: object, types: tuple[str, ...]) -> bytes:  # type: ignore[override]  # the mistake
        return b""


class AsyncClaims:
    async def put(self, value: bytes) -> str:
        return ""

    def get(self, key: str) -> bytes:
        return b""


def prepared(function: Function) -> None:
    with template(function):
        pass


FINDERS = ("the key of a saga", "the key of a saga's message")
"""They may be asynchronous, and are awaited then: what a key is may be found in the database."""

TAKING: dict[str, Callable[[Function], object]] = {
    "on_critical_error of an endpoint": lambda given: rowbus.Endpoint("Sales", on_critical_error=given),
    "on_critical_error of a log": lambda given: rowbus.Log(
        "postgresql://", "orders", on_critical_error=given
    ),
    "on_critical_error of a ticker": lambda given: rowbus.Ticker(on_critical_error=given),
    "on_critical_error of a mover": lambda given: rowbus.DelayedMover("Sales", on_critical_error=given),
    "the key of a limit": lambda given: rowbus.RateLimit("1/second", by=given),
    "the key of a limit of concurrency": lambda given: rowbus.Concurrency(1, by=given),
    "a back-off": lambda given: rowbus.Retries(backoff=given),
    "a policy's back-off": lambda given: rowbus.Recoverability(backoff=given),
    "the key of events": lambda given: rowbus.Log("postgresql://", "orders").consumer("one", key=given),
    "the key of a saga": lambda given: rowbus.starts(PlaceOrder, by=given),
    "the key of a saga's message": lambda given: rowbus.handles(PlaceOrder, by=given),
    "an upgrade": rowbus.upgrade(1, 2),
    "a convention": lambda given: conventions(given, (), (), {}),
    "a recurring message": rowbus.Endpoint("Sales").every(timedelta(1), name="one"),
    "the message of an event": lambda given: rowbus.forward_events(
        rowbus.Log("postgresql://", "orders"), "one", "Sales", message=given
    ),
    "watch": check_listeners,
    "tell": lambda given: check_listeners(None, given),
    "announce": lambda given: application(announce=given),
    "prepare": prepared,
}


@every("place", [place for place in TAKING if place not in FINDERS])
@every("given", [of_any, partial(of_any), AsyncCallable(), AsyncCallable().__call__])
def test_what_nothing_would_await_is_refused_where_it_is_given(place: str, given: Function) -> None:
    with pytest.raises(ConfigurationError, match=r"of which a call runs nothing|must be a `def`"):
        TAKING[place](given)


@every(
    "make",
    [
        lambda: rowbus.Endpoint("Sales").use(AsyncMutator()),
        lambda: rowbus.Endpoint("Sales").use(AsyncDrafter()),
        lambda: rowbus.Endpoint("Sales", recoverability=AsyncPolicy()),
        lambda: rowbus.Endpoint("Sales", serializers=[AsyncJson()]),  # type: ignore[list-item]  # the mistake
        lambda: rowbus.ClaimCheck(AsyncClaims()),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_and_so_is_a_method(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"of which a call runs nothing"):
        make()


@every("place", [place for place in TAKING if place != "a recurring message"])
def test_what_cannot_be_called_is_refused_where_it_is_given(place: str) -> None:
    def of_four(one: object, two: object, three: object, four: object) -> None: ...

    with pytest.raises(ConfigurationError, match=r"of_four\(one, two, three, four\): it must take \("):
        TAKING[place](of_four)


# ------------------------------------------------------------------- what is only seen when it is called: no warning


def late(*given: object) -> Any:  # noqa: ANN401 - a coroutine, where another value is meant
    return of_any(*given)


def test_a_key_that_has_to_be_awaited_is_none() -> None:
    event = Event._make([None] * len(Event._fields))

    with pytest.raises(
        rowbus.HandlerError, match=r"has to be awaited, and nothing awaits it: late\(\*given\)"
    ):
        rowbus.RateLimit("1/second", by=late).bucket("Shop.PlaceOrder", PlaceOrder("42"))
    with pytest.raises(rowbus.SagaCorrelationError, match="A saga is found by text"):
        correlation_text(late())
    assert Keys(late).of(event) is None


async def test_a_recurring_message_that_has_to_be_awaited_is_none() -> None:
    sales = rowbus.Endpoint("Sales")
    sales.every(timedelta(1))(late)

    (message,) = sales.parts.recurring
    sending = message.bound(None, None)  # type: ignore[arg-type]  # nothing comes to be sent

    with pytest.raises(rowbus.HandlerError, match="late returned what has to be awaited"):
        sending.compose(datetime.now().astimezone())


def panicking(text: str, error: BaseException) -> None:
    raise GeneratorExit


@every("callback, said", [(late, "has to be awaited"), (panicking, "failed when it was told: no database")])
def test_whatever_a_callback_does_is_logged(
    callback: Function, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    report(callback, "no database", ValueError(), logging.getLogger("rowbus.receiving"))

    assert said in caplog.text


def test_a_callback_may_end_the_program() -> None:
    def end(text: str, error: BaseException) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        report(end, "no database", ValueError())


@every(
    "error, said",
    [
        (stranger("__str__")("no stock"), "Stranger: no stock"),
        (Panic("no stock"), "Panic: no stock"),
        (
            SystemExit(3),
            "HandlerError: It tried to end its process, by sys.exit(3); that counts as its failure.",
        ),
        (asyncio.CancelledError("no stock"), "CancelledError: no stock"),
    ],
)
async def test_a_check_that_raises_a_stranger_has_failed(error: BaseException, said: str) -> None:
    def ill() -> None:
        raise error

    async def ill_too() -> None:
        raise error

    for check in (ill, ill_too):
        assert (await made_check(check, "stock", "", None).result()).failure == said


class Ill:
    async def __call__(self) -> str:
        return "no stock"


async def ill() -> str:
    return "no stock"


@every("function", [ill, partial(ill), Ill(), lambda: ill()])  # noqa: PLW0108 - a call that returns a coroutine
async def test_a_check_is_awaited_however_it_is_made(function: Function) -> None:
    result = await made_check(function, "stock", "", None).result()

    assert result.failure == "no stock"
