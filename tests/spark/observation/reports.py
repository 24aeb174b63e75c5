"""Reports of micro-batches as Spark 4.2 writes them."""

from __future__ import annotations

from typing import Any

BATCH = 7


def position(tick: int, seq: int, second: int) -> dict[str, Any]:
    return {"tick": tick, "seq": seq, "ts": f"2026-11-24T06:10:{second:02}.500000Z"}


def report(name: str | None = "lake", *, run: str = "run", **sources: Any) -> dict[str, Any]:  # noqa: ANN401 - as Spark's
    """Return the report of a batch of 40 rows that took 1.5 s, of a log that is two ticks and 30 events ahead."""
    end = {"v": 1, "orders": {**position(20, 1000, 10), "snap": "765:765:"}}
    source = {
        "description": "PythonMicroBatchStreamWithTriggerAvailableNow@4986a6ee",
        "startOffset": None,
        "endOffset": end,
        "latestOffset": {"orders": position(22, 1030, 14)},
        "numInputRows": 40,
    }
    return {
        "id": "a872e7a4-1d6b-400a-8673-6be8e58dbace",
        "runId": run,
        "name": name,
        "timestamp": "2026-11-24T06:10:30.000Z",
        "batchId": BATCH,
        "batchDuration": 1510,
        "numInputRows": 40,
        "durationMs": {
            "addBatch": 1100,
            "commitOffsets": 100,
            "getBatch": 50,
            "latestOffset": 100,
            "queryPlanning": 50,
            "triggerExecution": 1500,
            "walCommit": 100,
        },
        "sources": [source | sources],
    }
