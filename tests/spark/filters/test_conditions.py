"""The option `where`: which conditions are read, which are refused, and which values they leave."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rowbus.errors import ConfigurationError
from rowbus.spark.filters import Values, parse_conditions
from rowbus.spark.log_source.decisions import KINDS, literals
from tests.fixtures.every import every

NOON = datetime(2026, 11, 20, 12, 0, 0, 123456, UTC)
MICROSECOND = timedelta(microseconds=1)


@every(
    "text, expected",
    [
        ("ev_id = 7", {"ev_id": Values(one_of=frozenset([7]), null=False)}),
        ("EV_ID>=-7 And ev_id<9", {"ev_id": Values(-7, 8, null=False)}),
        ("ev_id between 1 and 5 and ev_id between 3 and 9", {"ev_id": Values(3, 5, null=False)}),
        ("ev_id in (1, 2,3) and ev_id in (2,3,4)", {"ev_id": Values(one_of=frozenset([2, 3]), null=False)}),
        ("ev_time > '2026-11-20T12:00:00.123456Z'", {"ev_time": Values(NOON + MICROSECOND, null=False)}),
        (
            "ev_time<'2026-11-20 14:00:00.123456+02:00'",
            {"ev_time": Values(most=NOON - MICROSECOND, null=False)},
        ),
        ("ev_time <= '2026-11-20 12:00:00.123456'", {"ev_time": Values(most=NOON, null=False)}),
        ("ev_type = 'it''s and'", {"ev_type": Values(one_of=frozenset(["it's and"]), null=False)}),
        ("ev_type like 'a''b%'", {"ev_type": Values(prefix="a'b", null=False)}),
        ("ev_type like '%'", {"ev_type": Values(null=False)}),
        ("ev_type is null", {"ev_type": Values(null=True)}),
        (
            "\n ev_type  is  not  null and ev_txid = 5 ",
            {"ev_type": Values(null=False), "ev_txid": Values(one_of=frozenset([5]), null=False)},
        ),
    ],
)
def test_conditions_become_the_values_they_leave(text: str, expected: dict[str, Values]) -> None:
    assert parse_conditions(text, KINDS).values == expected


@every(
    "text, part",
    [
        ("", "''"),
        ("ev_id", "'ev_id'"),
        ("ev_id = 1 or ev_id = 2", "'ev_id = 1 or ev_id = 2'"),
        ("ev_id = 1 and", "'ev_id = 1 and'"),
        ("ev_id = 1 and not ev_id = 2", "'not ev_id = 2'"),
        ("ev_id = 1 ev_id = 2", "'ev_id = 1 ev_id = 2'"),
        ("ev_id <> 1", "'ev_id <> 1'"),
        ("ev_id = 1.5", "'ev_id = 1.5'"),
        ("ev_id = '1'", "\"ev_id = '1'\""),
        ("ev_id = null", "'ev_id = null'"),
        ("ev_id = 9223372036854775808", "9223372036854775808"),
        ("ev_id in ()", r"'ev_id in \(\)'"),
        ("ev_id like '1%'", "ev_id like"),
        ("ev_type > 'a'", "ev_type > 'a'"),
        ("ev_type between 'a' and 'b'", "ev_type between"),
        ("ev_type = 7", "'ev_type = 7'"),
        ("ev_type like 'a_%'", "ev_type like"),
        ("ev_type like '%a'", "ev_type like"),
        ("ev_type like 'a'", "ev_type like"),
        ("ev_type = 'a\0'", "ev_type = "),
        ("ev_type = 'a", "ev_type = 'a"),
        ("ev_time = 'noon'", "ev_time = 'noon'"),
        ("ev_time > '9999-12-31T23:59:59.999999Z'", "ev_time > "),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_part(text: str, part: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"'where' cannot be read at .*{part}") as refused:
        parse_conditions(text, KINDS)

    assert "\n" not in str(refused.value)


def test_a_column_that_the_database_does_not_look_at_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="a condition on 'ev_data': the database looks at ev_id, ev_time"
    ):
        parse_conditions("ev_data = 'x'", KINDS)


@every(
    "text",
    [
        "ev_id = 1 and ev_id = 2",
        "ev_id > 5 and ev_id < 5",
        "ev_type like 'a%' and ev_type like 'b%'",
        "ev_type is null and ev_type = 'a'",
        "ev_type is null and ev_type is not null",
    ],
)
def test_conditions_that_contradict_leave_nothing(text: str) -> None:
    [values] = parse_conditions(text, KINDS).values.values()

    candidates: list[Any] = [None, 1, 2, 5] if text.startswith("ev_id") else [None, "a", "b"]
    assert not any(values.allow(each) for each in candidates)


def test_of_two_beginnings_the_longer_remains() -> None:
    conditions = parse_conditions("ev_type like 'order%' and ev_type like 'or%'", KINDS)

    assert conditions.of("ev_type").prefix == "order"


def test_a_statement_s_values_are_those_of_the_conditions_and_nothing_else() -> None:
    found = literals(parse_conditions("ev_id in (3, 1) and ev_type like 'x%'", KINDS))

    given = {name: value for name, value in found.items() if value is not None}
    assert given == {
        "ev_id_one_of": [1, 3],
        "ev_id_null": False,
        "ev_type_prefix": "x",
        "ev_type_null": False,
    }


def test_times_with_a_zone_are_the_same_moment() -> None:
    zoned = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))

    [values] = parse_conditions(f"ev_time = '{zoned.isoformat()}'", KINDS).values.values()

    assert values.allow(NOON)
