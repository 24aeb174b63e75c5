"""Events, ticks and batches as values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rowbus.log.event import Event

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def test_fields_are_in_the_order_of_the_columns_of_get_batch_events() -> None:
    """Rows become events without looking: ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1 … 4."""
    extras = ("extra1", "extra2", "extra3", "extra4")
    assert Event._fields == ("id", "time", "txid", "retry", "type", "data", *extras)


def test_data_is_read_as_json_when_asked_for() -> None:
    assert Event(1, TIME, 1, None, "placed", '{"order": 42}').json() == {"order": 42}
    assert Event(1, TIME, 1, None, "placed", None).json() is None
    with pytest.raises(ValueError, match="Expecting value"):
        Event(1, TIME, 1, None, "placed", "order=42").json()
