"""How a message finds its saga: ids, correlations, and what wins. Facts: docs/wire-format.md#headers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.sagas.decisions import Search, correlation_text, is_timeout, saga_id_of, search, value_of
from tests.fixtures.every import every

SAGA = "Shop.Sagas.OrderSaga"
ID = "0f3c6a5e-1c57-4c62-9d5a-0123456789ab"


OTHER = "Shop.Sagas.Billing"
FORMS = [ID, ID.upper(), f"{{{ID}}}", ID.replace("-", ""), f" {ID} "]
"""The forms of an id that .NET reads."""


@every(
    "headers, found",
    [
        *[({Header.SAGA_ID: text}, (ID, False)) for text in FORMS],
        *[
            ({Header.SAGA_ID: ID, Header.SAGA_TYPE: saga_type}, (ID, False))
            for saga_type in (f"{SAGA}, SagaHost, Version=1.0.0.0", SAGA, "Other.Saga, X", "", None)
        ],
        (
            {Header.SAGA_ID: ID, Header.SAGA_TYPE: f"{OTHER}, SagaHost"},
            (None, True),
        ),  # another of the endpoint
        ({Header.SAGA_ID: ID, Header.MESSAGE_INTENT: "Publish"}, (None, True)),  # its publisher's
        ({Header.SAGA_ID: ""}, (None, False)),
    ],
)
def test_an_id_is_used_unless_it_is_for_another_saga(
    headers: dict[str, str | None], found: tuple[str | None, bool]
) -> None:
    assert saga_id_of(headers, SAGA, {SAGA, OTHER}) == found


def test_an_id_that_is_none_is_an_error() -> None:
    with pytest.raises(rowbus.SagaCorrelationError, match="'garbage', which is no id"):
        saga_id_of({Header.SAGA_ID: "garbage"}, SAGA)


@every("value", ["True", "False", "", None])
def test_a_timeout_is_known_by_its_header_whatever_it_says(value: str | None) -> None:
    assert is_timeout({Header.IS_SAGA_TIMEOUT_MESSAGE: value})
    assert not is_timeout({})


def test_only_a_starting_message_without_an_id_begins_a_saga() -> None:
    assert search(ID, may_begin=False, starts=True) is Search.BY_ID
    assert search(None, may_begin=True, starts=True) is Search.BEGIN
    assert search(None, may_begin=False, starts=True) is Search.BY_CORRELATION
    assert search(None, may_begin=True, starts=False) is Search.BY_CORRELATION


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
