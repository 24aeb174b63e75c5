"""Captures of ours are exact: every change is an event, by the table's key as it is now, in one form in every session.

Invariant: each row is tried with generated code and with the general code, which have to write the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

import psycopg
import pytest

from rowbus.database.statements import script
from rowbus.log.schema import table as log_schema
from tests.fixtures.every import every
from tests.log.trigger_cases import READ, SPY, prepare

Connection = psycopg.Connection[Any]
Events = list[tuple[str, str]]

STALE = "update pgq.capture_code set cc_shape = 'none'; select pgq.replace_generated_event()"
"""Has row_event make the events: the code that was generated is not for the tables as they are."""
GENERATED = "select pgq.maint_capture()"
FOREIGN = """
    set local datestyle = 'German, DMY'; set local extra_float_digits = -5; set local intervalstyle = 'iso_8601';
    set local bytea_output = 'escape'; set local quote_all_identifiers = on; set local timezone = 'Asia/Kathmandu';
    set local standard_conforming_strings = off; set local escape_string_warning = off; set local backslash_quote = off;
    set local lc_monetary = 'POSIX'; set local array_nulls = off; set local xmloption = document;
    set local search_path = pgq, public; set local client_encoding = 'latin1'
"""
IS_CURRENT = "do $$ begin assert (select bool_and(generated = 'yes') from pgq.capture_status); end $$"
"""Fails where the code counts as stale, as it would if a table's shape depended on a session's settings."""
ODD = """
    create type pair as (d date, f float8);
    create table t (
        id int, day date, at timestamp, f float8, r real, i interval, b bytea, days date[], span daterange, p pair,
        zoned timestamptz, note text, primary key (id, day)
    )
