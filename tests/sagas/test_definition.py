"""Mistakes in a saga's class are refused when the class is made, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pydantic
import pytest

import rowbus
from tests.fixtures.every import every
from tests.sagas.shop import OrderSaga, OrderState, PaymentOverdue, PlaceOrder


@dataclass
class State:
    steps: int = 0


def by_order(message: PlaceOrder) -> str:
    return message.order_id


def never_begins() -> None:
    class Idle(rowbus.Saga[State]):
        pass


def is_a_def() -> None:
    class Blocking(rowbus.Saga[State]):
        @rowbus.starts(PlaceOrder, by=by_order)
        def placed(self, message: PlaceOrder) -> None: ...


def takes_too_much() -> None:
    class Greedy(rowbus.Saga[State]):
        @rowbus.starts(PlaceOrder, by=by_order)
        async def placed(  # type: ignore[no-untyped-def]  # that is what is wrong
            self,
            message: PlaceOrder,
            context: rowbus.SagaContext,
            more,  # noqa: ANN001 - as above
        ) -> None: ...


def wants_to_take_long() -> None:
    class Lasting(rowbus.Saga[State]):
        @rowbus.starts(PlaceOrder, by=by_order)
        async def placed(self, message: PlaceOrder, context: rowbus.LongContext) -> None: ...


def has_two_methods() -> None:
    class Twice(rowbus.Saga[State]):
        @rowbus.starts(PlaceOrder, by=by_order)
        async def placed(self, message: PlaceOrder) -> None: ...

        @rowbus.handles(PlaceOrder, by=by_order)
        async def again(self, message: PlaceOrder) -> None: ...


def state_needs_more() -> None:
    class Needy(rowbus.Saga[OrderState]):
        @rowbus.starts(PlaceOrder, by=by_order)
        async def placed(self, message: PlaceOrder) -> None: ...


def correlates_by_nothing() -> None:
    class Lost(rowbus.Saga[State], correlation="order_id"):
        @rowbus.starts(PlaceOrder, by=by_order)
        async def placed(self, message: PlaceOrder) -> None: ...


def has_no_state() -> None:
    class Bare(rowbus.Saga):  # type: ignore[type-arg]  # that is what is wrong
        @rowbus.starts(PlaceOrder, by=by_order)
        async def placed(self, message: PlaceOrder) -> None: ...


def upgrades_beyond() -> None:
    class Futuristic(rowbus.Saga[State], version=2):
        @rowbus.starts(PlaceOrder, by=by_order)
        async def placed(self, message: PlaceOrder) -> None: ...

        @rowbus.upgrade(2, 3)
        def to_three(state: dict[str, object]) -> dict[str, object]:  # noqa: N805 - no self
            return state


REFUSED = {
    never_begins: "Idle never begins: declare a method with rowbus.starts.",
    is_a_def: "Blocking.placed must be an `async def`",
    takes_too_much: "Greedy.placed(self, message, context, more) must take (self, message) or (self, message, ",
    wants_to_take_long: "is a SagaContext, and not the LongContext",
    has_two_methods: "Twice has two methods for PlaceOrder: again and placed.",
    state_needs_more: "order_id has none",
    correlates_by_nothing: "Lost: State has no field 'order_id'.",
    has_no_state: "Bare does not say what its state is",
    upgrades_beyond: "upgrade(2, 3) of State: it must lead to a later version, at most 2.",
}


@every("declare", REFUSED, ids=lambda declare: declare.__name__)
def test_what_cannot_be_a_saga_is_refused(declare: Callable[[], None]) -> None:
    with pytest.raises(rowbus.ConfigurationError) as refused:
        declare()
    assert REFUSED[declare] in str(refused.value)


def test_a_saga_is_called_after_its_class_unless_it_is_named() -> None:
    class Named(OrderSaga, name="Shop.Sagas.Other, SagaHost", correlation="order_id"):
        pass

    class Unnamed(OrderSaga, correlation="order_id"):
        pass

    assert (Named.definition.full_name, Named.definition.short_name) == ("Shop.Sagas.Other", "Other")
    assert Unnamed.definition.full_name.endswith(".Unnamed")


def test_what_it_handles_is_read_once() -> None:
    rules = OrderSaga.definition.rules
    timeout = rules[PaymentOverdue].timeout
    assert timeout is not None
    assert timeout.name == "tests.sagas.shop.OrderSaga.overdue"
    assert rules[PaymentOverdue].message is None


class Struct(msgspec.Struct):
    order_id: str
    steps: int = 0


class Model(pydantic.BaseModel):
    order_id: str
    steps: int = 0


@every("kind", [Struct, Model])
def test_states_are_of_any_kind_that_messages_are(kind: type) -> None:
    class Any(rowbus.Saga[kind], correlation="order_id"):  # type: ignore[valid-type]
        @rowbus.starts(PlaceOrder, by=by_order)
        async def placed(self, message: PlaceOrder) -> None: ...

    form, state = Any.definition.form, Any.definition.new_state("1")
    assert form.read(form.write(state), 1) == kind(order_id="1")


def test_a_saga_is_added_before_the_endpoint_starts_and_to_one_with_transactions() -> None:
    none = rowbus.EndpointSettings(transaction_mode=rowbus.TransactionMode.NONE)
    with pytest.raises(rowbus.ConfigurationError, match="no transaction"):
        rowbus.Endpoint("Sales", settings=none).add(OrderSaga)
    with pytest.raises(rowbus.ConfigurationError, match="does not say what its state is"):
        rowbus.Endpoint("Sales").add(rowbus.Saga)
