"""Locks that make a process the only one of its kind: different names, different locks; and who holds one is named."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from rowbus.database.locks import LockHolder, claim_lock, consumer_lock, describe, hold_lock, mover_lock

NAMES = st.text("ab \"'\\{}[],:", max_size=4)
THREE = st.tuples(NAMES, NAMES, NAMES)


@given(THREE, THREE)
def test_different_consumers_have_different_locks(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (consumer_lock(*one) == consumer_lock(*other)) == (one == other)
    assert (hold_lock(*one[:2]) == hold_lock(*other[:2])) == (one[:2] == other[:2])
    assert (claim_lock(*one[:2]) == claim_lock(*other[:2])) == (one[:2] == other[:2])


@given(THREE, NAMES)
def test_locks_of_different_kinds_are_different(names: tuple[str, str, str], table: str) -> None:
    kinds = [consumer_lock(*names), hold_lock(*names[:2]), claim_lock(*names[:2]), mover_lock(table)]
    assert len(set(kinds)) == len(kinds)


def test_a_space_no_longer_moves_from_one_name_to_the_next() -> None:
    assert consumer_lock("a b", "c") != consumer_lock("a", "b c")


def test_names_without_a_space_have_the_locks_that_older_versions_take() -> None:
    assert consumer_lock("orders", "billing") == "rowbus consumer orders billing "
    assert consumer_lock("orders", "billing", "1") == "rowbus consumer orders billing 1"
    assert hold_lock("orders", "spark") == "rowbus hold orders spark"
    assert claim_lock('"public"."Sales"', "spark") == '"public"."Sales" spark'


def test_a_holder_is_named_as_far_as_it_may_be_seen() -> None:
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    seen = LockHolder(7, "mallory", "psql", "10.0.0.1", since)
    assert (
        str(seen) == "psql as mallory (process 7 of the server, from 10.0.0.1, since 2026-01-02 03:04:05 UTC)"
    )
    assert str(LockHolder(7, None, "", None, None)) == "a program without a name (process 7 of the server)"
    assert describe([]) == "a session that has just ended"


def test_what_a_session_calls_itself_does_not_break_a_line() -> None:
    assert str(LockHolder(7, "a\nb", "c\x1b[2J\u202ed", None, None)) == (
        "c\\x1b[2J\\u202ed as a\\nb (process 7 of the server)"
    )
