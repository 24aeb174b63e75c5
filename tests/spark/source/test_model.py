"""Snapshots, offsets, cuts and splits, without a database."""

from __future__ import annotations

import json
import random
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.errors import ConfigurationError
from rowbus.spark.log_source.decisions import (
    TableRange,
    TableSample,
    choose_cut,
    choose_tick,
    clip,
    left_of,
    split,
    split_budget,
)
from rowbus.spark.log_source.offset import (
    Cut,
    LogOffset,
    Place,
    Segment,
    TickPosition,
    TxidSnapshot,
    offsets_from_json,
    offsets_to_json,
    search_between,
    segments,
    tick_steps,
)
from tests.fixtures.every import every


def position(number: int) -> TickPosition:
    return TickPosition(number, f"{number * 10}:{number * 10}:", number * 100, "2026-11-20T00:00:00Z")


A, B, C = map(position, (1, 2, 3))
HERE, THERE = Place(1, 40, 7), Place(1, 80, 7)


@given(st.randoms(use_true_random=False))
def test_a_snapshot_sees_what_had_ended(rng: random.Random) -> None:
    running = sorted(rng.sample(range(100, 120), rng.randrange(5)))
    text = f"{running[0] if running else 120}:120:{','.join(map(str, running))}"
    snapshot = TxidSnapshot.parse(text)
    for transaction in range(95, 125):
        assert snapshot.sees(transaction) == (transaction < 120 and transaction not in running)


def history(rng: random.Random) -> list[TxidSnapshot]:
    """Make the snapshots of moments one after the other, with transactions that begin, last and end."""
    snapshots, running, following = [], set[int](), 100
    for _ in range(rng.randrange(2, 12)):
        for _ in range(rng.randrange(5)):
            begun = range(following, following + rng.randrange(1, 60))
            following = begun.stop
            running |= set(rng.sample(begun, min(len(begun), 3)))
        running -= {each for each in running if rng.random() < 0.5}
        snapshots.append(TxidSnapshot(min(running, default=following), following, tuple(sorted(running))))
    return snapshots


@given(st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_each_transaction_has_the_tick_that_first_saw_it(rng: random.Random) -> None:
    first, *later = history(rng)
    steps = tick_steps(list(enumerate(later)))
    assert steps.breaks == sorted(steps.breaks)
    for transaction in range(90, later[-1].xmax + 1):
        if later[-1].sees(transaction) and not first.sees(transaction):
            expected = next(number for number, snapshot in enumerate(later) if snapshot.sees(transaction))
            assert steps.ticks[bisect_right(steps.breaks, transaction)] == expected


@given(st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_the_search_finds_all_that_lies_between(rng: random.Random) -> None:
    first, *_, last = history(rng)
    low, high, late = search_between(first, last)
    for transaction in range(90, last.xmax + 1):
        if last.sees(transaction) and not first.sees(transaction):
            assert (low <= transaction < high) != (transaction in late)
    assert all(last.sees(transaction) and not first.sees(transaction) for transaction in late)


@every(
    "start, end, expected",
    [
        (LogOffset(A), LogOffset(A), []),
        (LogOffset(A), LogOffset(C), [Segment(A, C)]),
        (LogOffset(A), LogOffset(A, Cut(B, HERE)), [Segment(A, B, None, HERE)]),
        (LogOffset(A), LogOffset(B, Cut(C, HERE)), [Segment(A, B), Segment(B, C, None, HERE)]),
        (LogOffset(A, Cut(B, HERE)), LogOffset(A, Cut(B, THERE)), [Segment(A, B, HERE, THERE)]),
        (LogOffset(A, Cut(B, HERE)), LogOffset(B), [Segment(A, B, HERE)]),
        (LogOffset(A, Cut(B, HERE)), LogOffset(C), [Segment(A, B, HERE), Segment(B, C)]),
        (
            LogOffset(A, Cut(B, HERE)),
            LogOffset(B, Cut(C, THERE)),
            [Segment(A, B, HERE), Segment(B, C, None, THERE)],
        ),
    ],
)
def test_what_lies_between_two_offsets(start: LogOffset, end: LogOffset, expected: list[Segment]) -> None:
    assert segments(start, end) == expected


def test_offsets_are_written_in_one_way_and_read_again() -> None:
    offsets = {"b": LogOffset(A), "a": LogOffset(B, Cut(C, HERE))}
    text = json.dumps(offsets_to_json(offsets))
    assert offsets_from_json(text) == offsets
    assert json.dumps(offsets_to_json(dict(reversed(offsets.items())))) == text
    assert text == (
        '{"v": 1, "a": {"tick": 2, "snap": "20:20:", "seq": 200, "ts": "2026-11-20T00:00:00Z", '
        '"to": {"tick": 3, "snap": "30:30:", "seq": 300, "ts": "2026-11-20T00:00:00Z"}, '
        '"tbl": 1, "blk": 40, "node": 7}, '
        '"b": {"tick": 1, "snap": "10:10:", "seq": 100, "ts": "2026-11-20T00:00:00Z"}}'
    )


@every(
    "text",
    [
        "{}",
        "[]",
        '{"v": 2}',
        '{"v": 1, "a": 7}',
        '{"v": 1, "a": {"tick": 1}}',
        '{"v": 1, "a": {"tick": "x"}}',
    ],
)
def test_offsets_that_are_not_ours_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="offset"):
        offsets_from_json(text)


def test_a_limit_takes_whole_ticks_and_at_least_one() -> None:
    ticks = [A, B, C]  # at 100, 200, 300 events
    assert choose_tick(0, ticks, events=250) == B
    assert choose_tick(0, ticks, events=1) == A
    assert choose_tick(0, ticks) == C
    assert choose_tick(0, ticks, most=2) == B
    assert choose_tick(0, []) is None


def test_logs_share_a_limit_by_what_waits_and_each_gets_something() -> None:
    assert split_budget(100, {"a": 900, "b": 100}) == {"a": 90, "b": 10}
    assert split_budget(10, {"a": 10**6, "b": 1, "c": 0}) == {"a": 9, "b": 1, "c": 1}


tables = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 300), st.integers(0, 5000)), min_size=1, max_size=2
).map(
    lambda found: [
        TableRange(n, f"t{n}", 9, first, first + more, events)
        for n, (first, more, events) in enumerate(found)
    ]
)


