"""The value by which a saga is found has the type of the state's field, however a message spells it."""

from __future__ import annotations

from dataclasses import make_dataclass
from datetime import UTC, datetime
from enum import Enum, IntEnum
from typing import Any, Literal
from uuid import UUID

import msgspec
import pydantic
import pytest

import rowbus
from rowbus.testing import SagaScenario
from tests.fixtures.every import every

ID = UUID("6f9619ff-8b86-d011-b42d-00cf4fc964ff")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Region(Enum):
    NORTH = "north"


class Level(IntEnum):
    LOW = 1


@rowbus.command("Shop.Open")
class Open(msgspec.Struct):
    value: Any


@rowbus.command("Shop.Step")
class Step(msgspec.Struct):
    pass


class Model(pydantic.BaseModel):
    value: int
    steps: int = 0


def saga_of(annotation: object) -> type[rowbus.Saga[Any]]:
    """Return a saga that is found by a field of this type: by a property that begins it, then by a header."""
    state: Any = (
        annotation
        if annotation is Model
        else make_dataclass("State", [("value", annotation), ("steps", int, 0)])
    )

    class Process(rowbus.Saga[state], correlation="value"):
        @rowbus.starts(Open, by=lambda message: message.value)
        async def opened(self, message: Open) -> None:
            self.state.steps += 1

        @rowbus.handles(Step, by="Key")
        async def stepped(self, message: Step) -> None:
            self.state.steps += 1

    return Process


@every(
    "annotation, opening, header, value",
    [
        (int, 5, "5", 5),
        (int, "05", " +5 ", 5),
        (Model, "5", "5", 5),
        (int | None, "5", "5", 5),
        (str, 5, "5", "5"),
        (str, ID, str(ID), str(ID)),
        (int | str, "5", "5", "5"),
        (UUID | int, "5", "5", 5),
        (UUID, str(ID).upper(), f"{{{ID}}}", ID),
        (UUID, ID, ID.hex, ID),
        (datetime, "2026-01-01T13:00:00+01:00", "2026-01-01 12:00:00:000000 Z", NOON),
        (datetime, NOON, "2026-01-01T12:00:00Z", NOON),
        (Region, "north", "north", Region.NORTH),
        (Level, "1", "1", Level.LOW),
        (Literal["a", "b"], "a", "a", "a"),
        (Any, "a", "a", "a"),
    ],
)
async def test_all_spellings_of_a_value_are_one_saga(
    annotation: object, opening: object, header: str, value: object
) -> None:
    process = SagaScenario(saga_of(annotation))
    outcomes = [
        await process.when(Open(opening)),
        await process.when(Open(value)),
        await process.when(Step(), headers={"Key": header}),
    ]
    assert [outcome.error for outcome in outcomes] == [None] * 3
    (state,) = process.states
    assert (state.value, state.steps) == (value, 3)
    assert type(state.value) is type(value)


@every(
    "annotation, value, reason",
    [
        (int, "FIVE", "is 'FIVE', of type str, and the saga is found by State.value, int: it cannot be"),
        (int, "5.0", "is '5.0', of type str"),
        (Model, "", "found by Model.value, int"),
        (UUID, "5", "found by State.value, uuid"),
        (int | None, "x", "found by State.value, int or none"),
        (datetime, "noon", "found by State.value, datetime"),
        (datetime, "2026-01-01T12:00:00", "no time zone"),
        (Region, "south", "found by State.value, Region"),
    ],
)
async def test_what_cannot_be_converted_fails_its_message_and_begins_nothing(
    annotation: object, value: str, reason: str
) -> None:
    process = SagaScenario(saga_of(annotation))
    opened = await process.when(Open(value))
    stepped = await process.when(Step(), headers={"Key": value})
    for outcome in (opened, stepped):
        assert isinstance(outcome.error, rowbus.SagaCorrelationError)
        assert reason in str(outcome.error)
    if "zone" not in reason:
        assert "What by= of tests.sagas.test_key.saga_of.<locals>.Process.opened gives is" in str(
            opened.error
        )
        assert "The header Key is" in str(stepped.error)
    assert process.states == []


@every("annotation", [bool, float | None, bytes, list[str], None], ids=str)
def test_a_field_that_can_never_find_a_saga_is_refused(annotation: object) -> None:
    with pytest.raises(rowbus.ConfigurationError, match=r"Process is found by State\.value, "):
        saga_of(annotation)
