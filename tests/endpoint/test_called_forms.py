"""Arguments of handlers, steps and consumers are known when they are registered: no message finds out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from types import FunctionType
from typing import Any

import pytest

import rowbus
from rowbus.endpoint.handlers import Handlers
from rowbus.errors import ConfigurationError
from rowbus.log.consumers.handlers import takes_context
from rowbus.testing import SagaScenario, run_handlers
from tests.conformance.endpoints import OrderAccepted, PlaceOrder
from tests.fixtures.every import every

Form = Callable[..., Any]


def anything(function: Form) -> Form:
    @wraps(function)
    def call(*given: object, **named: object) -> Any:  # noqa: ANN401 - what the function returns
        return function(*given, **named)

    return call


def only_the_first(function: Form) -> Form:
    @wraps(function)
    def call(first: object) -> Any:  # noqa: ANN401 - what the function returns
        return function(first, None)

    return call


# Lists of parameters, and whether the function is called with a context.
TAKEN = {
    "one": False,
    "one, /": False,
    "one, **names": False,
    "one, *, flag=False": False,
    "one, context": True,
    "one, context, /": True,
    "one, context, **names": True,
    "one, context, *more": True,
    "one, context=None": True,
    "one, *more": True,
    "*all": True,
    "*all, **names": True,
}
REFUSED = (
    "",
    "one, *, context",
    "one, *, context=None",
    "one, *, other",
    "*, one",
    "**names",
)


def of(parameters: str) -> Form:
    """Return a function of these parameters, the first of them bytes."""
    function: Form = eval(f"lambda {parameters}: None")  # noqa: S307 - of texts of this module
    first = next(iter(inspect.signature(function).parameters), "")
    function.__annotations__ = {first: bytes}
    return function


@every("parameters", TAKEN)
@every("decorate", [lambda function: function, anything])
def test_a_handler_is_called_with_what_it_takes_by_position(
    parameters: str, decorate: Callable[[Form], Form]
) -> None:
    handlers, function = Handlers(), decorate(of(parameters))
    handlers.add(function, ("Shop.PlaceOrder",))

    (handler,) = handlers.plans["Shop.PlaceOrder"]

    assert handler.takes_context is takes_context(function) is TAKEN[parameters]
    function(*("message", "context")[: 1 + handler.takes_context])


@every("parameters", REFUSED)
def test_a_handler_that_cannot_be_called_is_refused(parameters: str) -> None:
    sales, log = rowbus.Endpoint("Sales"), rowbus.Log("postgresql://nowhere", "orders")

    with pytest.raises(ConfigurationError) as refused:
        sales.handler("Shop.PlaceOrder")(of(parameters))
    shown = f"<lambda>({parameters}) must take"
    assert str(refused.value) == (
        f"{shown} (message) or (message, context), by position, and what is provided by name."
    )
    with pytest.raises(ConfigurationError) as refused:
        log.consumer("one", batch=True)(of(parameters))
    assert str(refused.value) == (
        f"{shown} (event) or (event, context), by position; with batch=True, events."
    )


def test_what_only_a_decorator_hides_is_refused_too() -> None:
    with pytest.raises(ConfigurationError, match=r"must take \(message\)"):
        rowbus.Endpoint("Sales").handler("Shop.PlaceOrder")(anything(of("one, *, context")))


def test_what_a_decorator_takes_away_is_not_given() -> None:
    handlers = Handlers()
    handlers.add(only_the_first(of("one, context")), ("Shop.PlaceOrder",))

    (handler,) = handlers.plans["Shop.PlaceOrder"]

    assert not handler.takes_context


@dataclass
class Basket:
    """Dependencies that an endpoint provides."""


def by_position(message: PlaceOrder, basket: Basket, /) -> None: ...


def by_name(message: PlaceOrder, *, context: rowbus.SyncContext, basket: Basket, **more: object) -> None:
    assert context.message_id
    assert not more


async def test_what_is_provided_is_given_by_name() -> None:
    sales = rowbus.Endpoint("Sales")
    sales.provide(Basket, Basket())

    with pytest.raises(ConfigurationError, match=r"by_position\(message, basket, /\) cannot be called"):
        sales.handler(by_position)
    sales.handler(by_name)

    assert (await run_handlers(sales, PlaceOrder("42"))).error is None


async def step(*, context: object, proceed: object) -> None: ...


def tick(*, tick: object) -> None: ...


def test_steps_and_what_makes_recurring_messages_are_called_by_position() -> None:
    sales = rowbus.Endpoint("Sales")

    with pytest.raises(
        ConfigurationError, match=r"step\(\*, context, proceed\) must take \(context, proceed\)"
    ):
        sales.use(step)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType] - the mistake
    with pytest.raises(
        ConfigurationError, match=r"tick\(\*, tick\) must take \(tick\), by position, or nothing"
    ):
        sales.every(timedelta(seconds=1))(tick)


@dataclass
class State:
    order_id: str = ""


class Forms(rowbus.Saga[State], correlation="order_id"):
    @rowbus.starts(PlaceOrder, by=lambda order: order.order_id)
    async def place(
        self, message: PlaceOrder, context: rowbus.SagaContext, *more: object, **names: object
    ) -> None:
        assert not more
        assert not names
        await context.request_timeout(
            Basket(),
            after=timedelta(seconds=1),
        )

    @rowbus.timeout(Basket)
    async def end(self, message: Basket, /, *context: rowbus.SagaContext) -> None:
        context[0].complete()


async def test_a_sagas_methods_are_called_with_what_they_take_by_position() -> None:
    scenario = SagaScenario(Forms)

    await scenario.when(PlaceOrder("42"))
    (outcome,) = await scenario.after(timedelta(seconds=1))

    assert outcome.error is None
    assert scenario.state is None


async def keyword_context(self: object, message: PlaceOrder, *, context: object) -> None: ...


async def names_alone(self: object, **names: object) -> None: ...


async def another(self: object, message: PlaceOrder, context: object, other: object) -> None: ...


def copied(method: Any) -> Any:  # noqa: ANN401 - a function, on which marks are left
    return FunctionType(method.__code__, method.__globals__, method.__name__, method.__defaults__)


DECLARATIONS: dict[str, Callable[[Form], Form]] = {
    "starts": rowbus.starts(PlaceOrder, by="Order"),
    "handles": rowbus.handles(PlaceOrder, by="Order"),
    "timeout": rowbus.timeout(PlaceOrder),
    "not_found": rowbus.not_found,
}


@every("role", DECLARATIONS)
@every("method", [keyword_context, names_alone, another])
def test_a_sagas_method_that_cannot_be_called_is_refused(role: str, method: Form) -> None:
    with pytest.raises(
        ConfigurationError, match=r"\) must take \(self, message\) or \(self, message, context\), by position"
    ):

        class Shop(rowbus.Saga[State]):
            @rowbus.starts(OrderAccepted, by="Order")
            async def begin(self, message: OrderAccepted) -> None: ...

            declared = DECLARATIONS[role](copied(method))