@given(tables, st.integers(1, 3000))
@settings(max_examples=300)
def test_cuts_one_after_the_other_cover_each_block_once(ranges: list[TableRange], events: int) -> None:
    covered: list[tuple[int, int]] = []
    place: Place | None = None
    while True:
        upto = choose_cut(ranges, place, events)
        for part in clip(ranges, place, upto):
            covered += [(part.table, block) for block in range(part.first, part.last + 1)]
        if upto is None:
            break
        assert place is None or (upto.table, upto.block) > (place.table, place.block)
        place = upto
    assert covered == [
        (each.table, block) for each in ranges if each.events for block in range(each.first, each.last + 1)
    ]


@given(tables, st.integers(1, 9), st.none() | st.integers(1, 2000))
@settings(max_examples=300)
def test_parts_cover_each_block_once(ranges: list[TableRange], least: int, most: int | None) -> None:
    parts = split(ranges, least=least, most_events=most)
    covered = [(part.table, block) for part in parts for block in range(part.first, part.end)]
    assert covered == [
        (each.table, block) for each in ranges if each.events for block in range(each.first, each.last + 1)
    ]
    if any(each.events for each in ranges):
        assert len(parts) >= min(least, *(each.last - each.first + 1 for each in ranges if each.events))


@given(st.lists(st.integers(0, 40), min_size=4, max_size=64), st.integers(1, 5000), st.integers(1, 9))
def test_parts_of_a_sampled_table_cover_all_of_it(counts: list[int], blocks: int, least: int) -> None:
    sample = TableSample(0, "t", 9, blocks, tuple(counts))
    parts = split([sample], least=least)
    if sample.events:
        assert [part.first for part in parts] == [0, *(part.end for part in parts[:-1])]
        assert parts[-1].end == blocks


def test_parts_of_a_sampled_table_are_of_about_the_same_size() -> None:
    sample = TableSample(0, "t", 9, 1000, (0, 0, 10, 10, 10, 10, 20, 20))
    edges = [part.end for part in split([sample], least=4)]
    assert edges == [500, 750, 875, 1000]


def test_what_is_left_behind_a_place_is_reckoned_by_blocks() -> None:
    table = TableRange(1, "t", 7, 0, 99, 1000)
    [left] = left_of([table], HERE)
    assert (left.first, left.events) == (40, 600)
    assert left_of([table], Place(1, 100, 7)) == []
