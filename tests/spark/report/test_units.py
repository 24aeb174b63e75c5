"""Numbers and spans as people read them."""

from __future__ import annotations

from rowbus.spark.pipelines.report.text import bucket_name, size, span
from tests.fixtures.every import every


@every(
    "seconds, text",
    [
        (None, ""),
        (0, "0 ms"),
        (0.00042, "0.42 ms"),
        (0.0123, "12.3 ms"),
        (0.9999, "1,000 ms"),
        (3.456, "3.46 s"),
        (119, "119 s"),
        (600, "10 min"),
        (9000, "2.5 h"),
        (172800, "2 d"),
        (-0.5, "-500 ms"),
    ],
)
def test_a_span_has_three_digits_and_its_unit(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


@every("seconds, text", [(1, "s"), (30, "30 s"), (60, "min"), (300, "5 min"), (3600, "h"), (86400, "d")])
def test_a_bucket_is_named_by_its_largest_unit(seconds: int, text: str) -> None:
    assert bucket_name(seconds) == text


def test_sizes_have_binary_units() -> None:
    assert [size(512), size(3565158)] == ["512 B", "3.4 MiB"]
