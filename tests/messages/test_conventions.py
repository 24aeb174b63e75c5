"""Classes declared by convention: what they are, what they are called, and where that shows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest

import rowbus
from rowbus.errors import ConfigurationError, MessageSerializationError
from rowbus.messages import message_types
from rowbus.messages.conventions import Classes, Kind
from rowbus.messages.dispatch import event_content
from rowbus.messages.message_names import enclosed_types
from rowbus.messages.message_types import contract_of, with_parents
from rowbus.testing import run_handlers
from tests.fixtures.every import every

HERE = __name__


@dataclass
class OrderEvent:
    order_id: str


@dataclass
class OrderShipped(OrderEvent):
    pass


@dataclass
class ShipOrder:
    order_id: str

    @dataclass
    class Line:
        """A class within another one."""

        article: str


@rowbus.command("Shop.Messages.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str


@pytest.fixture(autouse=True)
def none_before_and_after() -> Iterator[None]:
    """Leave the process without the conventions of these tests."""
    yield
    message_types._conventions.clear()
    message_types._by_own_name.clear()
    for name in [name for name in message_types._parents if name.startswith(("Shop.Made.", HERE))]:
        del message_types._parents[name]
    for cached in (
        message_types.contract_of,
        message_types.declared_contract,
        message_types._types_of,
    ):
        cached.cache_clear()


def shipped(kind: type) -> bool:
    return kind.__name__.startswith("Order")


@every(
    "classes",
    [HERE, f"{HERE}.ShipOrder", f"{HERE}.Ship*", "*.ShipOrder", lambda kind: kind is ShipOrder, ShipOrder],
)
def test_classes_are_given_or_named_by_module_name_pattern_or_function(classes: Classes) -> None:
    rowbus.declare(commands=classes, events=[OrderEvent])
    assert contract_of(ShipOrder) == (f"{HERE}.ShipOrder", (), Kind.COMMAND)


def test_what_no_convention_means_is_a_message_of_its_own_name() -> None:
    rowbus.declare(commands=[f"{HERE}.Ship", "another.module"], events=lambda _kind: False)
    assert contract_of(ShipOrder) == (f"{HERE}.ShipOrder", (), Kind.MESSAGE)


def test_modules_stand_for_namespaces_and_the_innermost_counts() -> None:
    outer = HERE.rpartition(".")[0]
    rowbus.declare(messages=HERE, namespaces={outer: "Shop", HERE: "Shop.Made"})
    assert contract_of(ShipOrder).name == "Shop.Made.ShipOrder"
    assert contract_of(ShipOrder.Line).name == "Shop.Made.ShipOrder+Line"  # as .NET names a nested class


def test_a_module_within_has_the_namespace_of_the_one_around_it() -> None:
    rowbus.declare(messages=HERE, namespaces={HERE.partition(".")[0]: "Shop.Made"})
    assert contract_of(ShipOrder).name == "Shop.Made.ShipOrder"


def test_bases_that_are_messages_are_parents_also_for_who_names_the_derived_alone() -> None:
    rowbus.declare(events=shipped, namespaces={HERE: "Shop.Made"})
    assert contract_of(OrderEvent).parents == ()
    assert with_parents(["Shop.Made.OrderShipped"]) == ("Shop.Made.OrderShipped", "Shop.Made.OrderEvent")
    assert contract_of(OrderShipped).types == ("Shop.Made.OrderShipped", "Shop.Made.OrderEvent")


def test_an_assembly_is_that_of_all_classes_of_a_convention() -> None:
    rowbus.declare(events=shipped, namespaces={HERE: "Shop.Made"}, assembly="Shop.Events")
    written = enclosed_types(contract_of(OrderShipped).types)
    assert [entry.split(", ")[:2] for entry in written.split(";")] == [
        ["Shop.Made.OrderShipped", "Shop.Events"],
        ["Shop.Made.OrderEvent", "Shop.Events"],
    ]


def test_a_decorator_wins_and_the_first_convention_counts() -> None:
    rowbus.declare(events=f"{HERE}.*Order")
    rowbus.declare(commands=HERE, namespaces={HERE: "Shop.Made"})
    assert contract_of(PlaceOrder) == ("Shop.Messages.PlaceOrder", (), Kind.COMMAND)
    assert contract_of(ShipOrder) == (f"{HERE}.ShipOrder", (), Kind.EVENT)
    assert contract_of(OrderShipped).name == "Shop.Made.OrderShipped"


def test_a_class_that_is_two_things_is_refused() -> None:
    rowbus.declare(commands=HERE, events=shipped)
    with pytest.raises(ConfigurationError, match="OrderShipped is command and event by convention"):
        contract_of(OrderShipped)


def test_a_convention_that_comes_too_late_is_refused_and_changes_nothing() -> None:
    name = contract_of(ShipOrder)
    with pytest.raises(ConfigurationError, match="ShipOrder is in use without a convention"):
        rowbus.declare(commands=HERE)
    assert contract_of(ShipOrder) == name


@every(
    "given",
    [
        {},
        {"namespaces": {HERE: "Shop"}},
        {"commands": [""]},
        {"events": HERE, "namespaces": {HERE: "Shop; "}},
    ],
)
def test_conventions_that_say_nothing_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        rowbus.declare(**given)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_an_endpoint_subscribes_to_events_by_convention_and_sends_them_by_their_names() -> None:
    rowbus.declare(events=shipped, commands=f"{HERE}.ShipOrder", namespaces={HERE: "Shop.Made"})
    shipping = rowbus.Endpoint("Shipping", database="host=nowhere")
    shipping.route(ShipOrder, to="Warehouse")

    @shipping.handler
    async def ship(message: ShipOrder, context: rowbus.Context) -> None:
        await context.publish(OrderShipped(message.order_id))
        await context.send(message)
        with pytest.raises(MessageSerializationError, match="is a command"):
            await context.publish(message)

    @shipping.handler
    async def note(message: OrderEvent) -> None: ...

    outcome = asyncio.run(run_handlers(shipping, ShipOrder("1")))

    assert outcome.error is None
    assert shipping._handlers.events() == ("Shop.Made.OrderEvent",)
    assert [(sent.types, sent.destination.table) for sent in outcome.sends] == [
        (("Shop.Made.OrderShipped", "Shop.Made.OrderEvent"), "subscribers"),
        (("Shop.Made.ShipOrder",), "Warehouse"),
    ]
    with pytest.raises(ConfigurationError, match="is an event"):
        shipping.route(OrderShipped, to="Warehouse")


def test_an_event_of_a_log_has_the_name_of_its_convention() -> None:
    rowbus.declare(events=shipped, namespaces={HERE: "Shop.Made"})
    assert event_content(OrderShipped("1")).type == "Shop.Made.OrderShipped"
    assert event_content(cast("object", ShipOrder("1"))).type is None