"""
ROW = (
    "(1, '2026-02-03', '2026-02-03 04:05', 0.1::float8 + 0.2, 1.1, '1 mon 2 days', decode('00ff', 'hex'),"
    " '{2026-02-03}', '[2026-02-03,2026-05-06)', ('2026-02-03', 0.1::float8 + 0.2), '2026-02-03 04:05:06.5+01',"
    " concat('Größe ', chr(92), 'd $5 ''+%'))"
)


@pytest.fixture
def log_script() -> str:
    return "select pgq.create_queue('q')"


@pytest.fixture
def database(pgq: Connection) -> Connection:
    """Give a database with the queue q, whose events are only noted down; code is generated when a test says so."""
    pgq.execute("drop event trigger if exists pgq_table_changed")
    prepare(pgq)
    return pgq


def capture(table: str, form: str = "json", *arguments: str, trigger: str = "c") -> str:
    listed = ",".join(f'"{argument}"' for argument in arguments).replace("'", "''")
    return f"select pgq.capture_table('{table}', 'q', '{form}', '{{{listed}}}', '{trigger}')"


def written(connection: Connection, *statements: str) -> Events:
    """Give types and data of the events of statements, which are rolled back."""
    with connection.transaction(force_rollback=True):
        for statement in statements:
            connection.execute(statement.encode(connection.info.encoding))
        return [(event[1], event[2]) for event in connection.execute(READ).fetchall()]


def both(connection: Connection, before: tuple[str, ...], *statements: str) -> Events:
    """Give the events of statements after others, by generated and by general code, which write the same."""
    general, generated = (written(connection, *before, code, *statements) for code in (STALE, GENERATED))
    assert generated == general
    return general


def operations(events: Events) -> Iterator[tuple[str, list[str]]]:
    for type_, _ in events:
        said = json.loads(type_)
        yield said["op"], said["pkey"]


# ------------------------------------------------------------------------------------------------------------- keys


@every(
    "table, change, key, where",
    [
        ("id int primary key, v text", "alter table t rename id to ident", ["ident"], "ident='1'"),
        ("id int, v text, primary key (id) include (v)", "select 1", ["id"], "id='1'"),
        (
            "id int primary key, v text",
            "alter table t rename id to w; alter table t rename v to id; alter table t rename w to v",
            ["v"],
            "v='1'",
        ),
        (
            "id int, b text, v text, primary key (b, id) include (v)",
            "alter table t rename b to c",
            ["c", "id"],
            "id='1' and c='x'",
        ),
        ('"a b" int primary key, b text', "select 1", ["a b"], "\"a b\"='1'"),
    ],
)
def test_a_key_is_what_the_table_says_now(
    database: Connection, table: str, change: str, key: list[str], where: str
) -> None:
    for form in ("json", "sql"):
        made = (f"create table t ({table})", capture("t", form), change)
        insert = "insert into t select 1, 'x', 'y'" if "c" in key else "insert into t select 1, 'x'"
        alter = (
            "do $$ begin execute (select format('update t set %I = ''z''', attname) from pg_attribute where "
        )
        alter += "attrelid = 't'::regclass and atttypid = 25 order by attnum desc limit 1); end $$"
        events = both(database, made, insert, alter, "delete from t")
        if form == "json":
            assert list(operations(events)) == [("INSERT", key), ("UPDATE", key), ("DELETE", key)]
        else:
            assert events[1][1].endswith(f"='z' where {where}")
            assert events[2] == ("D", where)


@every(
    "form, expected",
    [
        (
            "json",
            [
                ('{"op":"DELETE","table":["public","t"],"pkey":["id"]}', '{"id":"1.0","v":"a"}'),
                ('{"op":"INSERT","table":["public","t"],"pkey":["id"]}', '{"id":"1.00","v":"a"}'),
                ('{"op":"DELETE","table":["public","t"],"pkey":["id"]}', '{"id":"1.00","v":"a"}'),
                ('{"op":"INSERT","table":["public","t"],"pkey":["id"]}', '{"id":"2","v":"b"}'),
            ],
        ),
        (
            "url",
            [("D:id", "id=1.0&v=a"), ("I:id", "id=1.00&v=a"), ("D:id", "id=1.00&v=a"), ("I:id", "id=2&v=b")],
        ),
        (
            "sql",
            [
                ("D", "id='1.0'"),
                ("I", "(id,v) values ('1.00','a')"),
                ("D", "id='1.00'"),
                ("I", "(id,v) values ('2','b')"),
            ],
        ),
    ],
)
def test_an_update_of_a_key_is_a_delete_and_an_insert(
    database: Connection, form: str, expected: Events
) -> None:
    """A key of another text is another one, though its type says that it is the same."""
    for arguments in ((), ("ignore=seen", "backup"), ("when=v < 'c'", "pkey=id", "ignore=seen")):
        table = f"create table t (id numeric primary key, v text{', seen int' if arguments else ''})"
        made = (table, "insert into t values (1.0, 'a')", capture("t", form, *arguments))
        assert both(database, made, "update t set id = 1.00", "update t set id = 2, v = 'b'") == expected


def test_a_key_that_leaves_or_enters_what_is_captured_is_only_deleted_or_inserted(
    database: Connection,
) -> None:
    made = ("create table t (id int primary key)", capture("t", "url", "when=id < 10"))
    changes = ("update t set id = id + 9", "update t set id = id + 9", "update t set id = 3")

    assert both(database, made, "insert into t values (1)", *changes) == [
        *(("I:id", "id=1"), ("D:id", "id=1"), ("I:id", "id=3"))
    ]


@every("form", ["json", "url", "sql"])
def test_a_key_that_is_refused_is_told_with_table_trigger_and_remedy(database: Connection, form: str) -> None:
    made = (
        "create table t (id int, v text, primary key (id)) partition by range (id)",
        "create table part partition of t for values from (1) to (100)",
        "insert into t values (1)",
        capture("t", form, "as-pgq", "ignore=v"),
    )
    with database.transaction(force_rollback=True):
        for statement in made:
            database.execute(statement.encode())
        with (
            pytest.raises(psycopg.Error, match="primary key update not allowed") as caught,
            database.transaction(),
        ):
            database.execute("update t set id = 2")
        said = caught.value.diag
        assert said.message_detail == "Table public.part is captured into log q by trigger c."
        _, _, remedy = (said.message_hint or "").partition(": ")
        database.execute(remedy.encode())
        database.execute("update t set id = 2")
        assert [event[1][:1] for event in database.execute(READ).fetchall()] in (["D", "I"], ["{", "{"])


# ---------------------------------------------------------------------------------------------------------- changes


CHANGES = (
    ("numeric", "1.0", "1.00"),
    ("interval", "1 mon", "30 days"),
    ("jsonb", "[1.0]", "[1.00]"),
    ("float8", "0", "-0"),
    ("real", "0", "-0"),
    ("bpchar", "a", "a  "),
    ("numeric[]", "{1.0}", "{1.00}"),
    ("numrange", "[1.0,2)", "[1.00,2)"),
    ("interval[]", "{1 mon}", "{30 days}"),
    ("loose", "1 mon", "30 days"),
    ("pair", "(1.0)", "(1.00)"),
    ("text", "", "x"),
)
"""Types, and values of them that are equal and not the same."""


@every("form", ["json", "url", "sql"])
def test_another_text_is_a_change_beside_ignored_columns(database: Connection, form: str) -> None:
    names = [f"c{number}" for number in range(len(CHANGES))]
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in zip(names, CHANGES, strict=True))
    made = (
        "create domain loose as interval; create type pair as (n numeric)",
        f"create table t (id int primary key, seen int default 0, {columns})",
        f"insert into t (id, {', '.join(names)}) values (1, {', '.join(repr(old) for _, old, _ in CHANGES)})",
        capture("t", form, "ignore=seen"),
    )
    changes = [
        f"update t set {name} = {new!r}, seen = seen + 1"
        for name, (_, _, new) in zip(names, CHANGES, strict=True)
    ]
    events = both(database, made, *changes, "update t set seen = 0")

    assert len(events) == len(CHANGES)
    if form == "sql":
        assert [data.partition("=")[0] for _, data in events] == names


def test_statements_set_no_column_that_is_computed(database: Connection) -> None:
    table = "id int primary key, a int, b int generated always as (a * 2) stored"
    made = (f"create table t ({table})", capture("t", "sql", "ignore=a"))
    changes = ("insert into t values (1, 5)", "update t set a = 6", "delete from t")
    assert both(database, made, *changes) == [("I", "(id) values ('1')"), ("D", "id='1'")]

    made = (f"create table t ({table})", capture("t", "sql"))
    assert both(database, made, *changes) == [
        *(("I", "(id,a) values ('1','5')"), ("U", "a='6' where id='1'"), ("D", "id='1'"))
    ]


@every("form", ["json", "url", "sql"])
def test_masked_columns_are_never_written(database: Connection, form: str) -> None:
    masks = ("mask=e:m:hash", "mask=n:null", "mask=v:truncate:2")
    arguments = ((*masks,), ("as-pgq", *masks), (*masks, "backup", "ignore=seen"), (*masks, "when=n > 0"))
    for given in arguments:
        table = 'create table t (id int primary key, "e:m" text, n int, v varchar(70), seen int)'
        changes = (
            "insert into t values (1, 'a@b', 123456789, 'secret', 0)",
            "update t set \"e:m\" = 'c@d', v = 'hidden', seen = 1",
            "delete from t",
        )
        events = both(database, (table, capture("t", form, *given)), *changes)
        text = " ".join(data for _, data in events)
        assert sha256(b"a@b").hexdigest() in text
        assert not re.search("a@b|a%40b|c@d|c%40d|123456789|secret|hidden", text)
        assert len(events) == 3


# --------------------------------------------------------------------------------------------------------- sessions


@every("form", ["json", "url", "sql"])
def test_values_have_one_form_whatever_the_session_says(database: Connection, form: str) -> None:
    changes = (
        f"insert into t values {ROW}",
        "update t set f = f + 1, i = i * 2",
        "update t set day = day + 1",
        "delete from t",
    )
    for arguments in ((), ("backup", "ignore=r")):
        made = (ODD, capture("t", form, *arguments))
        plain = both(database, made, *changes)

        assert both(database, (*made, FOREIGN), *changes) == plain
        made_in_it = (ODD, FOREIGN, made[1], "set local bytea_output = 'hex'", IS_CURRENT)
        assert written(database, *made_in_it, *changes) == plain
        assert len(plain) == 5
        assert "0.30000000000000004" in plain[0][1]


SHOWN: tuple[dict[str, tuple[str, str]], ...] = (
    {
        "timestamptz": ("2026-02-03 04:05:06.5+01", "2026-02-03 03:05:06.5+00"),
        "timestamptz(0)": ("0044-03-15 12:00+01 BC", "0044-03-15 11:00:00+00 BC"),
        "timestamptz(1)": ("-infinity", "-infinity"),
        "timestamptz(2)": ("12026-02-03 00:30+01", "12026-02-02 23:30:00+00"),
    },
    {
        "timestamptz[]": ("{2026-02-03 04:05+01}", '{"2026-02-03 03:05:00+00"}'),
        "tstzrange": ("[2026-02-03 00:00+01,)", '["2026-02-02 23:00:00+00",)'),
        "tstzmultirange": ("{[2026-02-03 00:00+01,)}", '{["2026-02-02 23:00:00+00",)}'),
        "moment": ("2026-02-03 00:00+01", "2026-02-02 23:00:00+00"),
    },
    {"visit": ("(2026-02-03 00:00+01,orders,12)", '("2026-02-02 23:00:00+00",public.orders,$12.00)')},
    {"visit[]": ('{"(2026-02-03 00:00+01,,)"}', r'{"(\"2026-02-02 23:00:00+00\",,)"}')},
    {
        "timestamp[]": ("{2026-02-03}", '{"2026-02-03 00:00:00"}'),
        "daterange": ("[2026-02-03,2026-05-06)", "[2026-02-03,2026-05-06)"),
        "datemultirange": ("{[2026-02-03,2026-05-06)}", "{[2026-02-03,2026-05-06)}"),
        "real": ("1.1", "1.1"),
        "float8[]": ("{0.30000000000000004}", "{0.30000000000000004}"),
    },
    {"circle": ("<(0.30000000000000004,1),1>", "<(0.30000000000000004,1),1>")},
    {
        "loose[]": ("{1 mon}", '{"1 mon"}'),
        "loose": ("1 mon", "1 mon"),
        "bytea[]": (r"{\\x00ff}", r'{"\\x00ff"}'),
    },
    {
        "regclass": ("orders", "public.orders"),
        "regtype[]": ("{visit}", "{public.visit}"),
        "regprocedure": ("twice(int)", "public.twice(integer)"),
    },
    {"money": ("1234.5", "$1,234.50"), "money[]": ("{12}", "{$12.00}")},
)
"""Tables of columns of types, with a value each and its text in every session."""


@every("form", ["json", "url", "sql"])
def test_generated_code_asks_for_the_settings_that_a_type_depends_on(database: Connection, form: str) -> None:
    """Types that depend on different settings are in tables of their own, so that none is asked for another's sake."""
    made = [
        "create table orders (); create domain loose as interval; create domain moment as timestamptz",
        "create type visit as (at timestamptz, of regclass, price money)",
        "create function twice(int) returns int language sql return $1 * 2",
    ]
    changes: list[str] = []
    function = {"json": "jsontriga", "url": "logutriga", "sql": "sqltriga"}[form]
    for number, columns in enumerate(SHOWN):
        named = ", ".join(f"v{place} {kind}" for place, kind in enumerate(columns))
        values = ", ".join(f"'{value}'" for value, _ in columns.values())
        made += [
            f"create table t{number} (id int primary key, {named}); insert into t{number} values (1, {values})",
            f"create trigger c after insert on t{number} for each row execute function pgq.{function}('q', 'exact')",
        ]
        names = ", ".join(f"v{place}" for place in range(len(columns)))
        changes.append(f"insert into public.t{number} select 2, {names} from public.t{number}")
    plain, foreign = (both(database, (*made, settings), *changes) for settings in ("select 1", FOREIGN))

    assert foreign == plain
    if form != "sql":
        expected = [[text for _, text in columns.values()] for columns in SHOWN]
        assert [shown(form, data) for _, data in plain] == expected


