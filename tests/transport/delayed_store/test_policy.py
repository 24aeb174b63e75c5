"""Fates of a failed message, when failures are too many, and how messages pass through the Timeouts queue."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rowbus.errors import (
    ConnectionLostError,
    MalformedHeadersError,
    QueueNotFoundError,
    StorageError,
    StoreError,
    StoreUnavailableError,
    TransactionConflictError,
    Unrecoverable,
)
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.delayed_store.decisions import (
    AfterFailure,
    after_failure,
    is_outage,
)
from rowbus.transport.delayed_store.table import DESTINATION, DUE, unwrap, wrap
from tests.fixtures.every import every

AWAY = ConnectionLostError("away", sqlstate=None, transient=True)
BROKEN = StorageError("broken", sqlstate="23514", transient=False)
CONFLICT = TransactionConflictError("deadlock", sqlstate="40P01", transient=True)


@every("retries", [0, 1, 7])
def test_a_message_gets_one_attempt_and_exactly_so_many_retries(retries: int) -> None:
    verdicts = [after_failure(BROKEN, failures=n, retries=retries) for n in range(retries + 1)]

    assert verdicts == [AfterFailure.RETRY] * retries + [AfterFailure.GIVE_UP]


@every(
    "error",
    [
        QueueNotFoundError("gone", queue="q"),
        MalformedHeadersError("bad", text="", reason=""),
        Unrecoverable("no"),
    ],
)
def test_what_no_retry_mends_goes_to_the_error_queue_at_once(error: Exception) -> None:
    assert after_failure(error, failures=0, retries=100) is AfterFailure.GIVE_UP


@every(
    "error",
    [
        AWAY,
        CONFLICT,
        ConnectionRefusedError(),
        TimeoutError(),
        PermissionError("read-only"),
        StoreUnavailableError("away"),
        StoreError("wrong", store="S", method="next"),
        StorageError("locked", sqlstate="55P03", transient=False),
        StorageError("too slow", sqlstate="57014", transient=False),
    ],
)
@every("failures", [0, 1000])
def test_who_is_away_is_waited_for_and_it_counts_against_no_message(error: Exception, failures: int) -> None:
    assert is_outage(error)
    assert after_failure(error, failures=failures, retries=0) is AfterFailure.WAIT


@every("error", [BROKEN, ValueError()])
def test_everything_else_counts(error: Exception) -> None:
    assert not is_outage(error)


HEADERS = some.dictionaries(
    some.text(some.characters(codec="utf-8"), min_size=1).filter(
        lambda name: not name.startswith("NService")
    ),
    some.none() | some.text(some.characters(codec="utf-8")),
)


@given(
    HEADERS,
    some.binary(),
    some.text(some.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20),
    some.datetimes(timezones=some.just(UTC)),
)
def test_what_passes_through_the_timeouts_queue_comes_out_as_it_went_in(
    headers: dict[str, str | None], body: bytes, name: str, due: datetime
) -> None:
    message, destination = OutgoingMessage(headers, body), QueueAddress("public", name)

    wrapped = wrap(message, destination, due)

    assert wrapped.body == body
    assert unwrap(wrapped.headers, destination) == (destination, due, headers)


@every(
    "headers",
    [
        {},
        {DESTINATION: "Billing"},
        {DUE: "2026-01-01 00:00:00:000000 Z"},
        {DESTINATION: "Billing", DUE: "tomorrow"},
        {DESTINATION: "a.", DUE: "2026-01-01 00:00:00:000000 Z"},
        {DESTINATION: None, DUE: None},
    ],
)
def test_what_is_no_delayed_message_is_never_retried(headers: dict[str, str | None]) -> None:
    with pytest.raises(Unrecoverable):
        unwrap({**headers, Header.MESSAGE_ID: "1"}, QueueAddress("public", "Sales.Timeouts"))
