"""The copy of a failed message: everything the original said, plus its failure, as ServiceControl reads it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.errors import MalformedHeadersError, RowbusError
from rowbus.errors.strangers import type_name
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header, Identity, decode_headers, encode_headers
from rowbus.messages.message import MessageRow, OutgoingMessage
from rowbus.transport.recoverability.failure_headers import (
    CUT,
    LONGEST_MESSAGE,
    LONGEST_RAW_HEADERS,
    LONGEST_TRACEBACK,
    RAW_HEADERS,
    brief_headers,
    failed_message,
    poison_message,
)
from tests.fixtures.every import every

patiently = settings(deadline=None, max_examples=60)

NOW = datetime(2026, 4, 29, 21, 56, 55, 590807, tzinfo=UTC)
SALES = QueueAddress("public", "Sales")
IDENTITY = Identity("Sales", "machine-7", "0123456789abcdef0123456789abcdef")


def failed(
    error: BaseException, headers: dict[str, str | None] | None = None, **data: str
) -> OutgoingMessage:
    return failed_message(
        headers={Header.MESSAGE_ID: "m-1"} if headers is None else headers,
        body=b"{}",
        error=error,
        failed_queue=SALES,
        identity=IDENTITY,
        now=NOW,
        data=data,
    )


def fail(error: BaseException, cause: BaseException | None) -> None:
    raise error from cause


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """Give the error with a traceback, and with a cause if there is one."""
    with pytest.raises(type(error)) as caught:
        fail(error, cause)
    return caught.value


def test_the_original_headers_and_body_are_kept() -> None:
    headers = {
        "Shop.Tenant": "42",
        Header.MESSAGE_INTENT: "Publish",
        Header.EXPIRES: "no more",
        "absent": None,
    }
    copy = failed(ValueError("no"), headers)

    assert copy.body == b"{}"
    assert copy.headers["Shop.Tenant"] == "42"
    assert copy.headers[Header.MESSAGE_INTENT] == "Publish"
    assert copy.headers["absent"] is None
    assert Header.EXPIRES not in copy.headers


def test_it_says_where_when_and_by_whom_it_failed() -> None:
    headers = failed(ValueError("no")).headers

    assert headers[Header.FAILED_QUEUE] == '"public"."Sales"'
    assert headers[Header.TIME_OF_FAILURE] == "2026-04-29 21:56:55:590807 Z"
    assert headers[Header.PROCESSING_ENDPOINT] == "Sales"
    assert headers[Header.PROCESSING_MACHINE] == headers[Header.HOST_DISPLAY_NAME] == "machine-7"
    assert headers[Header.HOST_ID] == "0123456789abcdef0123456789abcdef"


def test_it_tells_the_exception_with_its_stack() -> None:
    headers = failed(raised(ValueError("no such order"))).headers

    assert headers[Header.EXCEPTION_TYPE] == "ValueError"
    assert headers[Header.EXCEPTION_MESSAGE] == "no such order"
    assert (headers[Header.EXCEPTION_STACK_TRACE] or "").startswith(
        f"ValueError: no such order\n   at {__name__}.fail() in {__file__}:line "
    )
    assert headers[Header.EXCEPTION_SOURCE] == "tests"
    traceback = headers[Header.EXCEPTION_TRACEBACK] or ""
    assert "raise error from cause" in traceback
    assert traceback.endswith("ValueError: no such order\n")


def test_an_exceptions_data_and_notes_are_told_and_ours_win() -> None:
    error = ValueError("no")
    error.data = {"OrderId": 42, "Message ID": "theirs"}  # type: ignore[attr-defined]
    error.add_note("for the third time")

    headers = failed(raised(error), None, **{"Message ID": "m-1"}).headers

    assert headers["NServiceBus.ExceptionInfo.Data.OrderId"] == "42"
    assert headers["NServiceBus.ExceptionInfo.Data.Message ID"] == "m-1"
    assert headers["NServiceBus.ExceptionInfo.Data.Notes"] == "for the third time"


def test_the_inner_exception_of_a_group_is_its_first() -> None:
    headers = failed(ExceptionGroup("two things", [KeyError("a"), ValueError("b")])).headers

    assert headers[Header.INNER_EXCEPTION_TYPE] == "KeyError"


def test_an_exception_is_named_with_its_module() -> None:
    class OutOfStockError(Exception):
        pass

    assert type_name(RowbusError("x")) == "rowbus.errors.RowbusError"
    assert type_name(OutOfStockError()).endswith("<locals>.OutOfStockError")
    assert type_name(KeyError("x")) == "KeyError"


def test_the_inner_exception_is_the_cause() -> None:
    headers = failed(raised(ValueError("outer"), RowbusError("inner"))).headers

    assert headers[Header.INNER_EXCEPTION_TYPE] == "rowbus.errors.RowbusError"
    assert "inner" in (headers[Header.EXCEPTION_STACK_TRACE] or "")


def test_or_what_was_being_handled_when_it_was_raised() -> None:
    error = ValueError("outer")
    error.__context__ = KeyError("inner")

    assert failed(error).headers[Header.INNER_EXCEPTION_TYPE] == "KeyError"


def test_without_an_inner_exception_there_is_no_such_header() -> None:
    assert Header.INNER_EXCEPTION_TYPE not in failed(ValueError("no")).headers


def test_the_exceptions_message_is_cut_at_16384_characters_and_in_its_stack_alike() -> None:
    assert LONGEST_MESSAGE == 16_384
    headers = failed(raised(ValueError("ż" * 20_000))).headers

    assert headers[Header.EXCEPTION_MESSAGE] == "ż" * 16_384
    assert (headers[Header.EXCEPTION_STACK_TRACE] or "").count("ż") == 16_384
    assert "ż" * 20_000 in (headers[Header.EXCEPTION_TRACEBACK] or "")


def test_halves_of_surrogate_pairs_are_written_as_escapes() -> None:
    headers = failed(raised(ValueError("bad \udc80 name")), None, argument="\ud800").headers

    assert headers[Header.EXCEPTION_MESSAGE] == "bad \\udc80 name"
    assert headers["NServiceBus.ExceptionInfo.Data.argument"] == "\\ud800"
    encode_headers(headers)


def test_facts_about_the_failure_become_data_headers() -> None:
    headers = failed(ValueError(), None, **{"Message ID": "m-1", "Handler type": "shop.place"}).headers

    assert headers["NServiceBus.ExceptionInfo.Data.Message ID"] == "m-1"
    assert headers["NServiceBus.ExceptionInfo.Data.Handler type"] == "shop.place"


def test_the_retry_counters_are_removed_and_the_time_of_the_last_retry_stays() -> None:
    headers = failed(
        ValueError(),
        {
            Header.RETRIES: "3",
            Header.FL_RETRIES: "2",
            Header.WAITING_SINCE: "2026-01-01 00:00:00:000000 Z",
            Header.RETRIES_TIMESTAMP: "2026-01-01 00:00:00:000000 Z",
        },
    ).headers

    assert not headers.keys() & {Header.RETRIES, Header.FL_RETRIES, Header.WAITING_SINCE}
    assert headers[Header.RETRIES_TIMESTAMP] == "2026-01-01 00:00:00:000000 Z"


def test_a_second_failure_replaces_the_story_of_the_first() -> None:
    first = failed(ValueError("first"), {Header.MESSAGE_ID: "m-1", Header.FAILED_QUEUE: '"public"."Old"'})

    again = failed(TypeError("second"), dict(first.headers))

    assert again.headers[Header.EXCEPTION_TYPE] == "TypeError"
    assert again.headers[Header.FAILED_QUEUE] == '"public"."Sales"'


def test_the_copy_never_expires() -> None:
    assert failed(ValueError(), {Header.TIME_TO_BE_RECEIVED: "00:00:05"}).time_to_be_received is None


def test_a_header_that_servicecontrol_cannot_read_is_kept_under_another_name() -> None:
    headers = failed(ValueError(), {Header.TIME_SENT: "2026-04-29T21:56:55Z"}).headers

    assert Header.TIME_SENT not in headers
    assert headers["Rowbus.Malformed.NServiceBus.TimeSent"] == "2026-04-29T21:56:55Z"


def test_a_copy_with_a_trace_begins_a_new_one_when_it_comes_back() -> None:
    wish = {Header.START_NEW_TRACE: "False"}

    assert (
        failed(ValueError(), {**wish, "traceparent": "00-1-2-01"}).headers[Header.START_NEW_TRACE] == "True"
    )
    assert failed(ValueError(), {**wish}).headers[Header.START_NEW_TRACE] == "False"
    assert Header.START_NEW_TRACE not in failed(ValueError(), {}).headers


def test_the_original_mapping_is_left_alone() -> None:
    original: dict[str, str | None] = {Header.RETRIES: "1"}

    failed(ValueError(), original)

    assert original == {Header.RETRIES: "1"}


def test_a_poison_message_is_complete_and_keeps_its_raw_header_text_and_body() -> None:
    row = MessageRow("7f3c", time_left=None, headers='{"a": 1}', body=b"\x00body", seq=1)
    error = MalformedHeadersError("not headers", text=row.headers, reason="a number")

    copy = poison_message(row, error, failed_queue=SALES, identity=IDENTITY, now=NOW)

    assert copy.headers[RAW_HEADERS] == '{"a": 1}'
    assert copy.headers[Header.MESSAGE_ID] == "7f3c"
    assert copy.headers[Header.FAILED_QUEUE] == '"public"."Sales"'
    assert copy.headers[Header.TIME_OF_FAILURE] == "2026-04-29 21:56:55:590807 Z"
    assert copy.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.MalformedHeadersError"
    assert copy.body == b"\x00body"


def test_a_null_body_becomes_an_empty_one() -> None:
    row = MessageRow("7f3c", time_left=None, headers="[]", body=None, seq=1)

    assert poison_message(row, ValueError(), failed_queue=SALES, identity=IDENTITY, now=NOW).body == b""


class OddError(Exception):
    """An error whose text is anything."""


@patiently
@given(text=st.text(st.characters(), max_size=50), value=st.text(st.characters(), max_size=20))
def test_whatever_an_exception_says_its_headers_can_be_sent_and_read(text: str, value: str) -> None:
    headers = failed(raised(OddError(text)), None, value=value).headers

    assert decode_headers(encode_headers(headers)) == headers


@every("offset", [-5, 0, 9])
def test_the_time_of_failure_is_in_utc_wherever_the_clock_is(offset: int) -> None:
    local = NOW.astimezone(timezone(timedelta(hours=offset)))
    copy = failed_message(
        headers={}, body=b"", error=ValueError(), failed_queue=SALES, identity=IDENTITY, now=local
    )

    assert copy.headers[Header.TIME_OF_FAILURE] == "2026-04-29 21:56:55:590807 Z"


def test_what_is_added_to_a_copy_has_a_longest_length() -> None:
    row = MessageRow("7f3c", time_left=None, headers="{" + "x" * 200_000, body=b"", seq=1)
    error = ValueError("y" * 200_000)

    headers = poison_message(row, error, failed_queue=SALES, identity=IDENTITY, now=NOW).headers

    raw, traceback = str(headers[RAW_HEADERS]), str(headers[Header.EXCEPTION_TRACEBACK])
    assert len(raw) == LONGEST_RAW_HEADERS
    assert raw.startswith("{xxx")
    assert raw.endswith("xxx")
    assert CUT in raw
    assert len(traceback) == LONGEST_TRACEBACK
    assert len(str(headers[Header.EXCEPTION_MESSAGE])) == LONGEST_MESSAGE


def test_a_brief_copy_keeps_the_story_and_what_is_short() -> None:
    headers = {
        "Shop.Long": "z" * 100_000,
        "Shop.Nul": "a\0b",
        "Shop.Short": "kept",
        Header.EXCEPTION_MESSAGE: "m" * 16_000,
        Header.FAILED_QUEUE: "Sales",
    } | {f"Shop.{number}": "n" * 900 for number in range(100)}

    brief = brief_headers(headers)

    assert brief[Header.FAILED_QUEUE] == "Sales"
    assert brief["Shop.Short"] == "kept"
    assert str(brief[Header.EXCEPTION_MESSAGE]).startswith("mmm")
    assert not {"Shop.Long", "Shop.Nul"} & set(brief)
    assert sum(len(name) + len(value or "") for name, value in brief.items()) <= 16_384
