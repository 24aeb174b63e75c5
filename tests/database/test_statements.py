"""SQL files become statements: identifiers quoted, values as parameters, nothing formatted into the text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.database import statements
from rowbus.database.statements import (
    Query,
    Statement,
    affected,
    control,
    load,
    names_in,
    no_rows,
    scalar,
    script,
    source,
)
from rowbus.errors import ConfigurationError

patiently = settings(deadline=None, max_examples=60)


def loaded(text: str, monkeypatch: pytest.MonkeyPatch, **bound: dict[str, str]) -> Query:
    monkeypatch.setattr(statements, "source", lambda path: path)  # each text is a file of its own
    return load(text, identifiers=bound.get("identifiers"), literals=bound.get("literals"))


def text_of(text: str, monkeypatch: pytest.MonkeyPatch, **bound: dict[str, str]) -> str:
    return loaded(text, monkeypatch, **bound).text.decode()


def test_a_text_is_bound_once_and_one_with_literals_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def source_of(path: str) -> str:
        read.append(path)
        return path

    monkeypatch.setattr(statements, "source", source_of)
    text = "select :\"a\", :'password' -- bound once"

    first, again = (load(text, identifiers={"a": "x"}, failing=failing) for failing in ("1", "2"))
    other = load(text, identifiers={"a": "y"})
    secrets = [load(text, identifiers={"a": "x"}, literals={"password": word}).text for word in ("p", "q")]

    assert (first.text is again.text, first.failing, again.failing) == (True, "1", "2")
    assert b'"y"' in other.text
    assert [b"'p'" in secrets[0], b"'q'" in secrets[1]] == [True, True]
    assert read == [text] * 4


def test_identifiers_are_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = text_of(
        'delete from :"schema".:"queue"', monkeypatch, identifiers={"schema": "public", "queue": 'My "Q"'}
    )

    assert bound == 'delete from "public"."My ""Q"""'


def test_values_become_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_of("select :'most'::integer", monkeypatch) == "select %(most)s::integer"


def test_literals_are_written_into_the_text_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_of("notify(:'channel')", monkeypatch, literals={"channel": "it's"}) == "notify('it''s')"


def test_percent_signs_in_names_and_literals_are_not_placeholders(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(":\"q\" :'v'", monkeypatch, identifiers={"q": "100%s"}, literals={"v": "%(x)s"})

    assert text == "\"100%%s\" '%%(x)s'"


def test_casts_and_array_slices_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_of("select now()::date, a[1:2], ':x'", monkeypatch) == "select now()::date, a[1:2], ':x'"


def test_what_looks_like_a_placeholder_in_a_name_is_not_bound_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = text_of(':"queue"', monkeypatch, identifiers={"queue": ":'most'"})

    assert bound == "\":'most'\""


def test_a_name_that_no_database_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"The name of the queue, .*, holds a NUL character"):
        text_of(':"queue"', monkeypatch, identifiers={"queue": "Sales\0Billing"})


def test_an_identifier_the_call_forgot_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError, match="schema"):
        text_of(':"schema"', monkeypatch)


def test_the_servers_own_placeholders_are_numbered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    query = loaded("select :'a', :'b', :'a', 5 % 2, :\"q\"", monkeypatch, identifiers={"q": "100%"})

    assert query.native == b'select $1, $2, $1, 5 % 2, "100%"'
    assert query.names == ("a", "b")
    assert query.text == b'select %(a)s, %(b)s, %(a)s, 5 %% 2, "100%%"'


def test_a_part_is_repeated_for_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        statements, "source", lambda _: "select :'a', /* each */(select :'b' from :\"q\")/* end */, :'a'"
    )
    query = statements.load_repeating("any.sql", [{"q": "/* end */"}, {"q": ":'a'"}], failing="Failed")

    assert query.native == b'select $1, (select $2 from "/* end */"), (select $2 from ":\'a\'"), $1'
    assert query.names == ("a", "b")


def test_a_value_is_a_list_of_texts_where_each_of_its_places_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    query = loaded("select :'a'::text[], :'b'::text[], :'b'::uuid[], :'c'::text, :'a'::text[]", monkeypatch)

    assert query.text_lists == {"a"}
    assert query.native == b"select $1::text[], $2::text[], $2::uuid[], $3::text, $1::text[]"
    assert query.text == b"select %(a)s::text[], %(b)s::text[], %(b)s::uuid[], %(c)s::text, %(a)s::text[]"


def test_comments_are_left_out() -> None:
    text = source("transport/queues/sql/postgresql/receive.sql")

    assert text.startswith("delete from")
    assert "--" not in text


def test_a_folder_that_is_not_there_has_no_files() -> None:
    assert names_in("log/sql/nowhere") == ()
    assert "purge.sql" in names_in("transport/queues/sql/postgresql")


def test_what_failed_and_whose_queue_go_with_the_query() -> None:
    query = load(
        "transport/queues/sql/postgresql/purge.sql",
        identifiers={"schema": "public", "queue": "Sales"},
        failing="Failed to purge it",
        queue="Sales",
        prepare=False,
    )

    assert query.text == query.native == b'delete from "public"."Sales"'
    assert (query.failing, query.queue, query.prepare) == ("Failed to purge it", "Sales", False)


def test_transaction_control_has_neither_names_nor_values() -> None:
    statement = control(b"commit", "Could not commit")

    assert statement.query.text == statement.query.native == b"commit"
    assert statement.query.names == ()
    assert not statement.parameters


def test_a_script_has_its_values_written_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    query = loaded("select :'name', :'count'::integer, 5 % 2", monkeypatch)

    text = script(Statement(query, {"name": "it's %s", "count": None}, no_rows))

    assert text == "select 'it''s %s', NULL::integer, 5 % 2;"


def test_answers_are_read_as_nothing_a_count_or_one_value() -> None:
    assert affected([], 7) == 7
    assert scalar([(42,)], 1) == 42
    no_rows([(1,)], 1)


@patiently
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_no_name_breaks_out_of_its_quotes(name: str) -> None:
    query = load("transport/queues/sql/postgresql/purge.sql", identifiers={"schema": "s", "queue": name})

    assert query.text == query.native.replace(b"%", b"%%")
    quoted = query.native.decode().removeprefix('delete from "s".')
    assert quoted[0] == quoted[-1] == '"'
    assert quoted[1:-1].replace('""', "") == name.replace('"', "")
