"""The pure decisions of delaying: headers, where a message goes, how long a mover sleeps, what settings may be."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.errors import ConfigurationError, InvalidHeaderError, InvalidTimestampError
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import AnySend, DelayedSend, Send, deduplicate
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.outgoing import Content, Options, compose
from rowbus.settings import NativeDelayedDelivery
from rowbus.transport.delayed.policy import (
    MOST_AT_ONCE,
    DueMessage,
    PassedOver,
    Pauses,
    StuckMessages,
    behind,
    by_route,
    route,
)
from rowbus.transport.receiving.dispatcher import NoDelays
from tests.fixtures.every import every

patiently = settings(deadline=None, max_examples=200)

NOW = datetime(2026, 4, 29, 21, 56, 55, tzinfo=UTC)
BILLING = QueueAddress("public", "Billing")
DELAYED = QueueAddress("public", "Sales.Delayed")
SALES = QueueAddress("public", "Sales")
MINUTE = timedelta(minutes=1)
SECOND = 1_000_000  # microseconds
HEADER_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


def headers_of(options: Options) -> dict[str, str | None]:
    content = Content(b"{}", "application/json", ("Shop.PlaceOrder",))
    composed = compose(content, intent="Send", message_id="1", now=NOW, options=options)
    return dict(composed.headers)


# ------------------------------------------------------------------------------------------------------------ headers


def test_a_delayed_message_says_when_it_is_to_be_delivered() -> None:
    assert headers_of(Options(delay=MINUTE))[Header.DELIVER_AT] == "2026-04-29 21:57:55:000000 Z"
    warsaw = timezone(timedelta(hours=2))
    at = datetime(2026, 4, 30, tzinfo=warsaw)
    assert headers_of(Options(deliver_at=at))[Header.DELIVER_AT] == "2026-04-29 22:00:00:000000 Z"


@every("delay", [None, timedelta(), -MINUTE])
def test_one_that_is_not_delayed_does_not(delay: timedelta | None) -> None:
    options = Options(delay=delay)

    assert options.due is None
    assert Header.DELIVER_AT not in headers_of(options)


def test_where_nothing_can_be_delayed_a_message_for_later_is_refused_by_its_destination() -> None:
    with pytest.raises(ConfigurationError, match=r'A message for "public"\."Billing" is to be delayed'):
        NoDelays().statements([DelayedSend(BILLING, OutgoingMessage({}), MINUTE)])


def test_what_a_caller_says_in_the_header_stands() -> None:
    said = "2030-01-01 00:00:00:000000 Z"

    assert headers_of(Options({Header.DELIVER_AT: said}, delay=MINUTE))[Header.DELIVER_AT] == said


def test_what_cannot_be_delivered_is_refused() -> None:
    with pytest.raises(InvalidHeaderError, match="not both"):
        headers_of(Options(delay=MINUTE, deliver_at=NOW))
    with pytest.raises(InvalidHeaderError, match="time_to_be_received"):
        headers_of(Options(None, MINUTE, delay=MINUTE))
    with pytest.raises(InvalidHeaderError, match="9999"):
        headers_of(Options(delay=timedelta.max))
    with pytest.raises(InvalidTimestampError, match="naive"):
        headers_of(Options(deliver_at=datetime(2026, 1, 1)))  # noqa: DTZ001 - the point


def test_of_equal_sends_the_last_counts_whether_delayed_or_not() -> None:
    message = OutgoingMessage({Header.MESSAGE_ID: "a"})
    now, later = Send(BILLING, message), DelayedSend(BILLING, message, MINUTE)
    delayed_last: list[AnySend] = [now, later]

    assert list(deduplicate(delayed_last)) == [later]
    assert list(deduplicate(delayed_last[::-1])) == [now]


# ------------------------------------------------------------------------------------------------------------- routes


@given(NAMES, NAMES, st.dictionaries(HEADER_TEXTS, HEADER_TEXTS))
@patiently
def test_where_a_message_goes_is_found_in_its_text_and_cut_out_without_a_trace(
    schema: str, table: str, headers: dict[str, str]
) -> None:
    headers.pop(Header.FORWARD_DESTINATION, None)
    destination = QueueAddress(schema, table)
    plain = encode_copied_headers({"first": "header", **headers})
    text = encode_copied_headers(
        OutgoingMessage({"first": "header", **headers}).bound_for(destination).headers
    )

    found = route(text, DELAYED)

    assert found is not None
    assert found.destination == destination
    assert text.replace(found.mark, "") == plain


@given(st.dictionaries(HEADER_TEXTS, HEADER_TEXTS), st.text())
@patiently
def test_a_value_that_looks_like_the_header_is_not_taken_for_it(headers: dict[str, str], more: str) -> None:
    headers.pop(Header.FORWARD_DESTINATION, None)
    looks_so = json.dumps({Header.FORWARD_DESTINATION: "Elsewhere"}) + f',"{Header.FORWARD_DESTINATION}":"E"'

    assert route(json.dumps({**headers, "value": looks_so, looks_so: "name"}), DELAYED) is None


def test_the_end_of_another_name_is_not_taken_for_the_header() -> None:
    """A stranger's header, copied into a delayed retry, would otherwise send it to any table."""
    strange = {f'a"{Header.FORWARD_DESTINATION}': "Elsewhere"}

    assert route(encode_copied_headers(strange), DELAYED) is None
    found = route(encode_copied_headers(OutgoingMessage(strange).bound_for(SALES).headers), DELAYED)
    assert found is not None
    assert found.destination == SALES


