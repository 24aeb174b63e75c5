"""Lanes as values: which there may be, who has them, whose turn it is, and what waits for what."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

import rowbus
from rowbus.errors import ConfigurationError
from rowbus.messages.dispatch import Send, in_order_of_keys
from rowbus.messages.headers import Header, encode_copied_headers
from rowbus.messages.message import MessageRow, OutgoingMessage
from rowbus.messages.timestamps import format_timestamp
from rowbus.transport.lanes.order import SOON, Order
from rowbus.transport.lanes.rule import Holder, Survey, assign
from rowbus.transport.lanes.turns import LONG, SHORT, Equipment, Turns

NOW = datetime(2026, 11, 27, tzinfo=UTC)


def test_lanes_that_cannot_be_are_refused() -> None:
    for make in (
        lambda: rowbus.by_key(0),
        lambda: rowbus.by_key(2.0),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        rowbus.by_priority,
        lambda: rowbus.by_priority("a", "a"),
        lambda: rowbus.by_priority("a b"),
        lambda: rowbus.by_priority("a", weights=[0]),
        lambda: rowbus.fair(by=""),
        lambda: rowbus.fair(by="Mandant-Ü"),
        lambda: rowbus.fair(lanes=257),
        lambda: rowbus.Endpoint("Sales", lanes=16),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises(ConfigurationError):
            make()


def row(position: int, key: str | None = None, *, waits: float | None = None) -> MessageRow:
    headers = {} if key is None else {Header.KEY: key}
    if waits is not None:
        headers[Header.NOT_BEFORE] = format_timestamp(NOW + timedelta(seconds=waits))
    return MessageRow(str(position), None, encode_copied_headers(headers), b"", position)


def test_every_process_comes_to_the_same_division() -> None:
    survey = Survey(
        (3, 5, 9), {0: Holder(100, 3), 1: Holder(101, 4), 4: Holder(104, 4), 2: Holder(102, None)}
    )
    parts = [assign(survey, process, 7) for process in survey.members]
    assert [sorted(part.lanes) for part in parts] == [[0, 3, 6], [1, 4], [2, 5]]
    assert [part.stranded for part in parts] == [(), (101, 104), ()]
    assert assign(survey, 7, 7) == (frozenset(), ())


def test_what_waits_holds_up_its_key() -> None:
    order = Order(lambda: NOW)
    first, other, second = row(1, "a", waits=5), row(2, "b"), row(3, "a")
    assert order.waiting([other, second], {}) == {}
    assert order.waiting([first, other, second], {}) == {1: 5.0, 3: 5.0}
    assert order.waiting([row(4, "a"), row(5, "b"), row(6)], {1: 4.0, 3: 4.0}) == {4: 4.0}
    assert order.waiting([row(1, "a", waits=0), row(7, "a")], {}) == {}
    order.note(row(8, "c"))
    assert order.waiting([row(9, "c")], {8: 1.0}) == {9: 1.0}


def test_what_a_look_left_out_comes_first_though_it_waits_no_more_when_the_look_ends() -> None:
    order = Order(lambda: NOW)
    order.note(row(1, "a"))
    order.passed_over([1])
    assert order.waiting([row(2, "b"), row(3, "a")], {}) == {3: SOON}
    order.passed_over([])
    assert order.waiting([row(1, "a"), row(3, "a")], {}) == {}


async def take_turns(turns: Turns, lane: str, times: int, taken: list[str]) -> None:
    for _ in range(times):
        async with turns.turn(lane):
            taken.append(lane)
            await asyncio.sleep(0)


async def test_turns_are_shared_by_weight() -> None:
    turns, taken = Turns({"urgent": 4, "bulk": 1}, 1), list[str]()
    async with asyncio.TaskGroup() as group:
        for lane in ("bulk", "urgent"):
            for _ in range(3):
                group.create_task(take_turns(turns, lane, 20, taken))
    early = taken[5:45]
    assert early.count("urgent") == 4 * early.count("bulk")


async def test_a_lane_that_rested_has_saved_no_turns_up() -> None:
    turns, taken = Turns({"a": 1, "b": 1}, 1), list[str]()
    await take_turns(turns, "a", 50, taken)
    async with asyncio.TaskGroup() as group:
        for lane in ("a", "b"):
            for _ in range(2):
                group.create_task(take_turns(turns, lane, 10, taken))
    later = taken[50:70]
    assert abs(later.count("a") - later.count("b")) <= 2


class IdleSession:
    closed = False


async def test_lanes_have_their_last_sessions_again_and_about_equally_many_turns() -> None:
    turns, taken = Turns(dict.fromkeys("bca", 1), 1), list[str]()
    shelf = turns.shelf
    first, second = (Equipment(cast("Any", IdleSession()), None, None) for _ in range(2))
    await shelf.put("a", first)
    await shelf.put("b", second)
    assert shelf.take("a") is first
    assert (shelf.has("a"), shelf.has("b")) == (False, True)
    await shelf.put("b", first)
    assert shelf.take("b") is first
    await shelf.put("a", first)

    async with asyncio.TaskGroup() as group:
        for lane in "bca":
            for _ in range(2):
                group.create_task(take_turns(turns, lane, 20, taken))
    ahead = [taken[:at].count("a") - min(taken[:at].count("b"), taken[:at].count("c")) for at in range(60)]
    assert 5 < max(ahead) <= LONG / SHORT + 1


async def test_a_turn_that_nobody_waits_for_any_more_goes_to_the_next() -> None:
    clock, taken = [0.0], list[str]()
    turns = Turns({"a": 1, "b": 1}, 1, lambda: clock[0])
    async with turns.turn("a"):
        gone, gone_late = (asyncio.create_task(take_turns(turns, "b", 1, [])) for _ in range(2))
        next_one = asyncio.create_task(take_turns(turns, "b", 1, taken))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
    gone_late.cancel()
    await next_one
    assert (gone.cancelled(), gone_late.cancelled(), taken) == (True, True, ["b"])
    async with turns.turn("a") as turn:
        clock[0], late = LONG, asyncio.create_task(take_turns(turns, "b", 1, taken))
        was_over = turn.is_over
        await asyncio.sleep(0)
        assert (was_over, turn.is_over) == (False, True)
    late.cancel()
    async with asyncio.timeout(5):
        await take_turns(turns, "a", 1, taken)


async def test_a_turn_ends_sooner_for_a_lane_that_has_rested_and_a_long_one_counts_for_several() -> None:
    clock, taken = [0.0], list[str]()
    turns = Turns({"a": 1, "b": 1}, 1, lambda: clock[0])
    async with asyncio.TaskGroup() as group, turns.turn("a") as turn:
        for lane in "ab" * 12:
            group.create_task(take_turns(turns, lane, 1, taken))
        await asyncio.sleep(0)
        clock[0] = SHORT
        was_over, clock[0] = turn.is_over, LONG
        assert (was_over, turn.is_over) == (False, True)
    assert taken[:10] == ["b"] * 10

    await take_turns(turns, "a", 3, taken)
    async with turns.turn("a") as turn:
        rested = asyncio.create_task(take_turns(turns, "b", 1, taken))
        await asyncio.sleep(0)
        was_over, clock[0] = turn.is_over, 1.5 * SHORT + LONG
        assert (was_over, turn.is_over) == (False, True)
    await rested


def test_keys_are_sent_in_one_order_so_that_senders_do_not_wait_for_each_other() -> None:
    queue = rowbus.QueueAddress("public", "Sales")

    def send(key: str | None, text: str) -> Send:
        return Send(queue, OutgoingMessage({} if key is None else {Header.KEY: key}, text.encode()))

    sends = [send("b", "1"), send(None, "2"), send("a", "3"), send("b", "4"), send(None, "5")]
    one, other = in_order_of_keys(sends), in_order_of_keys([sends[2], sends[0], sends[3]])
    assert [each.message.body for each in one[:2]] == [b"2", b"5"]
    assert list(one[2:]) == list(other)
    assert [each for each in one if each.message.headers.get(Header.KEY) == "b"] == [sends[0], sends[3]]
