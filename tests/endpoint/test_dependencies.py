"""Dependencies that handlers name beyond message and context are given to them, by type."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pytest

import rowbus
from rowbus.testing import run_handlers
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.transport import eventually
from tests.fixtures.every import every


@dataclass
class Limits:
    most: int


class Cart:
    """A thing with a life; `ended` says how it ended."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.thread = threading.current_thread()
        self.ended = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.ended = "raised" if kind else "returned"


class Basket:
    """Another."""


def make() -> rowbus.Endpoint:
    return rowbus.Endpoint("Sales")


# ------------------------------------------------------------------------------------------------------------ values


async def test_a_value_is_given_by_type_whatever_the_parameters_name_and_place() -> None:
    sales, seen = make(), list[object]()
    sales.provide(Limits, Limits(3))

    @sales.handler
    async def first(message: PlaceOrder, limits: Limits) -> None:
        seen.append(limits)

    @sales.handler
    async def second(message: PlaceOrder, own: Limits, context: rowbus.Context) -> None:
        seen.extend([own, context.message_id is not None])

    @sales.handler
    def third(message: PlaceOrder, context: rowbus.SyncContext, *, limits: Limits) -> None:
        seen.extend([limits, isinstance(context, rowbus.SyncContext)])

    outcome = await run_handlers(sales, PlaceOrder("42"))

    assert outcome.error is None
    assert seen == [Limits(3), Limits(3), True, Limits(3), True]


async def test_what_sends_but_is_no_context_is_given_as_any_value_is() -> None:
    sales, billing, seen = make(), rowbus.Endpoint("Billing"), list[object]()
    sales.provide(rowbus.Endpoint, billing)

    @sales.handler
    async def first(message: PlaceOrder, other: rowbus.Endpoint) -> None:
        seen.append(other)

    await run_handlers(sales, PlaceOrder("42"))

    assert seen == [billing]


def test_a_handler_that_needs_nothing_is_called_as_it_is() -> None:
    sales = make()
    sales.provide(Limits, Limits(3))

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None: ...

    (handler,) = sales._handlers.plans["Shop.Messages.PlaceOrder"]
    assert handler.function is place


# --------------------------------------------------------------------------------------------------------- factories


def of_function() -> Cart:
    return Cart("function")


async def of_coroutine() -> Cart:
    return Cart("coroutine")


@asynccontextmanager
async def of_manager() -> AsyncGenerator[Cart]:
    async with Cart("manager") as cart:
        yield cart


def of_context(context: rowbus.Context) -> Cart:
    return Cart(context.message_id)


@every("factory", [Cart, of_function, of_coroutine, of_manager, of_context])
async def test_what_a_factory_makes_lives_for_one_call(factory: Callable[..., Any]) -> None:
    sales, seen = make(), list[Cart]()
    sales.provide(Cart, factory=factory)

    @sales.handler
    async def place(message: PlaceOrder, cart: Cart) -> None:
        assert not cart.ended
        seen.append(cart)

    for _ in range(2):
        assert (await run_handlers(sales, PlaceOrder("42"))).error is None

    first, second = seen
    assert first is not second
    assert [cart.ended for cart in seen] == ["returned", "returned"]


async def test_it_is_told_that_the_handler_raised() -> None:
    sales, seen = make(), list[Cart]()
    sales.provide(Cart, factory=Cart)

    @sales.handler
    async def place(message: PlaceOrder, cart: Cart) -> None:
        seen.append(cart)
        raise ValueError("out of stock")

    outcome = await run_handlers(sales, PlaceOrder("42"))

    assert str(outcome.error) == "out of stock"
    assert seen[0].ended == "raised"


async def test_an_error_at_its_end_is_the_attempts() -> None:
    @contextmanager
    def failing() -> Generator[Basket]:
        yield Basket()
        raise ValueError("cannot be flushed")

    sales = make()
    sales.provide(Basket, factory=failing)

    @sales.handler
    async def place(message: PlaceOrder, basket: Basket, context: rowbus.Context) -> None:
        await context.send("Billing", PlaceOrder("42"))

    outcome = await run_handlers(sales, PlaceOrder("42"))

    assert str(outcome.error) == "cannot be flushed"
    assert outcome.sends == ()


