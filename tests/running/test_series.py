"""Measurements: bounded, and written so that Prometheus reads them, whatever a message is called."""

from __future__ import annotations

import pytest

from rowbus.errors import ConfigurationError
from rowbus.running.telemetry import series
from rowbus.running.telemetry.listener import address_of
from rowbus.running.telemetry.series import Counter, Gauge, Histogram, exposition, merged
from tests.fixtures.every import every

HOSTILE = 'a"b\\c\nd{}'


def test_a_family_has_a_bounded_number_of_series() -> None:
    counter = Counter("seen", "Seen.", ("endpoint", "type"))

    for number in range(2 * series.MOST):
        counter.add(("Sales", f"Type{number}"))

    assert len(counter.values) == series.MOST + 1
    assert counter.values["Sales", "other"] == series.MOST


def test_a_histogram_has_a_bounded_number_of_series() -> None:
    histogram = Histogram("took", "Took.", ("endpoint", "type"), bounds=(1.0,))

    for number in range(2 * series.MOST):
        histogram.observer(("Sales", f"Type{number}"))(0.5)

    counted = {sample.labels: sample.value for sample in histogram.samples() if sample.suffix == "_count"}
    assert len(counted) == series.MOST + 1
    assert counted[("endpoint", "Sales"), ("type", "other")] == series.MOST


def test_a_hostile_name_stays_within_its_quotes() -> None:
    counter = Counter("seen", "Seen.", ("type",))
    counter.add((HOSTILE,))

    text = exposition([counter])

    assert text.splitlines() == [
        "# HELP seen_total Seen.",
        "# TYPE seen_total counter",
        r'seen_total{type="a\"b\\c\nd{}"} 1',
    ]


def test_buckets_count_what_is_in_lower_ones() -> None:
    histogram = Histogram("took", "Took.", bounds=(1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)

    assert exposition([histogram]).splitlines()[2:] == [
        'took_bucket{le="1.0"} 2',
        'took_bucket{le="2.0"} 3',
        'took_bucket{le="+Inf"} 4',
        "took_sum 12",
        "took_count 4",
    ]


def test_texts_of_workers_are_one_text_with_each_family_once() -> None:
    first, second = Gauge("up", "Up.", ("type",)), Gauge("up", "Up.", ("type",))
    first.set(1, (HOSTILE,))
    second.set(0, ("b",))

    text = merged([("1", exposition([first])), ("2", exposition([second]))], "worker")

    assert text.splitlines() == [
        "# HELP up Up.",
        "# TYPE up gauge",
        r'up{type="a\"b\\c\nd{}",worker="1"} 1',
        'up{type="b",worker="2"} 0',
    ]


@every("text, host, port", [("127.0.0.1:1", "127.0.0.1", 1), ("[::1]:2", "::1", 2), ("3", "127.0.0.1", 3)])
def test_an_address_is_on_this_machine_unless_it_says_otherwise(text: str, host: str, port: int) -> None:
    assert address_of(text)[:2] == (host, port)


@every("text", ["", "localhost", "localhost:", "localhost:99999", "a:b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:9464"):
        address_of(text)
