"""Lists as parameters: the server reads what was given, whatever is in them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, Format

from rowbus.database.postgresql.roundtrip import encode
from rowbus.database.statements import Query, Statement, no_rows, scalar

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import Session

ANYTHING = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(
    ["", "NULL", "null", '"', "\\", "{}", "a,b", " ", '{"a":"\\\\b"}', "\u2003", "\\x00"]
)


def read_back(session: Session, kind: str, value: object) -> Any:  # noqa: ANN401 - as the server gives it
    """Give what the server read, by way of psycopg's loaders."""
    text_lists = frozenset({"value"} if kind.startswith("text[]") else ())
    query = Query(b"", b"", ("value",), "Failed", text_lists=text_lists)
    values, formats = encode(Statement(query, {"value": value}, no_rows), Transformer(session.connection))
    pgconn = session.connection.pgconn
    result = pgconn.exec_params(f"select $1::{kind}".encode(), values, None, formats, Format.TEXT)
    assert result.status == ExecStatus.TUPLES_OK, result.error_message
    if isinstance(value, list):
        assert (result.get_value(0, 0) or b"").startswith(b"{"), "its first element is not the one numbered 1"
    transformer = Transformer(session.connection)
    transformer.set_pgresult(result)
    row = transformer.load_row(0, tuple)
    assert row is not None
    return row[0]


@ANYTHING
@given(values=st.lists(st.none() | TEXT))
def test_any_texts_arrive_as_they_are(session: Session, values: list[str | None]) -> None:
    assert read_back(session, "text[]", values) == values


@ANYTHING
@given(values=st.lists(st.none() | st.binary(), min_size=1))
def test_any_bytes_arrive_as_they_are(session: Session, values: list[bytes | None]) -> None:
    assert read_back(session, "bytea[]", values) == values


def test_texts_are_read_as_the_type_that_the_statement_names(session: Session) -> None:
    given_ids = ["00000000-0000-4000-8000-000000000000", None]
    read: list[object] = read_back(session, "uuid[]", given_ids)
    assert [each and str(each) for each in read] == given_ids


@pytest.mark.parametrize(
    "kind, value",
    [("text[]", ["fine", None, "not \0 fine"]), ("varchar[]", ["fine", "not \0 fine"])],
)
def test_what_no_text_can_hold_is_refused(session: Session, kind: str, value: object) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        read_back(session, kind, value)


@ANYTHING
@given(values=st.lists(st.none() | TEXT))
def test_any_texts_of_another_type_arrive_as_they_are(session: Session, values: list[str | None]) -> None:
    assert read_back(session, "varchar[]", values) == values


def test_a_null_in_a_list_is_one_where_the_server_takes_it_for_a_text(session: Session) -> None:
    session.connection.execute("set array_nulls = off")
    times = [timedelta(seconds=1), None]
    query = Query(b"", b"select $1::interval[]", ("value",), "Failed")

    assert session.run(Statement(query, {"value": times}, scalar)) == times
    assert read_back(session, "text[]::interval[]", times) == times
