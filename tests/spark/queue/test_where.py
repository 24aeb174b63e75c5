"""The option `where` of the queue source: the messages read are those for which the conditions are true."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowbus.errors import ConfigurationError
from rowbus.messages.timestamps import format_timestamp
from rowbus.spark.filters import parse_conditions
from rowbus.spark.queue_source import source as queue_source
from rowbus.spark.queue_source.claim_table import peek
from rowbus.spark.queue_source.options import KINDS
from tests.fixtures.every import every
from tests.spark.queue.queues import Queue, read

Row = dict[str, Any]
Test = tuple[str, Callable[[Row], bool]]

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TIMES = [NOON + timedelta(microseconds=each) for each in (-(10**11), -1, 0, 1, 10**6)]
TYPES = ["Shop.Placed", "Shop.PlacedLater", "Shop.It's", 'Shop."Odd"', "Lager.Geöffnet", "%"]

SENT = "NServiceBus.TimeSent"
TYPE = "NServiceBus.EnclosedMessageTypes"
NOON_TEXT = format_timestamp(NOON)
LATER_TEXT = format_timestamp(NOON + timedelta(hours=1))
ODD_HEADERS = [
    "",
    "{",
    "[]",
    '{"a": 1}',
    f'{{"{SENT}": "yesterday"}}',
    f'{{"{SENT}":null,"{TYPE}":null}}',
    f'{{"{SENT}" :\n "{NOON_TEXT}"}}',
    f'{{"{SENT}": "{NOON_TEXT.replace(":", ".")}"}}',
    f'{{"{SENT}": "{LATER_TEXT}", "{SENT}": "{NOON_TEXT}"}}',
    f'{{"{SENT}": "{NOON_TEXT}", "{SENT}": "{LATER_TEXT}"}}',
    f'{{"a": "{SENT}", "{SENT}": "{NOON_TEXT}"}}',
    f'{{"a": {{"{SENT}": "{NOON_TEXT}"}}}}',
    f'{{"{SENT}": "2026-02-30 12:00:00:000000 Z"}}',
    '{"NServiceBus.\\u0054imeSent": "' + NOON_TEXT + '"}',
    '{"NServiceBus.\\u0054imeSent": "' + NOON_TEXT + f'", "{SENT}x": "{LATER_TEXT}"}}',
    f'{{"{SENT}": "\\u0032{NOON_TEXT[1:]}"}}',
    f'{{"{TYPE}": "Shop.\\u0050laced, Shop"}}',
    f'{{"{TYPE}": "  Shop.Placed , Shop;Shop.Event"}}',
    f'{{"{TYPE}": "X__impl;Shop.Placed"}}',
    f'{{"{TYPE}": "Shop.Event;Shop.Placed"}}',
]


@pytest.fixture
def filled(queue: Queue) -> Queue:
    """Fill the queue with messages of all kinds, and of some that nobody should have written."""
    headers = list(ODD_HEADERS)
    for number in range(40):
        sent, kind = TIMES[number % 5], TYPES[number % 6]
        headers.append(
            json.dumps({SENT: format_timestamp(sent), TYPE: f"{kind}, Shop"}, ensure_ascii=bool(number % 2))
        )
    for number, text in enumerate(headers):
        queue.ask(
            'insert into "Work" (id, headers, body, expires) values (gen_random_uuid(), %s, null, %s)',
            text,
            TIMES[number % 6].replace(tzinfo=None) if number % 6 < len(TIMES) else None,
        )
    return queue


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def moments(column: str) -> st.SearchStrategy[Test]:
    def written(time: datetime) -> str:
        return quoted(time.isoformat())

    def known(holds: Callable[[datetime], bool]) -> Callable[[Row], bool]:
        return lambda row: row[column] is not None and holds(row[column])

    times = st.sampled_from(TIMES)
    return st.one_of(
        st.builds(lambda time: (f"{column} < {written(time)}", known(lambda found: found < time)), times),
        st.builds(lambda time: (f"{column} >= {written(time)}", known(lambda found: found >= time)), times),
        st.builds(lambda time: (f"{column} = {written(time)}", known(lambda found: found == time)), times),
        st.builds(
            lambda some: (
                f"{column} in ({', '.join(map(written, some))})",
                known(lambda found: found in some),
            ),
            st.lists(times, min_size=1, max_size=3),
        ),
        st.just((f"{column} is null", lambda row: row[column] is None)),
        st.just((f"{column} is not null", lambda row: row[column] is not None)),
    )


conditions: st.SearchStrategy[Test] = st.one_of(
    moments("time_sent"),
    moments("expires"),
    st.builds(
        lambda least, most: (f"seq between {least} and {most}", lambda row: least <= row["seq"] <= most),
        st.integers(0, 70),
        st.integers(0, 70),
    ),
    st.builds(
        lambda some: (
            f"message_type in ({', '.join(map(quoted, some))})",
            lambda row: row["message_type"] in some,
        ),
        st.lists(st.sampled_from(TYPES), min_size=1, max_size=3),
    ),
    st.builds(
        lambda begin: (
            f"message_type like {quoted(begin + '%')}",
            lambda row: (row["message_type"] or "-").startswith(begin),
        ),
        st.sampled_from(["Shop.Placed", "Shop.It'", "Lager.Geö", 'Shop."', "X", "S"]),
    ),
    st.just(("message_type is null", lambda row: row["message_type"] is None)),
)


def test_what_is_read_is_what_a_filter_of_everything_leaves(filled: Queue) -> None:
    everything = read(filled.peeker())
    assert len(everything) == 60

    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(asked=st.lists(conditions, min_size=1, max_size=3), driver=st.sampled_from(["adbc", "psycopg"]))
    def check(asked: list[Test], driver: str) -> None:
        where = " and ".join(text for text, _ in asked)
        found = read(filled.peeker(where=where, reader=driver))
        assert found == [row for row in everything if all(holds(row) for _, holds in asked)], where

    check()


@every(
    "where, most",
    [
        ("message_type = 'Shop.Nothing'", 12),
        ("time_sent > '2030-01-01'", 30),
        ("expires is null", 10),
        ("seq > 59", 1),
    ],
)
def test_few_messages_leave_the_database_for_nothing(filled: Queue, where: str, most: int) -> None:
    query = peek(filled.address, 0, 1000, parse_conditions(where, KINDS))

    assert len(filled.ask(query.native.decode())) <= most


@pytest.mark.one_version
def test_conditions_may_be_on_columns_that_are_not_read(filled: Queue) -> None:
    found = read(filled.peeker(columns="queue", where="message_type = 'Shop.It''s'"))

    assert [set(row) for row in found] == [{"queue"}] * 7


@pytest.mark.one_version
def test_a_stream_has_no_conditions(queue: Queue) -> None:
    given_options = queue.options(mode="receive", consumer="lake", where="seq > 1")
    with pytest.raises(ConfigurationError, match="'where' is for mode=peek"):
        queue_source.check_stream(given_options)
