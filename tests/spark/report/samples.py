"""Reports as Spark would make them, without Spark: one of a usual day, one of messages that mean harm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from rowbus.spark.pipelines.report.result import FlowReport

MADE_AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
HOSTILE = (
    '</title></style><script>alert(1)</script><img src=x onerror="alert(2)">\'"&amp;<svg onload=alert(3)>'
)
SPREAD = {"early": 0, "least": 0.01, "mean": 0.2, "p50": 0.1, "p90": 0.3, "p95": 0.5, "p99": 1.0, "most": 4.0}
TYPES = ("Shop.PlaceOrder", "Shop.ChargeCard", "Shop.ShipOrder")


def sample_report() -> FlowReport:
    """Give a report with every table."""
    return _report(_rows(TYPES, "Sales"))


def hostile_report() -> FlowReport:
    """Give a report whose every text is markup."""
    rows = _rows((HOSTILE,), HOSTILE)
    return _report({name: [_harmful(row) for row in table] for name, table in rows.items()})


def _harmful(row: dict[str, Any]) -> dict[str, Any]:
    kept = {"happened", "stage"}
    return {
        key: HOSTILE if isinstance(value, str) and key not in kept else value for key, value in row.items()
    }


def _report(rows: dict[str, list[dict[str, Any]]]) -> FlowReport:
    tables = {name: pa.Table.from_pylist(table) for name, table in rows.items()}
    return FlowReport(MADE_AT, ['queue "public"."audit"', "log shop"], tables)


def _rows(types: tuple[str, ...], endpoint: str) -> dict[str, list[dict[str, Any]]]:
    first, last = MADE_AT - timedelta(hours=3), MADE_AT - timedelta(hours=1)
    bars = [(type_, first + timedelta(minutes=5 * bar), bar % 7 + 1) for type_ in types for bar in range(24)]
    named = {"endpoint": endpoint, "messages": 1234, **SPREAD}
    of_log = {"log": "shop", "event_type": "public.orders insert", "events": 4321}
    return {
        "overview": [
            {
                "messages": 3000,
                "processed": 2900,
                "failed": 40,
                "waiting": 60,
                "message_types": 3,
                "events": 4321,
            }
            | {"unreadable": 1, "messages_from": first, "messages_to": last}
            | {"events_from": first, "events_to": last}
        ],
        "throughput": [
            {"happened": happened, "message_type": type_, "start": start, "seconds": 300, "messages": number}
            for happened in ("sent", "processed", "failed")
            for type_, start, number in bars
        ],
        "latency": [
            {"stage": stage, "message_type": type_, **named}
            for stage in ("queueing", "processing", "whole", "until failure")
            for type_ in types
        ],
        "failures": [
            {
                "endpoint": endpoint,
                "exception": "Failing",
                "pattern": "Order # is not known",
                "where": "shop.py place",
            }
            | {
                "trace": "0123456789ab",
                "messages": 40,
                "message_types": list(types),
                "first": first,
                "last": last,
            }
            | {"sample": "Order 42 is not known", "sample_message_id": "m-1"}
        ],
        "waiting": [
            {"queue": "Sales", "message_type": type_, "later": 0, "oldest": first, **named} for type_ in types
        ],
        "delays": [{"message_type": type_, **named} for type_ in types],
        "event_types": [of_log | {"retries": 2, "bytes": 99_999, "first": first, "last": last}],
        "events": [of_log | {"start": start, "seconds": 300} for _, start, _ in bars[:24]],
        "tick_delay": [of_log | SPREAD],
        "logs": [
            {"log": "shop", "last_tick_time": last, "new_events": 7, "greatest_lag": 2.5, "bytes": 10**7}
        ],
        "consumers": [
            {
                "log": "shop",
                "consumer": "stock",
                "lag": 2.5,
                "pending": None,
                "last_seen": 0.5,
                "dead_letters": 1,
            }
        ],
    }
