"""Mistakes in what a handler is are refused when it is registered, with what to write instead."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import rowbus
from rowbus.endpoint.steps.context import StepContext
from rowbus.errors import ConfigurationError
from rowbus.running.signals import Serving
from tests.fixtures.every import every


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str


@rowbus.command("Shop.PlaceOrder")
@dataclass
class OrderToPlace:
    order_id: str


async def sync_context(order: PlaceOrder, context: rowbus.SyncContext) -> None: ...


def async_context(order: PlaceOrder, context: rowbus.Context) -> None: ...


async def a_log_s_context(order: PlaceOrder, context: rowbus.LogContext) -> None: ...


async def a_step_s_context(order: PlaceOrder, context: StepContext) -> None: ...


class Shop:
    async def place(self, order: PlaceOrder) -> None: ...


def yielding(order: PlaceOrder) -> Iterator[None]:
    yield


async def yielding_too(order: PlaceOrder) -> AsyncIterator[None]:
    yield


HERE = __name__
REFUSALS: dict[str, tuple[Callable[..., Any], str]] = {
    "the context of def handlers": (
        sync_context,
        (
            "sync_context is an `async def`, so its context is a Context, and not the SyncContext that it is annotated "
            "with: write context: rowbus.Context, or make it a `def`."
        ),
    ),
    "the context of async def handlers": (
        async_context,
        (
            "async_context is a `def`, so its context is a SyncContext, and not the Context that it is annotated with: "
            "write context: rowbus.SyncContext, or make it an `async def`."
        ),
    ),
    "the context of a log's handlers": (
        a_log_s_context,
        (
            "a_log_s_context is an `async def`, so its context is a Context, and not the LogContext that it is "
            "annotated with: write context: rowbus.Context."
        ),
    ),
    "the context of steps": (
        a_step_s_context,
        (
            "a_step_s_context is an `async def`, so its context is a Context, and not the StepContext that it is "
            "annotated with: write context: rowbus.Context."
        ),
    ),
    "a method": (
        Shop.place,
        (
            "Shop.place is a method of a class, and there is no object yet: register it on one, as in "
            "endpoint.handler(shop.place), or make it a function."
        ),
    ),
    "a static method": (
        staticmethod(Shop.place),
        "Shop.place does not say what it takes: call it in a function of yours.",
    ),
    "a generator": (yielding, "yielding has a `yield`, so calling it would run nothing: use `return`."),
    "an asynchronous generator": (
        yielding_too,
        "yielding_too has a `yield`, so calling it would run nothing: use `return`.",
    ),
}


@every("case", REFUSALS)
def test_a_function_that_cannot_be_a_handler_is_refused(case: str) -> None:
    function, text = REFUSALS[case]

    with pytest.raises(ConfigurationError) as caught:
        rowbus.Endpoint("Sales").handler(function)
    assert str(caught.value) == text


@every("thing", [Shop, partial(Shop.place, Shop()), classmethod(lambda _cls: None), None, 42])
def test_a_class_or_an_object_is_refused(thing: Any) -> None:  # noqa: ANN401 - what is no function
    with pytest.raises(
        ConfigurationError, match=r"is no function: a handler is a function, or the method of an"
    ):
        rowbus.Endpoint("Sales").handler(thing)


def test_the_method_of_an_object_and_untyped_contexts_are_taken() -> None:
    sales = rowbus.Endpoint("Sales")

    async def place(order: PlaceOrder, context) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]

    sales.handler(Shop().place)
    sales.handler(place)  # pyright: ignore[reportUnknownArgumentType]


def test_two_classes_for_one_wire_name_are_refused() -> None:
    sales = rowbus.Endpoint("Sales")

    @sales.handler
    async def place(_order: PlaceOrder) -> None: ...

    async def place_too(_order: OrderToPlace) -> None: ...

    with pytest.raises(ConfigurationError) as caught:
        sales.handler(place_too)
    assert str(caught.value) == (
        f"Two classes have the wire name Shop.PlaceOrder: {HERE}.PlaceOrder and {HERE}.OrderToPlace. Handle one of "
        "them, or give one another name."
    )


@dataclass
class Placement:
    times: int = 0


class Placing(rowbus.Saga[Placement], name="Shop.Placing"):
    @rowbus.starts(PlaceOrder, by=lambda _order: "one")
    async def placed(self, order: PlaceOrder) -> None: ...


class PlacingElsewhere(Placing, name="Elsewhere.Placing"): ...


class Delay(Placing, name="Shop.Delayed"): ...


@every(
    "sagas, settings, twice",
    [
        (
            [Placing, PlacingElsewhere],
            {},
            '"Sales.Placing" twice, as the table of the saga Shop.Placing and as the table of the saga Elsewhere',
        ),
        ([Placing, Placing], {}, '"Sales.Placing" twice'),
        (
            [Delay],
            {},
            '"Sales.Delayed" twice, as the table of the saga Shop.Delayed and as the table of its delayed messages:',
        ),
        (
            [],
            {"error_queue": "Sales"},
            '"Sales" twice, as a queue that it receives from and as the queue of its failed',
        ),
        ([], {"subscription_table": "error"}, '"error" twice'),
    ],
)
def test_no_table_is_two_of_an_endpoint_s(sagas: list[Any], settings: dict[str, Any], twice: str) -> None:
    sales = rowbus.Endpoint("Sales", database="host=nowhere", settings=rowbus.EndpointSettings(**settings))
    for saga in sagas:
        sales.add(saga)

    with pytest.raises(ConfigurationError, match=re.escape(f'Endpoint Sales has "public".{twice}')):
        asyncio.run(sales.install())


def test_an_endpoint_without_handlers_does_not_run() -> None:
    with pytest.raises(ConfigurationError) as caught:
        rowbus.Endpoint("Sales", database="postgresql://nowhere").run()
    assert str(caught.value) == (
        "Endpoint Sales has no handlers, so each of its messages would end in the queue "
        '"public"."error". Import the modules with its @handler functions before it runs.'
    )


def test_a_consumer_of_a_log_needs_a_name() -> None:
    log = rowbus.Log("postgresql://nowhere", "orders")

    async def note(event: rowbus.Event) -> None: ...

    with pytest.raises(ConfigurationError) as caught:
        log.consumer(note)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - the mistake
    assert str(caught.value) == (
        'A consumer needs a name, under which its position is kept: @log.consumer("revenue").'
    )


def test_a_consumer_s_context_is_a_log_s() -> None:
    log = rowbus.Log("postgresql://nowhere", "orders")

    async def note(event: rowbus.Event, context: rowbus.SyncLogContext) -> None: ...

    with pytest.raises(ConfigurationError) as caught:
        log.consumer("one")(note)
    assert "note is an `async def`, so its context is a LogContext, and not the SyncLogContext" in str(
        caught.value
    )


async def test_run_in_a_running_loop_says_what_to_write() -> None:
    class Sales(Serving):
        async def start(self) -> None: ...

        async def stop(self, timeout: float | None = None) -> None: ...  # noqa: ASYNC109 - a service's

    instead = re.escape("`async with sales: …`, or `await sales.start()`")
    with pytest.raises(ConfigurationError, match=instead):
        Sales().run()
    with pytest.raises(ConfigurationError, match=f"main thread only.*{instead}"):
        await asyncio.to_thread(Sales().run)
