"""The log source as a stream, called as Spark calls it."""

from __future__ import annotations

import pytest

from rowbus.errors import ConfigurationError
from tests.log.orders import Orders
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Query, as_spark, datas


def test_a_stream_gives_what_is_retained_and_then_what_comes(orders: Orders, stream: Streams) -> None:
    orders.deliver("a", "b")
    query = Query(stream())
    assert datas(query.batch() or []) == ["a", "b"]
    assert query.batch() is None
    orders.deliver("c")
    assert datas(query.batch() or []) == ["c"]


def test_rows_have_all_columns(orders: Orders, stream: Streams) -> None:
    tick = orders.deliver("a", key="k")
    [row] = Query(stream()).batch() or []
    event = next(iter(orders.log().read()))
    assert row == {
        "log": "orders",
        "ev_id": event.id,
        "ev_time": event.time,
        "ev_txid": event.txid,
        "ev_retry": None,
        "ev_type": "order",
        "ev_data": "a",
        "ev_extra1": "k",
        "ev_extra2": None,
        "ev_extra3": None,
        "ev_extra4": None,
        "tick_id": tick,
    }


def test_a_new_process_goes_on_where_the_checkpoint_is(orders: Orders, stream: Streams) -> None:
    orders.deliver("a")
    query = Query(stream())
    query.batch()
    query.reader.stop()
    orders.deliver("b")
    orders.connection.execute("select pgq.create_queue('audit')")
    orders.connection.execute("select pgq.force_tick('audit'), pgq.ticker('audit')")
    with pytest.raises(
        ConfigurationError, match="The checkpoint is of log orders, which this query does not"
    ):
        Query(stream(log="audit"), query.at).batch()
    forgetting = stream(log="audit", consumer="other", failOnDataLoss="false")
    assert not Query(forgetting, query.at).batch()
    assert datas(Query(stream(), query.at).batch() or []) == ["b"]


def test_the_first_batch_begins_where_it_began_when_it_is_replayed(orders: Orders, stream: Streams) -> None:
    orders.deliver("a")
    for starting in ("latest", "earliest", "committed"):
        reader = stream(consumer=starting, startingOffsets=starting)
        first = as_spark(reader.initialOffset())
        orders.deliver("b")
        assert as_spark(reader.initialOffset()) == first
        reader.stop()
        orders.deliver("c")
        assert as_spark(stream(consumer=starting, startingOffsets=starting).initialOffset()) == first
