"""A saga's state in its row: written and read without loss, through the versions of its class."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import rowbus
from rowbus.sagas.state import StateForm


@dataclass
class State:
    amount: Decimal = Decimal("0.00")
    note: str = ""


def with_note(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "note": f"was {state['amount']}"}


def doubled(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "amount": state["amount"] * 2}


FORM = StateForm(State, 3, {1: (2, with_note), 2: (3, doubled)})


def test_a_state_comes_back_as_it_was() -> None:
    state = State(Decimal("19.90"), 'ü"\n')
    assert FORM.read(FORM.write(state), 3) == state


def test_an_older_state_is_upgraded_step_by_step_without_losing_digits() -> None:
    assert FORM.read('{"amount": 19.90}', 1) == State(Decimal("39.80"), "was 19.90")
    assert FORM.read('{"amount": 19.90}', 2) == State(Decimal("39.80"))


def test_a_newer_state_is_refused() -> None:
    with pytest.raises(rowbus.SagaStateError, match="of version 4, and this program knows 3"):
        FORM.read("{}", 4)


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(rowbus.SagaStateError, match="its state is not a State"):
        FORM.read('{"amount": []}', 3)
    with pytest.raises(rowbus.SagaStateError, match="no State but a dict"):
        FORM.write({})  # type: ignore[arg-type]  # that is what is wrong
