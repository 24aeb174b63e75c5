"""A saga's state and its row: what a message leaves can be read by the next, and is found by the same value."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pydantic
import pytest

import rowbus
from rowbus.sagas.definition import Definition, Layout
from rowbus.sagas.invocation import read_state, written_state
from rowbus.sagas.state import Upgrade
from rowbus.sagas.table import SagaRow
from tests.fixtures.every import every
from tests.sagas.shop import PlaceOrder


class Stage(Enum):
    OPEN = "open"


@dataclass
class State:
    order_id: str
    count: int = 0
    stage: Stage = Stage.OPEN
    lines: list[str] = field(default_factory=list)
    total: Decimal = Decimal(0)


class UnwrittenState(pydantic.BaseModel):
    order_id: str = pydantic.Field(default="", exclude=True)


class EmailState(pydantic.BaseModel):
    email: str

    @pydantic.field_validator("email")
    @classmethod
    def folded(cls, email: str) -> str:
        return email.lower()


@dataclass
class ById:
    order_id: UUID


def defined(
    state: type, correlation: str = "order_id", layout: Layout = "rowbus", upgrade: Upgrade | None = None
) -> Definition:
    """Return what a saga is with this state, and with an upgrade of version 1."""
    declared: Any = None if upgrade is None else rowbus.upgrade(1, 2)(upgrade)
    version = 1 if upgrade is None else 2

    class Process(
        rowbus.Saga[state],  # type: ignore[valid-type]  # each test's own
        name="Shop.Process",
        correlation=correlation,
        layout=layout,
        version=version,
    ):
        upgraded = declared

        @rowbus.starts(PlaceOrder, by=lambda message: message.order_id)
        async def placed(self, message: PlaceOrder) -> None: ...

    return Process.definition


def row(state: str, correlation: str = "R1", version: int = 1) -> SagaRow:
    return SagaRow("id-1", correlation, state, version, 1, None, None)


@every("layout", ["rowbus", "nservicebus"])
@every("name, value", [("count", "x"), ("count", 1.5), ("stage", "shut"), ("lines", [1]), ("lines", None)])
def test_a_state_that_the_next_message_could_not_read_is_not_written(
    layout: Layout, name: str, value: object
) -> None:
    definition, state = defined(State, layout=layout), State("R1", 3)
    assert written_state(definition, row("{}"), state) == definition.form.write(state)
    setattr(state, name, value)
    if layout == "nservicebus" and value is None:  # left out, which reads as the class has it
        assert read_state(definition, row(written_state(definition, row("{}"), state))).lines == []
        return
    with pytest.raises(rowbus.SagaStateError, match=r"Saga id-1 .* stays as it was.*could not be read again"):
        written_state(definition, row("{}"), state)


def test_a_state_that_would_lose_what_it_is_found_by_is_not_written() -> None:
    definition = defined(UnwrittenState)
    with pytest.raises(
        rowbus.SagaStateError, match=r"has '' in UnwrittenState\.order_id, by which its row is not found"
    ):
        written_state(definition, row("{}"), UnwrittenState(order_id="R1"))


@every(
    "definition, state",
    [
        (defined(State), '{"number": "R1"}'),  # renamed without an upgrade; missing altogether
        (defined(State), '{"order_id": "R2"}'),
        (defined(UnwrittenState), '{"order_id": ""}'),
        (defined(State, upgrade=lambda state: {**state, "order_id": "CHANGED"}), '{"order_id": "R1"}'),
    ],
)
def test_a_row_is_refused_that_is_found_by_another_value_than_its_state_has(
    definition: Definition, state: str
) -> None:
    with pytest.raises(
        rowbus.SagaStateError, match=r"Saga id-1 of Shop\.Process \(found by 'R1'\) cannot be read"
    ):
        read_state(definition, row(state))


@every(
    "definition, correlation, state",
    [
        (defined(State), "R1", '{"order_id": "R1"}'),
        (defined(State, upgrade=lambda state: {"order_id": state["number"]}), "R1", '{"number": "R1"}'),
        (defined(EmailState, "email"), "Ann@Shop.example", '{"email": "ann@shop.example"}'),
        (
            defined(ById),
            "6F9619FF8B86D011B42D00CF4FC964FF",
            '{"order_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}',
        ),
    ],
)  # fmt: skip - a row a line
def test_a_row_is_read_that_is_found_by_what_its_class_makes_of_the_value(
    definition: Definition, correlation: str, state: str
) -> None:
    read_state(definition, row(state, correlation))
