"""Searches for a message's saga: ids, correlations, and what wins. Facts: docs/wire-format.md#headers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.sagas.decisions import (
    Search,
    correlation_text,
    is_for_another,
    is_timeout,
    may_begin,
    saga_id_of,
    search,
    value_of,
)
from tests.fixtures.every import every

SAGA = "Shop.Sagas.OrderSaga"
ID = "0f3c6a5e-1c57-4c62-9d5a-0123456789ab"


OTHER = "Shop.Sagas.Billing"
FORMS = [ID, ID.upper(), f"{{{ID}}}", ID.replace("-", ""), f" {ID} "]
"""The forms of an id that .NET reads."""


WITH_ID = {Header.SAGA_ID: ID}
EVENT = {Header.MESSAGE_INTENT: "Publish"}


@every(
    "headers, found, begins, another",
    [
        ({}, None, True, False),
        *[({Header.SAGA_ID: text}, ID, True, False) for text in FORMS],
        *[({**WITH_ID, Header.SAGA_TYPE: kind}, ID, True, False) for kind in ("Other.Saga, X", "", None)],
        *[({**WITH_ID, Header.SAGA_TYPE: kind}, ID, False, False) for kind in (f"{SAGA}, Host", SAGA)],
        ({**WITH_ID, Header.SAGA_TYPE: f"{OTHER}, Host"}, ID, True, True),
        ({Header.SAGA_TYPE: OTHER}, None, True, False),
        ({**WITH_ID, **EVENT, Header.SAGA_TYPE: OTHER}, None, True, False),  # its publisher's
        ({**WITH_ID, **EVENT, Header.SAGA_TYPE: SAGA}, None, True, False),
        ({Header.SAGA_ID: ""}, None, True, False),
        ({Header.SAGA_ID: "", Header.SAGA_TYPE: SAGA}, None, False, False),
        ({Header.SAGA_ID: "", Header.SAGA_TYPE: OTHER}, None, True, True),
    ],
)
def test_headers_say_which_saga_a_message_is_for(
    headers: dict[str, str | None], found: str | None, *, begins: bool, another: bool
) -> None:
    assert saga_id_of(headers) == found
    assert may_begin(headers, SAGA) is begins
    assert is_for_another(headers, SAGA, {SAGA, OTHER}) is another


@every("text", ["garbage", " ", ID[:-1]])
def test_an_id_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(rowbus.SagaCorrelationError, match=f"'{text}', which is no id"):
        saga_id_of({Header.SAGA_ID: text})


@every("value", ["True", "False", "", None])
def test_a_timeout_is_known_by_its_header_whatever_it_says(value: str | None) -> None:
    assert is_timeout({Header.IS_SAGA_TIMEOUT_MESSAGE: value})
    assert not is_timeout({})


def test_an_id_wins_over_what_a_message_is_correlated_by() -> None:
    assert search(ID, begins=True) is Search.BY_ID
    assert search(None, begins=True) is Search.BEGIN
    assert search(None, begins=False) is Search.BY_CORRELATION


@every(
    "value, text",
    [
        ("R1", "R1"),
        ("", ""),
        ("x" * 200, "x" * 200),
        (42, "42"),
        (-1, "-1"),
        (UUID(ID), ID),
        (datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "2026-01-01 00:00:00:000000 Z"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01 00:00:00:000000 Z"),
    ],
)
def test_values_have_one_text_each(value: object, text: str) -> None:
    assert correlation_text(value) == text


@every(
    "value, reason",
    [
        (None, "is None: give each message"),
        (True, "not by True"),
        (1.5, "not by 1.5"),
        ("x" * 201, "has 201 characters; it may have 200"),
        ("a\0b", "NUL"),
        (datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001 - that is what is wrong
    ],
)
def test_values_that_no_saga_can_be_found_by_are_refused(value: object, reason: str) -> None:
    with pytest.raises(rowbus.SagaCorrelationError) as refused:
        correlation_text(value)
    assert reason in str(refused.value)


def test_a_header_may_say_which_saga_it_is() -> None:
    assert value_of("Shop.OrderId", object(), {"Shop.OrderId": "1"}) == "1"
    with pytest.raises(rowbus.SagaCorrelationError, match=r"no header Shop\.OrderId"):
        value_of("Shop.OrderId", object(), {})