@given(st.text())
@patiently
def test_any_text_has_a_route_or_none(text: str) -> None:
    route(text, DELAYED)
    route(f'{{"{Header.FORWARD_DESTINATION}":"{text}"}}', DELAYED)


def test_the_dialects_of_net_are_read() -> None:
    slashes = (
        '{"a":"b\\/c","NServiceBus.SqlServer.ForwardDestination":"\\"public\\".\\"B\\u0069lling\\"","x":null}'
    )

    found = route(slashes, DELAYED)

    assert found is not None
    assert found.destination == BILLING
    assert decode_headers(slashes.replace(found.mark, "")) == {"a": "b/c", "x": None}


def test_a_header_that_comes_first_is_left_for_the_receiver_to_take_out() -> None:
    found = route('{"NServiceBus.SqlServer.ForwardDestination":"Billing","x":"y"}', DELAYED)

    assert found == (BILLING, "")


def test_messages_are_grouped_by_where_they_go_in_their_order() -> None:
    there = encode_copied_headers(OutgoingMessage({"a": "b"}).bound_for(BILLING).headers)

    groups = by_route([DueMessage("1", there), DueMessage("2", "{}"), DueMessage("3", there)], DELAYED)

    assert [ids for ids in groups.values()] == [["1", "3"], ["2"]]  # noqa: C416 - the keys are told below
    assert [found and found.destination for found in groups] == [BILLING, None]


# ------------------------------------------------------------------------------------------------------------- pauses


def test_a_mover_sleeps_until_the_next_message_is_due_but_not_for_longer_than_it_may() -> None:
    pauses = Pauses(longest=1.0)

    assert pauses.after(0, None) == 1.0
    assert pauses.after(0, 0.25) == 0.25
    assert pauses.after(0, 3600) == 1.0
    assert pauses.after(0, 0.00001) == pytest.approx(0.001)
    assert pauses.after(5, 0.015) == 0.015


def test_after_it_moved_something_it_looks_soon_and_ever_less_often_until_it_is_idle() -> None:
    pauses = Pauses(longest=0.1)

    assert pauses.after(3, None) == 0.02
    assert [pauses.after(0, None), pauses.after(0, 3600)] == [0.04, 0.08]
    assert [pauses.after(0, None), pauses.after(0, 3600)] == [0.1, 0.1]
    assert pauses.after(1, 3600) == 0.02


