"""T-SQL files become statements, and values travel as what their files cast them from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.database.sqlserver.statements import (
    LONGEST_SPAN,
    adapt,
    aware,
    instant,
    lines,
    literal,
    load,
    number,
    percent_marks,
    script,
    span,
    truth,
    values,
)
from rowbus.database.statements import Statement, no_rows
from rowbus.messages.sqlserver_address import quote
from tests.fixtures.every import every

NAMES = {"catalog": "c]at", "schema": "dbo", "queue": "a'b"}
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


def test_identifiers_are_in_brackets_and_values_are_marks_in_their_order() -> None:
    query = load("transport/queues/sql/sqlserver/send.sql", identifiers=NAMES, failing="Failed", queue="q")

    text = query.text.decode()
    assert "insert into [c]]at].[dbo].[a'b] (" in text
    assert query.names == ("headers", "body", "expires_in_days", "expires_in_ms")
    assert text.count("?") == len(query.names)
    assert "--" not in text
    assert (query.failing, query.queue) == ("Failed", "q")


def test_a_table_in_the_connections_own_catalog_is_named_without_one() -> None:
    query = load("transport/queues/sql/sqlserver/known_columns.sql", identifiers={"catalog": ""})

    assert "from sys.all_columns" in query.text.decode()


def test_a_name_the_file_asks_for_must_be_given() -> None:
    with pytest.raises(KeyError):
        load("transport/queues/sql/sqlserver/send.sql", identifiers={"schema": "dbo"})


def test_a_script_is_what_sqlcmd_runs_with_the_values_written_in() -> None:
    query = load("transport/queues/sql/sqlserver/known_columns.sql", identifiers={"catalog": ""})
    statement = Statement(query, {"queue_name": "[c].[dbo].[It's]"}, no_rows)

    assert "object_id(N'[c].[dbo].[It''s]', N'U')" in script(statement)
    assert values(statement) == ["[c].[dbo].[It's]"]


@given(TEXT)
def test_no_name_and_no_value_gets_out_of_its_quotes(text: str) -> None:
    quoted, written = quote(text), literal(text)

    assert quoted[1:-1].replace("]]", "").count("]") == 0
    assert written[2:-1].replace("''", "").count("'") == 0


@every(
    "value, travels_as",
    [
        (None, ""),
        (7, "7"),
        (-(2**31), "-2147483648"),
        (True, "1"),
        (0.5, "0.5"),
        ("text", "text"),
        (b"\x00\xff", b"\x00\xff"),
        (UUID("6F9619FF-8B86-D011-B42D-00C04FC964FF"), "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05.000"),
        (datetime(2026, 1, 2, 3, 4, 5, 1, tzinfo=UTC), "2026-01-02T03:04:05.001"),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:00:00.000"),
    ],
)
def test_a_value_travels_as_text_or_bytes(value: object, travels_as: str | bytes) -> None:
    assert adapt(value) == travels_as


def test_a_span_has_no_text_for_its_unit_is_the_tables_to_choose() -> None:
    with pytest.raises(TypeError, match="timedelta"):
        adapt(timedelta(1))


def test_pymssql_gets_its_own_marks() -> None:
    assert percent_marks("select ? + N'?' + N'50%' from [a?%]") == "select %s + N'?' + N'50%%' from [a?%%]"


# -------------------------------------------------------------------------------------------------------- the tables'


def test_no_span_is_two_empty_parameters() -> None:
    assert span("due_in", None) == {"due_in_days": None, "due_in_ms": None}


@given(st.timedeltas(min_value=timedelta(days=-3), max_value=LONGEST_SPAN))
def test_a_span_is_days_and_milliseconds_that_int_holds_never_shorter_and_hardly_longer(
    value: timedelta,
) -> None:
    parts = span("x", value)

    days, ms = parts["x_days"], parts["x_ms"]
    assert days is not None
    assert ms is not None
    travelled = timedelta(days=days, milliseconds=ms)
    assert timedelta(0) <= travelled - value < timedelta(milliseconds=1)
    assert 0 <= ms <= 86_400_000
    assert abs(days) < 2**31


def test_a_span_beyond_the_servers_dates_ends_before_them() -> None:
    assert span("x", timedelta.max) == {"x_days": LONGEST_SPAN.days, "x_ms": 0}


def test_times_come_back_aware_whether_the_driver_gives_them_or_their_text() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 123000, tzinfo=UTC)

    assert aware(at.replace(tzinfo=None)) == at
    assert aware("2026-01-02 03:04:05.1230000") == at
    assert aware(None) is None
    assert instant(at.replace(tzinfo=None)) == at
    with pytest.raises(ValueError, match="null"):
        instant(None)


def test_answers_of_one_number_are_read() -> None:
    assert truth([(1,)], 1) is True
    assert truth([(0,)], 1) is False
    assert number([(7,)], 1) == 7
    assert lines(["a", "b"]) == "a\nb"
