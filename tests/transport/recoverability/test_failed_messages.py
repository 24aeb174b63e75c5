"""The story of a failed message, read from its headers; which are meant; and what is left of it when it goes back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.messages.malformed_headers import MALFORMED_PREFIX
from rowbus.transport.recoverability.failed_message import (
    ALL,
    FailedMessage,
    Selection,
    group,
    read,
    retried_headers,
)
from tests.fixtures.every import every
from tests.fixtures.places import GOLDEN

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SALES = QueueAddress("public", "Sales")
ERRORS = QueueAddress("public", "error")
FAILED = FailedMessage(
    "row-1",
    1,
    "message-1",
    "Shop.PlaceOrder",
    "shop.errors.OutOfStockError",
    "no tents",
    SALES,
    NOON,
    "Sales",
)


def test_the_story_is_read_from_the_headers() -> None:
    text = json.dumps(
        {
            Header.MESSAGE_ID: "message-1",
            Header.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder, Shop, Version=1.0.0.0;Shop.ICommand",
            Header.EXCEPTION_TYPE: "shop.errors.OutOfStockError",
            Header.EXCEPTION_MESSAGE: "no tents",
            Header.FAILED_QUEUE: '"public"."Sales"',
            Header.TIME_OF_FAILURE: "2026-05-01 12:00:00:000000 Z",
            Header.PROCESSING_ENDPOINT: "Sales",
        }
    )

    assert read("row-1", 1, text, error_queue=ERRORS) == FAILED


def test_a_row_as_dotnet_writes_it_has_a_story() -> None:
    golden = json.loads((GOLDEN / "failed_message_null_help_link.json").read_text("utf-8"))

    failed = read("row", 1, golden["headers_text"], error_queue=ERRORS)

    assert failed.exception == golden["expected_headers"][Header.EXCEPTION_TYPE]
    assert failed.failed_queue is not None
    assert failed.failed_at is not None


@every("text", [None, "", "{}", json.dumps({Header.FAILED_QUEUE: "", Header.TIME_OF_FAILURE: "x"})])
def test_a_row_that_says_nothing_goes_by_its_own_id(text: str | None) -> None:
    assert read("row-1", 7, text, error_queue=ERRORS) == FailedMessage(
        "row-1", 7, "row-1", "", "", "", None, None, ""
    )


def test_a_row_that_nobody_can_read_says_why() -> None:
    failed = read("row-1", 7, "null", error_queue=ERRORS)

    assert not failed.is_readable
    assert failed.message_id == "row-1"
    assert "null instead of an object" in failed.reason


@given(st.one_of(st.none(), st.text(), st.dictionaries(st.text(), st.text()).map(json.dumps)))
def test_whatever_the_text_is_there_is_a_story(text: str | None) -> None:
    assert ALL.fits(read("row-1", 1, text, error_queue=ERRORS))


# --------------------------------------------------------------------------------------------------------- selections


@every(
    "selection, fits",
    [
        (Selection(), True),
        (Selection(ids=frozenset({"message-1", "other"})), True),
        (Selection(ids=frozenset({"row-1"})), True),
        (Selection(ids=frozenset({"message"})), False),
        (Selection(exceptions=frozenset({"shop.errors.OutOfStockError"})), True),
        (Selection(exceptions=frozenset({"OutOfStockError"})), True),
        (Selection(exceptions=frozenset({"errors.OutOfStockError"})), False),
        (Selection(exceptions=frozenset({"StockError"})), False),
        (Selection(types=frozenset({"PlaceOrder"})), True),
        (Selection(types=frozenset({"Shop.CancelOrder"})), False),
        (Selection(failed_queue=SALES), True),
        (Selection(failed_queue=QueueAddress("shop", "Sales")), False),
        (Selection(since=NOON), True),
        (Selection(since=NOON + timedelta(microseconds=1)), False),
        (Selection(until=NOON), False),
        (Selection(until=NOON + timedelta(microseconds=1)), True),
        (Selection(ids=frozenset({"message-1"}), until=NOON), False),
        (Selection(exceptions=frozenset({"OutOfStockError"}), types=frozenset({"PlaceOrder"})), True),
        (Selection(exceptions=frozenset({"KeyError"}), types=frozenset({"PlaceOrder"})), False),
    ],
)
def test_a_message_is_meant_when_it_fits_everything_given(selection: Selection, *, fits: bool) -> None:
    assert selection.fits(FAILED) is fits


def test_the_last_part_of_a_nested_dotnet_type_is_after_the_plus() -> None:
    nested = FAILED._replace(type="Shop.Orders+Place")

    assert Selection(types=frozenset({"Place"})).fits(nested)


@every("bound", [Selection(since=NOON), Selection(until=NOON)])
def test_a_message_that_does_not_tell_when_it_failed_is_in_no_period(bound: Selection) -> None:
    assert not bound.fits(FAILED._replace(failed_at=None))


# ------------------------------------------------------------------------------------------------------------- groups


def test_messages_are_counted_by_exception_type_and_queue_the_largest_group_first() -> None:
    later = FAILED._replace(seq=5, failed_at=NOON + timedelta(hours=1), reason="no stoves")
    earlier = FAILED._replace(seq=6, failed_at=NOON - timedelta(hours=1))
    other = FAILED._replace(seq=9, exception="KeyError")
    elsewhere = FAILED._replace(seq=2, failed_queue=QueueAddress("public", "Billing"))

    groups = group([FAILED, other, later, elsewhere, earlier])

    assert [(one.size, one.latest) for one in groups] == [(3, later), (1, other), (1, elsewhere)]
    assert groups[0].first_failed_at == NOON - timedelta(hours=1)


def test_a_group_whose_messages_tell_no_time_goes_by_their_order() -> None:
    first, second = (FAILED._replace(seq=seq, failed_at=None, reason=str(seq)) for seq in (1, 2))

    (one,) = group([second, first])

    assert one.latest == second
    assert one.first_failed_at is None


# ----------------------------------------------------------------------------------------------------------- way back


def test_what_goes_back_is_without_the_story_of_its_failure_as_servicecontrol_sends_it() -> None:
    story = {
        Header.RETRIES: "3",
        Header.RETRIES_TIMESTAMP: "2026-05-01 12:00:00:000000 Z",
        Header.FAILED_QUEUE: '"public"."Sales"',
        Header.TIME_OF_FAILURE: "2026-05-01 12:00:00:000000 Z",
        Header.EXCEPTION_TYPE: "KeyError",
        Header.INNER_EXCEPTION_TYPE: "KeyError",
        Header.EXCEPTION_HELP_LINK: None,
        Header.EXCEPTION_MESSAGE: "'a'",
        Header.EXCEPTION_STACK_TRACE: "…",
        f"{Header.EXCEPTION_DATA_PREFIX}Message ID": "1",
        "ServiceControl.EditOf": "3",
        f"{MALFORMED_PREFIX}{Header.RETRIES_TIMESTAMP}": "noon",
    }
    kept = {
        Header.MESSAGE_ID: "1",
        Header.PROCESSING_ENDPOINT: "Sales",
        Header.RETRY_UNIQUE_MESSAGE_ID: "2",
        "NServiceBus.RetriesOfMine": "not ours to keep: ServiceControl looks at the beginning only",
        "Shop": "Kraków",
    }

    left = retried_headers({**story, f"{MALFORMED_PREFIX}{Header.SAGA_ID}": " ", **kept})

    del kept["NServiceBus.RetriesOfMine"]
    assert left == {Header.SAGA_ID: " ", **kept}