async def test_a_def_handlers_is_made_and_ended_in_its_thread() -> None:
    threads = list[threading.Thread]()

    @contextmanager
    def basket(context: rowbus.SyncContext) -> Generator[Basket]:
        threads.append(threading.current_thread())
        yield Basket()
        threads.append(threading.current_thread())

    sales = make()
    sales.provide(Basket, factory=basket, scope="message")

    @sales.handler
    def place(message: PlaceOrder, basket: Basket) -> None:
        threads.append(threading.current_thread())

    assert (await run_handlers(sales, PlaceOrder("42"))).error is None

    assert len(set(threads)) == 1
    assert threads[0] is not threading.main_thread()


# ------------------------------------------------------------------------------------------- the life of the endpoint


async def test_what_has_the_endpoints_scope_is_made_at_the_start_and_ends_after_the_last_handler(
    endpoints: Endpoints,
) -> None:
    made, seen, ended = list[Cart](), list[Cart](), list[str]()

    def cart() -> Cart:
        made.append(Cart("shared"))
        return made[-1]

    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    sales.provide(Cart, factory=cart, scope="endpoint")

    @sales.handler
    async def place(message: PlaceOrder, cart: Cart) -> None:
        assert not cart.ended
        seen.append(cart)

    @sales.handler
    def place_too(message: PlaceOrder, cart: Cart) -> None:
        seen.append(cart)

    for round_ in (1, 2):
        async with sales:
            await sales.send("Sales", PlaceOrder("42"))
            await eventually(lambda wanted=2 * round_: len(seen) == wanted)
            ended.append(made[-1].ended)
        ended.append(made[-1].ended)

    assert ended == ["", "returned", "", "returned"]
    assert seen == [made[0], made[0], made[1], made[1]]
    assert await endpoints.backend.rows(ERROR) == []


async def test_a_start_that_fails_ends_what_it_has_made(endpoints: Endpoints) -> None:
    made = list[Cart]()

    def cart() -> Cart:
        made.append(Cart())
        return made[-1]

    def basket() -> Basket:
        raise ValueError("no baskets")

    sales = endpoints.make("Sales")
    sales.provide(Cart, factory=cart, scope="endpoint")
    sales.provide(Basket, factory=basket, scope="endpoint")

    with pytest.raises(ValueError, match="no baskets"):
        await sales.start()

    assert made[0].ended == "raised"


# ------------------------------------------------------------------------------------------------------------- tests


async def test_a_test_gives_others_and_their_factories_are_not_called() -> None:
    def never() -> Cart:
        raise AssertionError("made")

    sales, seen = make(), list[object]()
    sales.provide(Cart, factory=never)
    sales.provide(Basket, factory=Basket, scope="endpoint")
    sales.provide(Limits, Limits(3))

    @sales.handler
    async def place(message: PlaceOrder, cart: Cart, limits: Limits, basket: Basket) -> None:
        seen.extend([cart.name, limits.most, type(basket)])

    @sales.handler
    def place_too(message: PlaceOrder, limits: Limits) -> None:
        seen.append(limits.most)

    outcome = await run_handlers(sales, PlaceOrder("42"), provide={Cart: Cart("fake"), Limits: Limits(1)})

    assert outcome.error is None
    assert seen == ["fake", 1, Basket, 1]


async def test_a_test_cannot_give_what_is_not_provided() -> None:
    with pytest.raises(rowbus.ConfigurationError, match="Cart is not provided, so it cannot be replaced"):
        await run_handlers(make(), PlaceOrder("42"), provide={Cart: Cart()})


# ----------------------------------------------------------------------------------------------------------- mistakes


def test_a_parameter_that_nothing_was_provided_for_is_refused_at_registration() -> None:
    sales = make()
    sales.provide(Limits, Limits(3))

    async def place(message: PlaceOrder, context: rowbus.Context, basket: Basket) -> None: ...

    with pytest.raises(rowbus.ConfigurationError) as caught:
        sales.handler(place)

    assert "its parameter 'basket' is of type Basket, which the endpoint does not provide" in str(
        caught.value
    )
    assert "provided so far: Limits." in str(caught.value)


