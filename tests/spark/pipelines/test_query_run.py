"""A run of a query says how far it is, from what Spark reports."""

from __future__ import annotations

import json
from typing import Any, cast

from rowbus.spark.pipelines.query_run import Progress, run
from tests.spark.observation.reports import BATCH, report


class Query:
    """A query of Spark's that ends at the second look, having reported these batches."""

    def __init__(self, *reports: dict[str, Any]) -> None:
        self.recentProgress = reports
        self._looks = 0

    def awaitTermination(self, _timeout: float) -> bool:  # noqa: N802 - Spark's name
        self._looks += 1
        return self._looks > 1

    def stop(self) -> None: ...


def test_progress_counts_and_says_how_far_the_log_is_ahead() -> None:
    (source,) = report()["sources"]
    texts = source | {name: json.dumps(source[name]) for name in ("endOffset", "latestOffset")}
    told: list[Progress] = []

    done = run(
        cast("Any", Query(report(), report() | {"batchId": BATCH + 1, "sources": [texts]})), watch=told.append
    )

    assert done == Progress(2, 80, ticks_behind=2, seconds_behind=4.0, ends={"orders": 20})
    assert told == [done, done]
