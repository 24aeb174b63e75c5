"""Spark's reports of micro-batches, as they are read: size, duration, place and lag."""

from __future__ import annotations

import json
from typing import Any

from rowbus.spark.micro_batch import Behind, behind, micro_batch
from tests.fixtures.every import every
from tests.spark.observation.reports import BATCH, position, report

MS = 1_000_000


def test_a_report_tells_size_duration_and_lag() -> None:
    batch = micro_batch(report())

    assert (batch.query, batch.number, batch.rows, batch.seconds) == ("lake", BATCH, 40, 1.5)
    assert batch.place == "orders"
    assert batch.behind == Behind(2, 30, 4.0)


def test_its_parts_lie_within_it_one_after_the_other() -> None:
    batch = micro_batch(report())

    assert batch.began == 1_795_500_630_000 * MS
    assert [(time - batch.began) // MS for time in (batch.read, batch.done, batch.ended)] == [300, 1400, 1500]


def test_offsets_may_be_texts() -> None:
    (source,) = report()["sources"]
    texts = {name: json.dumps(source[name]) for name in ("endOffset", "latestOffset")}

    assert behind([source | texts]) == Behind(2, 30, 4.0)


def test_several_logs_are_behind_together() -> None:
    (source,) = report()["sources"]
    other = {
        "endOffset": {"v": 1, "a": position(5, 50, 0), "b": position(9, 90, 0)},
        "latestOffset": {"a": position(6, 57, 9), "b": position(9, 90, 0), "c": position(1, 1, 1)},
    }

    assert behind([source, other]) == Behind(3, 37, 9.0)
    assert (
        micro_batch(report() | {"sources": [source, other]}).place == "lake"
    )  # of three logs: the query's name


@every(
    "sources",
    [
        [],
        [{"endOffset": None, "latestOffset": None}],
        [{"endOffset": 3, "latestOffset": 4}],
        [{"endOffset": "no JSON", "latestOffset": "[1]"}],
        [{"endOffset": {"topic": {"0": 12}}, "latestOffset": {"topic": {"0": 15}}}],
        [{"endOffset": {"orders": position(1, 1, 1)}, "latestOffset": None}],
    ],
)
def test_the_lag_of_other_sources_is_not_known(sources: list[Any]) -> None:
    assert behind(sources) is None


def test_a_queue_is_a_place() -> None:
    offset = {"claim": 3, "consumer": "lake", "queue": "public.Sales"}

    assert micro_batch(report(endOffset=offset, latestOffset=offset)).place == "public.Sales"


def test_a_report_of_another_version_may_lack_anything() -> None:
    assert micro_batch({"timestamp": "2026-11-24T06:10:30.000Z"})[:4] == ("unnamed", 0, 0, 0.0)
    assert micro_batch({"batchDuration": 20})[3] == 0.02