def test_it_goes_on_at_once_while_it_moves_something_and_is_patient_with_what_it_cannot_have() -> None:
    pauses = Pauses(longest=1.0)

    assert pauses.after(100, -1) == 0
    waits = [pauses.after(0, -1) for _ in range(10)]
    assert waits[:3] == [0.01, 0.02, 0.04]
    assert waits[-1] == 1.0
    assert pauses.after(1, -1) == 0
    assert pauses.after(0, -1) == 0.01


# ------------------------------------------------------------------------------------------ what cannot be moved


def due(*moments: int) -> list[DueMessage]:
    return [DueMessage(f"{moment}/{number}", "{}", moment) for number, moment in enumerate(moments)]


def test_what_is_passed_over_ends_with_the_last_and_names_those_of_its_moment() -> None:
    first = behind(None, due(0, SECOND, 2 * SECOND, 2 * SECOND))
    second = behind(first, due(2 * SECOND))

    assert first == PassedOver(2 * SECOND, (f"{2 * SECOND}/2", f"{2 * SECOND}/3"))
    assert second == PassedOver(2 * SECOND, (*first.ids, f"{2 * SECOND}/0"))
    assert behind(second, due(3 * SECOND)) == PassedOver(3 * SECOND, (f"{3 * SECOND}/0",))


def test_of_a_moment_with_very_many_all_are_passed_over_so_that_memory_is_bounded() -> None:
    place = behind(None, due(*[SECOND] * MOST_AT_ONCE))
    assert len(place.ids) == MOST_AT_ONCE

    beyond = behind(place, due(SECOND))

    assert beyond.moment > SECOND
    assert beyond.ids == ()


def test_what_cannot_be_moved_is_tried_again_after_ever_longer_waits() -> None:
    now = [0.0]
    stuck = StuckMessages(lambda: now[0])
    waits, tries = list[float](), [stuck.is_to_be_tried]

    stuck.met(due(SECOND))
    for _ in range(8):
        waits.append(stuck.pause())
        tries.append(stuck.is_to_be_tried)
        now[0] += stuck.pause()
        tries.append(stuck.is_to_be_tried)
        stuck.tried(due(SECOND), is_last=True)

    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    assert tries == [False, *[False, True] * 8]


def test_it_is_tried_batch_by_batch_and_forgotten_once_all_of_it_has_gone() -> None:
    now = [0.0]
    stuck = StuckMessages(lambda: now[0])
    stuck.met(due(SECOND, 2 * SECOND))
    now[0] += 1

    batches = [stuck.next_batch]
    for still in (due(SECOND), []):
        stuck.tried(still, is_last=False)
        assert stuck.pause() == 0
        batches.append(stuck.next_batch)
    assert batches == [None, behind(None, due(SECOND)), behind(None, due(SECOND))]
    stuck.tried([], is_last=True)
    assert stuck.place == behind(None, due(SECOND))

    now[0] += stuck.pause()
    stuck.tried([], is_last=True)
    assert not stuck.is_to_be_tried
    stuck.met(due(SECOND))
    assert stuck.pause() == 1


# ----------------------------------------------------------------------------------------------------------- settings


def test_the_defaults_are_those_of_nservicebus_and_careful_ones() -> None:
    native = NativeDelayedDelivery()

    assert (native.table_suffix, native.batch_size) == ("Delayed", 100)
    assert native.longest_look_delay == native.standby_delay == timedelta(seconds=1)
    assert native.silence_timeout == timedelta(seconds=10)


@every(
    "impossible",
    [
        {"table_suffix": ""},
        {"batch_size": 0},
        {"longest_look_delay": timedelta(milliseconds=9)},
        {"longest_look_delay": timedelta(seconds=31), "silence_timeout": timedelta(minutes=5)},
        {"standby_delay": timedelta()},
        {"silence_timeout": timedelta(milliseconds=900)},
        {"longest_look_delay": timedelta(seconds=6)},
    ],
)
def test_what_cannot_work_is_refused(impossible: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        NativeDelayedDelivery(**impossible)