def shown(form: str, data: str) -> list[str]:
    """Give the values but for the id in the data of an event; times as PostgreSQL writes them in texts."""
    values = json.loads(data) if form == "json" else dict(parse_qsl(data))
    texts = [str(value) for name, value in values.items() if name != "id"]
    return [re.sub(r"(\d)T(\d\d:\d\d:\d\d(?:\.\d+)?\+00):00", r"\1 \2", text) for text in texts]


def test_what_an_installation_or_a_capture_makes_in_a_foreign_session_is_the_same(
    database: Connection,
) -> None:
    """Under standard_conforming_strings = off a backslash is read where a text of a function stands."""
    made = "create table t (id int primary key, v text)"
    captures = [capture("t", form, "when=v ~ '^.d'", trigger=form) for form in ("json", "url", "sql")]
    insert = "insert into public.t values (1, chr(92) || 'd+ $5 %')"
    install = "\n".join(map(script, log_schema.definitions()))
    foreign = FOREIGN + "; set local client_encoding = 'utf8'"
    plain = written(database, made, *captures, insert)

    assert written(database, made, foreign, install, SPY, *captures, insert) == plain
    assert len(plain) == 3


def test_texts_of_any_collation_are_written(database: Connection) -> None:
    """A collation that takes different texts for one refuses patterns; where there is no ICU there is none."""
    try:
        with database.transaction(force_rollback=True):
            database.execute("create collation probe (provider = icu, locale = 'und')")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server is built without ICU")
    made = (
        "create collation a (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "create collation b (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
        "create domain word as text collate a",
        "create table t (id text collate b primary key, v text collate a, w word, x text[] collate b)",
    )
    for form in ("json", "url", "sql"):
        changes = (
            "insert into t values ('k é', 'ö x', 'w', '{é,b}')",
            "update t set v = 'Ö x'",
            "delete from t",
        )
        assert len(both(database, (*made, capture("t", form, "ignore=x")), *changes)) == 3


def test_a_capture_as_pgqs_writes_what_pgqs_does(database: Connection) -> None:
    table = "create table t (id int, v numeric, seen int, primary key (id) include (v))"
    change = "update t set v = 1.00, seen = 1"
    insert = "insert into t values (1, 1.0, 0)"
    made = (table, capture("t", "url", "as-pgq", "ignore=seen"))

    assert both(database, made, insert, change, "delete from t") == [
        ("I:id,v", "id=1&v=1.0"),
        ("D:id,v", "id=1&v=1.00"),
    ]
    assert written(database, ODD, capture("t", "url", "as-pgq"), FOREIGN, f"insert into t values {ROW}")[0][
        1
    ].count("03.02.2026")
