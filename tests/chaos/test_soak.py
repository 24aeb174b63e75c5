"""Verdicts on a soak: flat or growing, in time or late."""

from __future__ import annotations

from tests.chaos.history import Effect, History, Outcome, Send
from tests.chaos.soak import Sample, growths, latencies
from tests.fixtures.every import every

FLAT = [Sample(float(at), at, memory=500.0, sessions=40, tables=10.0) for at in range(9)]


def test_what_stays_as_it_is_has_not_grown() -> None:
    assert growths(FLAT) == []


@every(
    "last, said",
    [
        (Sample(9.0, 9, memory=600.0, sessions=40, tables=10.0), "memory grew from 500 to 600"),
        (Sample(9.0, 9, memory=500.0, sessions=60, tables=10.0), "sessions grew from 40 to 60"),
        (Sample(9.0, 9, memory=500.0, sessions=40, tables=30.0), "tables grew from 10 to 30"),
    ],
)
def test_what_is_more_in_the_last_third_has_grown(last: Sample, said: str) -> None:
    assert growths([*FLAT[:6], last, last, last]) == [said]


def test_a_soak_of_two_samples_tells_nothing() -> None:
    assert growths(FLAT[:2]) == ["too short to tell"]


def test_latencies_are_from_the_send_or_the_due_time_to_the_effect() -> None:
    sends = [Send(number, "command", Outcome.COMMITTED, ready=float(number)) for number in range(100)]
    effects = [Effect(each.number, "command", each.number, 1, each.ready + 0.5) for each in sends]
    effects += [Effect(200 + each.number, "delayed", each.number, 1, 10.25, due=10.0) for each in sends]

    assert list(latencies(History(tuple(sends), tuple(effects)))) == [
        ("command", 0.5, 0.5),
        ("delayed", 0.25, 0.25),
    ]
