"""One measurement: how many messages, and what is counted."""

from __future__ import annotations

from rowbus.bench.figures import Figure, LeftOut, percentiles
from rowbus.bench.measuring import SHORTEST, Side, Watch, measure, planned, repeat, share_of, until_over
from rowbus.bench.receiving import Tally
from tests.fixtures.every import every


def nothing() -> None:
    return None


def side(asked: list[int], *, least: int = 10, most: int = 100) -> Side:
    def work(count: int, watch: Watch) -> None:
        asked.append(count)
        watch.start()
        watch.stop(count)

    return Side("work", "Rowbus", work, least, most)


def test_a_small_measurement_says_how_many_messages_the_one_that_counts_has() -> None:
    asked: list[int] = []

    figure = measure(side(asked), 3600.0, nothing)

    assert asked == [10, 100]  # as fast as that, an hour would be enough for more than the most
    assert isinstance(figure, Figure)
    assert figure.messages == 100


@every("rate, seconds, expected", [(1000.0, 2.0, 2000), (1.0, 2.0, 20), (1e9, 2.0, 5000)])
def test_messages_are_planned_between_the_least_and_the_most(
    rate: float, seconds: float, expected: int
) -> None:
    assert planned(rate, seconds, 20, 5000) == expected


def test_a_part_has_half_of_its_share_of_the_time_left_and_some_if_none_is_left() -> None:
    assert share_of(100.0, 10) == 5.0
    assert share_of(100.0, 0) == 50.0
    assert share_of(-3.0, 10) == SHORTEST


def test_wal_is_counted_between_start_and_stop_alone() -> None:
    positions = iter([1000, 1500])
    watch = Watch(60.0, lambda: next(positions))

    watch.start()
    watch.stop(5)

    figure = Figure("work", "Rowbus", watch.messages, watch.seconds, watch.client_cpu, watch.wal_bytes)
    assert figure.wal_of_one == 100.0


def test_wal_that_the_role_may_not_see_is_no_figure_rather_than_none_written() -> None:
    figure = measure(side([]), 1.0, nothing)

    assert isinstance(figure, Figure)
    assert figure.wal_of_one is None


def test_what_did_no_message_is_left_out_with_a_reason() -> None:
    left_out = measure(Side("work", "Rowbus", lambda _count, watch: watch.stop(0)), 1.0, nothing)

    assert isinstance(left_out, LeftOut)
    assert "Rowbus did no message" in left_out.why


def test_the_first_time_is_not_counted() -> None:
    done: list[int] = []
    watch = Watch(3600.0, nothing)

    repeat(lambda: done.append(1), 5, watch)

    assert (len(done), watch.messages) == (6, 5)


def test_work_ends_when_its_time_is_up() -> None:
    watch = Watch(0.0, nothing)

    repeat(nothing, 1_000_000, watch)
    streamed = list(until_over(iter(range(1_000_000)), watch))

    assert watch.messages == 0
    assert streamed == [0]


async def test_a_tally_starts_with_the_first_message_and_stops_with_the_last() -> None:
    watch = Watch(3600.0, nothing)
    tally = Tally(3, watch)

    for _ in range(7):
        tally.add()
    await tally.wait()

    assert watch.messages == 3
    assert not tally.goes_on


async def test_a_tally_whose_time_is_up_counts_what_came() -> None:
    watch = Watch(0.0, nothing)
    tally = Tally(1000, watch)

    tally.add()
    tally.add()
    await tally.wait()

    assert watch.messages == 1


async def test_a_tally_without_any_message_counts_none() -> None:
    watch = Watch(1.0, nothing)
    tally = Tally(10, watch)

    tally.finish()

    assert (watch.messages, tally.goes_on) == (0, False)


def test_percentiles_are_values_that_were_measured() -> None:
    latency = percentiles("way", [float(number) for number in range(100, 0, -1)])

    assert (latency.p50, latency.p99, latency.samples) == (51.0, 100.0, 100)
    assert percentiles("way", [3.0]) == ("way", 3.0, 3.0, 1)