def test_so_is_one_in_the_place_of_the_context() -> None:
    async def place(message: PlaceOrder, basket: Basket) -> None: ...

    with pytest.raises(rowbus.ConfigurationError, match="its parameter 'basket' is of type Basket"):
        make().handler(place)


def test_so_is_one_that_does_not_say_what_it_is() -> None:
    async def place(message: PlaceOrder, context: rowbus.Context, more) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - the point

    with pytest.raises(rowbus.ConfigurationError, match="its parameter 'more' is not annotated"):
        make().handler(place)


class Baskets:
    async def __call__(self) -> Basket:
        return Basket()


def test_a_def_handler_cannot_have_what_an_object_makes_asynchronously() -> None:
    sales = make()
    sales.provide(Basket, factory=Baskets())

    def place(message: PlaceOrder, basket: Basket) -> None: ...

    with pytest.raises(rowbus.ConfigurationError, match="Basket is made asynchronously for each message"):
        sales.handler(place)


@every("factory", [Cart, of_coroutine, of_manager, of_function])
def test_a_def_handler_cannot_have_what_is_made_asynchronously(factory: Callable[..., Any]) -> None:
    sales = make()
    sales.provide(Cart, factory=factory)

    def place(message: PlaceOrder, cart: Cart) -> None: ...

    with pytest.raises(rowbus.ConfigurationError, match="Cart is made asynchronously for each message"):
        sales.handler(place)


async def test_also_where_only_the_call_shows_it() -> None:
    async def basket() -> Basket:
        return Basket()

    sales = make()
    sales.provide(Basket, factory=lambda: basket())  # noqa: PLW0108 - hides the coroutine

    @sales.handler
    def place(message: PlaceOrder, basket: Basket) -> None: ...

    outcome = await run_handlers(sales, PlaceOrder("42"))

    assert isinstance(outcome.error, rowbus.HandlerError)


def wants_two(context: rowbus.Context, more: int) -> Basket:
    raise NotImplementedError


def wants_context(context: rowbus.Context) -> Basket:
    raise NotImplementedError


MISTAKES: dict[str, tuple[Callable[[rowbus.Endpoint], None], str]] = {
    "twice": (lambda sales: sales.provide(Limits, Limits(4)), "Limits is provided already"),
    "neither": (lambda sales: sales.provide(Basket), "takes a value or a factory"),  # type: ignore[call-overload]
    "a factory as the value": (
        lambda sales: sales.provide(Basket, wants_context),
        r"wants_context\(context\) is no Basket: give what makes one as factory=…",
    ),
    "a class as the value": (lambda sales: sales.provide(Basket, Basket), "is no Basket"),
    "two arguments": (
        lambda sales: sales.provide(Basket, factory=wants_two),  # type: ignore[arg-type]
        "must take nothing, or the handler's context",
    ),
    "a context for the endpoint": (
        lambda sales: sales.provide(Basket, factory=wants_context, scope="endpoint"),
        "what it makes is for one message",
    ),
}


@every("mistake", MISTAKES)
def test_mistakes_are_refused(mistake: str) -> None:
    act, said = MISTAKES[mistake]
    sales = make()
    sales.provide(Limits, Limits(3))

    with pytest.raises(rowbus.ConfigurationError, match=said):
        act(sales)


async def test_nothing_is_added_of_which_the_start_takes_care_while_the_endpoint_runs(
    endpoints: Endpoints,
) -> None:
    async def take(_message: object) -> None: ...

    sales = endpoints.make("Sales")
    sales.handler("Shop.Shipped", subscribe=True)(take)
    async with sales:
        with pytest.raises(rowbus.ConfigurationError, match="is started: provide before"):
            sales.provide(Limits, Limits(3))
        for late in (
            {"subscribe": True},
            {"long": True},
            {"limit": rowbus.RateLimit("1/second")},
        ):
            with pytest.raises(
                rowbus.ConfigurationError, match="are registered before their endpoint starts"
            ):
                sales.handler("Shop.Late", **late)(take)
        sales.handler("Shop.Shipped", subscribe=True)(take)
        sales.handler("Shop.Late", subscribe=False)(take)
    sales.handler("Shop.Later", subscribe=True)(take)
