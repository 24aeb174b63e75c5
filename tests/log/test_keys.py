"""An event's worker by its key, and what of an interrupted batch is left."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.errors import ConfigurationError
from rowbus.log.consumers.event_attempts import Keys, resume_after
from rowbus.log.consumers.table import Mark
from rowbus.log.event import Event
from tests.fixtures.strangers import Panic

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def event(number: int, key: str | None = None) -> Event:
    return Event(number, TIME, 1, None, "kind", "{}", key)


def fail(_event: Event) -> object:
    raise ValueError


def panic(_event: Event) -> object:
    raise Panic


EVENTS = st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=40).map(
    lambda keys: [event(number, key) for number, key in enumerate(keys, start=1)]
)


def test_a_key_is_a_field_or_what_a_function_says() -> None:
    assert Keys("extra1").of(event(1, "a")) == "a"
    assert Keys(lambda given: given.id).of(event(7)) == "7"


def test_a_field_that_events_lack_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="extra5"):
        Keys("extra5")


def test_an_event_on_which_the_key_function_fails_counts_as_without_key() -> None:
    assert Keys(fail).of(event(1)) is None
    assert 0 <= Keys(fail).part(event(1), 4) < 4
    assert Keys(lambda _event: sys.exit(3)).of(event(1)) is None
    assert Keys(panic).of(event(1)) is None


@given(EVENTS, st.integers(1, 6))
def test_events_of_one_key_are_in_one_part_in_their_order_and_none_is_missing(
    events: list[Event], parts: int
) -> None:
    split = Keys("extra1").split(events, parts)
    assert len(split) == parts
    assert sorted(event for part in split for event in part) == events
    for part in split:
        assert part == sorted(part)
    for key in "abcd":
        assert sum(any(event.extra1 == key for event in part) for part in split) <= 1


def test_the_part_of_a_key_never_changes() -> None:
    """Else the marks of a batch interrupted by an update of Rowbus would mean other events."""
    assert [Keys("extra1").part(event(1, key), 4) for key in ("a", "b", "Zürich", "")] == [3, 1, 2, 0]
    assert [Keys("extra1").part(event(number), 4) for number in (1, 2, 3)] == [0, 2, 0]


@given(EVENTS, st.integers(1, 5), st.data())
def test_what_parts_have_marked_is_not_left_whatever_the_number_of_workers_now(
    events: list[Event], parts: int, data: st.DataObject
) -> None:
    keys = Keys("extra1")
    marks = [
        Mark(parts, part, data.draw(st.integers(1, 40)))
        for part in data.draw(st.sets(st.integers(0, parts - 1)))
    ]
    done = {mark.part: mark.event for mark in marks}
    expected = [event for event in events if event.id > done.get(keys.part(event, parts), 0)]
    assert list(keys.left(events, marks)) == expected
    after = resume_after(marks) or 0
    assert list(keys.left([event for event in events if event.id > after], marks)) == expected


def test_reading_resumes_only_behind_what_all_parts_have_done() -> None:
    assert resume_after([]) is None
    assert resume_after([Mark(1, 0, 7)]) == 7
    assert resume_after([Mark(2, 0, 7)]) is None
    assert resume_after([Mark(2, 0, 7), Mark(2, 1, 5)]) == 5
    assert resume_after([Mark(2, 0, 7), Mark(2, 1, 5), Mark(1, 0, 6)]) == 6
