"""Events of captured tables say what changed, in both formats that can be replicated."""

from __future__ import annotations

import json

import pytest

from rowbus.errors import ConfigurationError
from rowbus.log.event import RowChange, changes_in, decode_row, kind_of
from tests.fixtures.every import every

TABLE = "public.orders"


def json_type(operation: str, *key: str) -> str:
    return json.dumps(
        {"op": operation, "table": ["public", "orders"], "pkey": list(key)}, separators=(",", ":")
    )


@every("operation, letter", [("INSERT", "I"), ("UPDATE", "U"), ("DELETE", "D")])
def test_a_json_event_is_one_change_with_the_row_word_for_word(operation: str, letter: str) -> None:
    row = '{"id":1, "total":"9.50","note":null}'
    assert changes_in(json_type(operation, "id"), row, TABLE, None) == (
        RowChange(TABLE, letter, ("id",), row),
    )


@every("type_", [json_type("TRUNCATE"), "R"])
def test_truncate_has_no_row(type_: str) -> None:
    assert changes_in(type_, "", TABLE, None) == (RowChange(TABLE, "T", (), "{}"),)


def test_a_url_encoded_row_becomes_the_same_texts_and_nulls_in_json() -> None:
    (change,) = changes_in("U:id,part", "id=1&part=a%2bb&note=a+%26+%c5%82&none&empty=", TABLE, None)
    assert change.key == ("id", "part")
    assert json.loads(change.row) == {"id": "1", "part": "a+b", "note": "a & ł", "none": None, "empty": ""}


def test_an_update_of_the_key_is_a_delete_and_then_an_update() -> None:
    old, new = '{"id":1,"note":"x"}', '{"id":2,"note":"x"}'
    assert changes_in(json_type("UPDATE", "id"), new, TABLE, old) == (
        RowChange(TABLE, "D", ("id",), old),
        RowChange(TABLE, "U", ("id",), new),
    )


def test_an_old_row_of_the_same_key_changes_nothing() -> None:
    assert [c.operation for c in changes_in("U:id", "id=1&note=y", TABLE, "id=1&note=x")] == ["U"]


@every("type_", [None, "", "order_placed", "{not json", '{"op":"MERGE","pkey":[]}', "[1]", "I am"])
def test_events_of_other_origin_change_nothing(type_: str | None) -> None:
    assert changes_in(type_, "{}", TABLE, None) == ()


def test_an_event_without_a_table_changes_nothing() -> None:
    assert changes_in("I:id", "id=1", None, None) == ()


@every("type_", ["I", "U", "D"])
def test_pieces_of_sql_are_refused(type_: str) -> None:
    with pytest.raises(ConfigurationError, match="format sql"):
        changes_in(type_, "(id) values ('1')", TABLE, None)


def test_a_table_without_a_key_has_none() -> None:
    kind = kind_of("I:")
    assert kind is not None
    assert kind.key == ()


def test_nothing_at_all_is_an_empty_row() -> None:
    assert decode_row("") == {}
