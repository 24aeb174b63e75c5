"""A saga's state in its row: written and read without loss, through the versions of its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import rowbus
from rowbus.sagas.state import StateForm, Step
from tests.fixtures.every import every


@dataclass
class State:
    amount: Decimal = Decimal("0.00")
    note: str = ""


FORM = StateForm(State, 3, [])


def test_a_state_comes_back_as_it_was() -> None:
    state = State(Decimal("19.90"), 'ü"\n')
    assert FORM.read(FORM.write(state), 3) == state


def noted(text: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda state: {**state, "note": f"{state.get('note', '')}{text}"}


@every(
    "steps, version, note",
    [
        ([(1, 2), (2, 3), (3, 4)], 1, "1-2 2-3 3-4 "),
        ([(1, 2), (2, 3), (3, 4)], 3, "3-4 "),
        ([(2, 3)], 1, "2-3 "),  # version 2 only added a field
        ([(2, 3)], 3, ""),  # so did version 4
        ([(1, 2), (3, 4)], 1, "1-2 3-4 "),
        ([(1, 3), (2, 3)], 1, "1-3 "),
        ([(1, 3), (2, 3)], 2, "2-3 "),
        ([(1, 4), (3, 4)], 2, "3-4 "),
        ([], 1, ""),
    ],
)
def test_an_older_state_goes_through_every_step_to_the_newest(
    steps: list[tuple[int, int]], version: int, note: str
) -> None:
    form = StateForm(State, 4, [Step(start, end, noted(f"{start}-{end} ")) for start, end in steps])
    state = form.read('{"amount": 19.90}', version)
    assert state == State(Decimal("19.90"), note)
    assert str(state.amount) == "19.90"


@every(
    "steps, reason",
    [
        ([(2, 2)], r"upgrade\(2, 2\) of State: it must lead to a later version"),
        ([(4, 5)], "must lead to a later version, at most 4"),
        ([(1, 2), (1, 3)], "two begin at the same version"),
        ([(1, 3)], r"passes over version 2, whose rows have no way to 3: declare upgrade\(2, 3\)"),
        ([(1, 3), (2, 4)], r"upgrade\(2, 4\) of State passes over version 3"),
        ([(1, 4), (2, 3)], "passes over version 3"),
    ],
)
def test_a_version_without_a_way_is_refused(steps: list[tuple[int, int]], reason: str) -> None:
    with pytest.raises(rowbus.ConfigurationError, match=reason):
        StateForm(State, 4, [Step(start, end, noted("")) for start, end in steps])


def test_what_is_no_state_or_a_newer_one_is_refused() -> None:
    with pytest.raises(rowbus.SagaVersionError, match="of version 4, and this program knows 3"):
        FORM.read("{}", 4)
    with pytest.raises(rowbus.SagaStateError, match="its state is not a State"):
        FORM.read('{"amount": []}', 3)
    with pytest.raises(rowbus.SagaStateError, match="no State but a dict"):
        FORM.write({})  # type: ignore[arg-type]  # that is what is wrong
