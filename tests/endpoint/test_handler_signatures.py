"""Handlers: what a function takes is read from its signature, and a message finds those of its types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from rowbus.endpoint.context import Context, SyncContext
from rowbus.endpoint.handlers import REMEMBERED, Handlers
from rowbus.errors import ConfigurationError, UnknownMessageTypeError
from rowbus.messages.message_types import command, event
from tests.fixtures.every import every


@command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str


@event("Shop.OrderPlaced", parents=("Shop.IOrderEvent",))
@dataclass
class OrderPlaced:
    order_id: str


@event("Shop.IOrderEvent")
class OrderEvent(msgspec.Struct):
    order_id: str


async def place(order: PlaceOrder, context: Context) -> None: ...


async def note(order: OrderPlaced) -> None: ...


def watch(happened: OrderEvent, context: SyncContext) -> None: ...


async def take_anything(body: dict[str, Any]) -> None: ...


def planned(handlers: Handlers, types: str | None) -> list[str]:
    return [handler.function.__name__ for handler in handlers.plans[types]]


def with_all() -> Handlers:
    handlers = Handlers()
    for function in (watch, note, place):
        handlers.add(function)
    return handlers


def test_a_function_handles_the_type_its_message_is_annotated_with() -> None:
    handlers = with_all()

    assert handlers.names() == ("Shop.IOrderEvent", "Shop.OrderPlaced", "Shop.PlaceOrder")
    assert planned(handlers, "Shop.PlaceOrder") == ["place"]


def test_how_to_call_it_is_read_from_its_signature() -> None:
    handlers = with_all()

    (placing,) = handlers.plans["Shop.PlaceOrder"]
    (noting, watching) = handlers.plans["Shop.OrderPlaced;Shop.IOrderEvent"]

    assert (placing.is_async, placing.takes_context) == (True, True)
    assert (noting.is_async, noting.takes_context) == (True, False)
    assert (watching.is_async, watching.takes_context) == (False, True)
    assert placing.name == f"{__name__}.place"


def test_each_handler_gets_the_message_as_its_own_type() -> None:
    (noting, watching) = with_all().plans["Shop.OrderPlaced;Shop.IOrderEvent"]

    assert noting.read(b'{"order_id":"42"}') == OrderPlaced("42")
    assert watching.read(b'{"order_id":"42"}') == OrderEvent("42")


def test_handlers_of_the_most_concrete_type_come_first() -> None:
    assert planned(with_all(), "Shop.OrderPlaced;Shop.IOrderEvent") == ["note", "watch"]
    assert planned(with_all(), "Shop.IOrderEvent;Shop.OrderPlaced") == ["watch", "note"]


def test_handlers_of_one_type_are_called_in_the_order_they_were_registered() -> None:
    async def second(order: PlaceOrder) -> None: ...

    handlers = Handlers()
    handlers.add(place)
    handlers.add(second)

    assert planned(handlers, "Shop.PlaceOrder") == ["place", "second"]


def test_a_handler_of_several_types_of_a_message_is_called_once() -> None:
    handlers = Handlers()
    handlers.add(take_anything, ("Shop.OrderPlaced", "Shop.IOrderEvent"))

    assert planned(handlers, "Shop.OrderPlaced;Shop.IOrderEvent") == ["take_anything"]


def test_and_as_the_most_concrete_of_them() -> None:
    handlers = Handlers()
    handlers.add(take_anything, ("Shop.IOrderEvent", "Shop.OrderPlaced"))

    (handler,) = handlers.plans["Shop.OrderPlaced;Shop.IOrderEvent"]

    assert handler.read.name == "Shop.OrderPlaced"


def test_a_dotnet_assembly_qualified_name_is_cut_to_the_full_name() -> None:
    types = (
        "Shop.OrderPlaced, Shop, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null;Shop.IOrderEvent, Shop"
    )

    assert planned(with_all(), types) == ["note", "watch"]


def test_a_type_alone_reaches_the_handlers_of_the_parents_declared_for_it_and_of_theirs() -> None:
    @event("Shop.OrderPlacedTwice", parents=("Shop.OrderPlaced",))
    @dataclass
    class OrderPlacedTwice:
        order_id: str

    handlers = with_all()

    assert planned(handlers, "Shop.OrderPlaced") == ["note", "watch"]
    assert planned(handlers, "Shop.OrderPlacedTwice") == ["note", "watch"]
    assert planned(handlers, "Shop.PlaceOrder;Shop.OrderPlaced, Shop") == ["place", "note", "watch"]


def test_types_nobody_handles_are_passed_over_if_another_is_handled() -> None:
    assert planned(with_all(), "Shop.Secret;Shop.PlaceOrder") == ["place"]


@every("types", [None, ""])
def test_a_message_without_types_says_so(types: str | None) -> None:
    with pytest.raises(UnknownMessageTypeError, match="does not say what it is") as caught:
        _ = with_all().plans[types]
    assert caught.value.types == ()


def test_an_unknown_type_says_what_is_handled_here() -> None:
    with pytest.raises(
        UnknownMessageTypeError, match=r"No handler for A or B; handled here: .*Shop\.PlaceOrder"
    ) as caught:
        _ = with_all().plans["A;B"]
    assert caught.value.types == ("A", "B")


@every("types", ["Shop.PlaceOrder;", " Shop.PlaceOrder ; ", ";Shop.PlaceOrder", "Shop.PlaceOrder;;A", " "])
def test_an_empty_name_among_the_types_is_an_error_as_in_dotnet(types: str) -> None:
    with pytest.raises(UnknownMessageTypeError, match="empty name") as caught:
        _ = with_all().plans[types]
    assert isinstance(caught.value.__cause__, LookupError)


def test_an_endpoint_without_handlers_says_none() -> None:
    with pytest.raises(UnknownMessageTypeError, match="handled here: none"):
        _ = Handlers().plans["A"]


def test_a_handler_registered_later_is_found_too() -> None:
    async def late(order: PlaceOrder) -> None: ...

    handlers = with_all()
    assert handlers.plans["Shop.PlaceOrder"]

    handlers.add(late)

    assert planned(handlers, "Shop.PlaceOrder") == ["place", "late"]


def test_header_values_made_up_by_strangers_do_not_fill_the_memory() -> None:
    handlers = with_all()
    for number in range(REMEMBERED + 100):
        assert handlers.plans[f"Shop.PlaceOrder, Assembly{number}"]

    assert len(handlers.plans) == REMEMBERED


def test_a_wire_name_given_by_hand_wins_over_the_annotation() -> None:
    handlers = Handlers()
    handlers.add(place, ("Old.PlaceOrder",))

    assert handlers.names() == ("Old.PlaceOrder",)


def no_parameters() -> None: ...


def three_parameters(message: PlaceOrder, context: SyncContext, more: int) -> None: ...


@every("function", [no_parameters, three_parameters])
def test_a_function_that_cannot_be_called_as_a_handler_is_refused(function: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(ConfigurationError, match=r"must take \(message\)|more' is of type int, which"):
        Handlers().add(function)


def unannotated(message, context) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - the point


def of_dict(message: dict[str, Any]) -> None: ...


def of_bytes(message: bytes) -> None: ...


@every("function", [unannotated, of_dict, of_bytes])
def test_a_function_that_does_not_say_which_message_is_refused_with_the_way_out(function: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(ConfigurationError, match=r'@endpoint\.handler\("Namespace\.Message"\)'):
        Handlers().add(function)


def of_int(message: int) -> None: ...


def test_a_message_that_has_no_json_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be a dataclass"):
        Handlers().add(of_int)


def of_nobody_knows(message: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - the point


def test_an_annotation_that_cannot_be_found_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="'Nowhere' cannot be found at run time"):
        Handlers().add(of_nobody_knows)
