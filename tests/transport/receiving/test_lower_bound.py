"""The lower bound: spares dead entries at the head of a queue, and strands no message below it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.testing import FakeClock
from rowbus.transport.receiving.decisions import (
    FROM_THE_START,
    INTERVAL,
    LONGEST_INTERVAL,
    MARGIN,
    RESERVE,
    LowerBound,
)
from tests.fixtures.every import every

patiently = settings(deadline=None, max_examples=60)


@dataclass
class Queue:
    """A queue and its only receiver, whose looks take `cost` seconds each."""

    clock: FakeClock
    waiting: set[int] = field(default_factory=set)
    cost: float = 0.0

    def __post_init__(self) -> None:
        self.bound = LowerBound(self.clock)
        self.full_looks = 0

    def receive(self) -> int | None:
        """Take the first message at or above the bound, as `receive.sql` does."""
        started, bound = self.clock(), self.bound.value()
        self.full_looks += bound == FROM_THE_START
        self.clock.advance(self.cost)
        found = min((position for position in self.waiting if position >= bound), default=None)
        if found is not None:
            self.waiting.remove(found)
        self.bound.looked(bound, started, found)
        return found


def queue_read_up_to(position: int) -> Queue:
    """Give a queue in which a message at that position was just received."""
    queue = Queue(FakeClock(), {position})
    queue.receive()
    return queue


def test_the_first_look_is_from_the_start() -> None:
    assert LowerBound(FakeClock()).value() == FROM_THE_START == -(2**31)


def test_the_next_looks_begin_a_little_below_the_last_position() -> None:
    assert queue_read_up_to(1000).bound.value() == 1000 - MARGIN


def test_the_bound_follows_the_queue_upwards() -> None:
    queue = queue_read_up_to(1000)
    queue.waiting = {1001, 5000}
    queue.receive()
    queue.receive()

    assert queue.bound.value() == 5000 - MARGIN


def test_a_look_that_began_earlier_does_not_pull_the_bound_down() -> None:
    queue = queue_read_up_to(1000)

    queue.bound.looked(500, queue.clock(), 600)

    assert queue.bound.value() == 1000 - MARGIN


def test_an_empty_look_leaves_the_bound_where_it_is() -> None:
    queue = queue_read_up_to(1000)

    assert queue.receive() is None
    assert queue.bound.value() == 1000 - MARGIN


def test_a_full_look_falls_due_every_interval() -> None:
    queue = queue_read_up_to(1000)
    looks = []
    for pause in (INTERVAL / 2, INTERVAL / 2):
        queue.clock.advance(pause)
        looks.append((queue.bound.full_look_due, queue.bound.value()))

    assert looks == [(False, 1000 - MARGIN), (True, FROM_THE_START)]


def test_an_empty_full_look_is_also_followed_by_an_interval() -> None:
    queue = Queue(FakeClock())
    queue.receive()

    assert not queue.bound.full_look_due


def test_a_message_that_committed_late_far_below_the_bound_is_found_after_the_interval() -> None:
    queue = queue_read_up_to(1_000_000)
    queue.waiting = {17}
    assert queue.receive() is None

    queue.clock.advance(INTERVAL)

    assert queue.receive() == 17


def test_a_message_that_committed_late_just_below_the_last_one_is_found_at_once() -> None:
    queue = queue_read_up_to(1000)
    queue.waiting = {1000 - MARGIN}

    assert queue.receive() == 1000 - MARGIN


def test_a_message_of_ours_that_went_back_is_found_at_once() -> None:
    queue = queue_read_up_to(1_000_000)
    queue.waiting = {17}

    queue.bound.returned(17)

    assert queue.receive() == 17


def test_a_message_that_went_back_above_the_bound_does_not_raise_it() -> None:
    queue = queue_read_up_to(1000)

    queue.bound.returned(2000)

    assert queue.bound.value() == 1000 - MARGIN


def test_a_sequence_that_starts_again_is_followed_from_the_next_full_look_on() -> None:
    queue = queue_read_up_to(2_000_000_000)
    queue.waiting = set(range(1, 501))
    queue.clock.advance(INTERVAL)

    received = [queue.receive() for _ in range(500)]

    assert received == list(range(1, 501)), "and not one for each full look"
    assert queue.full_looks == 2


def test_one_late_message_makes_one_look_dear_not_all_that_follow() -> None:
    queue = queue_read_up_to(1_000_000)
    queue.waiting = {17, 1_000_001, 1_000_002}
    queue.clock.advance(INTERVAL)
    queue.receive()
    queue.receive()

    assert queue.bound.value() == 1_000_001 - MARGIN


def test_negative_positions_are_positions() -> None:
    queue = queue_read_up_to(-(2**31) + 1000)

    assert queue.bound.value() == -(2**31) + 1000 - MARGIN


def test_dear_full_looks_take_only_their_share_of_the_time() -> None:
    queue = queue_of_dear_looks(0.25)

    queue.clock.advance(0.25 / RESERVE - 1 / 1024)
    assert not queue.bound.full_look_due

    queue.clock.advance(1 / 1024)
    assert queue.bound.full_look_due


def test_a_full_look_falls_due_after_ten_seconds_whatever_looks_cost() -> None:
    queue = queue_of_dear_looks(1024.0)

    queue.clock.advance(LONGEST_INTERVAL)

    assert LONGEST_INTERVAL == 10.0
    assert queue.bound.full_look_due


def test_no_full_look_begins_beside_a_dear_one_but_after_the_interval() -> None:
    queue = queue_of_dear_looks(0.25, last=1000)
    queue.clock.advance(0.25 / RESERVE)
    claimed = []
    for pause in (0.0, INTERVAL, 0.25 / RESERVE - INTERVAL):
        queue.clock.advance(pause)
        claimed.append(queue.bound.claim())

    assert claimed == [FROM_THE_START, 1000 - MARGIN, FROM_THE_START]


@every("seconds", [1.0, 8.0, 60.0])
def test_looks_that_hung_beside_each_other_hide_no_message(seconds: float) -> None:
    clock = FakeClock()
    bound = LowerBound(clock)
    begun = []
    for _slot in range(8):
        begun.append((bound.claim(), clock()))
        clock.advance(INTERVAL)
    clock.advance(seconds)
    for look in begun:
        bound.looked(*look, 1_000_000)
        clock.advance(1 / 1024)

    clock.advance(INTERVAL)

    assert bound.full_look_due


def queue_of_dear_looks(cost: float, last: int | None = None) -> Queue:
    """Give a queue in which two looks in a row have taken so long; the second received what was last in it, if any."""
    queue = Queue(FakeClock(), cost=cost)
    queue.receive()
    queue.clock.advance(INTERVAL)
    queue.waiting = set() if last is None else {last}
    queue.receive()
    return queue


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(-100, 3000)),
        st.tuples(st.just("receive"), st.integers(1, 5)),
        st.tuples(st.just("put back"), st.integers(0, 3000)),
        st.tuples(st.just("wait"), st.integers(0, 1500)),
    ),
    max_size=30,
)


@patiently
@given(steps=steps, cost=st.sampled_from([0.0, 1 / 1024, 0.25, 8.0]))
def test_whatever_happened_a_message_is_found_when_the_next_full_look_falls_due(
    steps: list[tuple[str, int]], cost: float
) -> None:
    queue = Queue(FakeClock(), cost=cost)
    for step, number in steps:
        if step == "send":
            queue.waiting.add(number)
        elif step == "put back":
            queue.waiting.add(number)
            queue.bound.returned(number)
        elif step == "wait":
            queue.clock.advance(number / 1024)  # exact, so that the due time is too
        else:
            for _ in range(number):
                queue.receive()
    oldest = min(queue.waiting, default=None)

    queue.clock.advance(min(max(INTERVAL, cost / RESERVE), LONGEST_INTERVAL))

    assert queue.bound.full_look_due
    assert queue.receive() == oldest


@patiently
@given(costs=st.lists(st.floats(0.0001, RESERVE * LONGEST_INTERVAL), min_size=1, max_size=20))
def test_full_looks_take_at_most_their_reserve_but_for_those_slower_than_the_one_before(
    costs: list[float],
) -> None:
    queue = Queue(FakeClock())
    looking = before = 0.0
    for cost in costs[:-1]:  # the rest that follows the last has yet to come
        while not queue.bound.full_look_due:
            queue.clock.advance(0.5)
        queue.cost = cost
        queue.receive()
        looking += min(before, cost)
        before = cost

    while not queue.bound.full_look_due:
        queue.clock.advance(0.5)
    assert looking <= RESERVE * queue.clock() + 1e-6


def test_one_look_that_hung_in_the_network_hides_no_message() -> None:
    queue = queue_read_up_to(1000)
    queue.clock.advance(INTERVAL)
    queue.cost = 15.0
    queue.receive()
    queue.cost = 0.0
    queue.waiting = {3}  # which was rolled back meanwhile

    queue.clock.advance(INTERVAL)

    assert queue.receive() == 3
