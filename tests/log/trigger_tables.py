"""Tables of every shape for the trigger tests: types of columns, names, keys, partitions, magic columns."""

from __future__ import annotations

from tests.log.trigger_cases import Case

TYPES = """
    create type mood as enum ('sad', 'so "so"'); create type pair as (left_part int, right_part text);
    create domain quantity as int; create domain instant as timestamp; create domain yes as bool;
    create table t (
        id int primary key, txt text, num numeric, f8 float8, f4 float4, b bool, i2 int2,
        i8 int8, ts timestamp,
        tz timestamptz, d date, tm time, ttz timetz,
        iv interval, u uuid, by bytea, j json, jb jsonb, a int[], ta text[],
        p pair, e mood, q quantity,
        inst instant, y yes, ch char(5), vc varchar(9), nm name, "char" "char", o oid, ine inet, r int4range,
        bits varbit,
        money money, x path, pt point
    )
"""
FULL_ROW = r'''
    insert into t values (
        1, E'a"b\\c/\b\f\n\r\t\x01\x1f\x7fé漢😀 ''&=+%', 1.50, 'NaN', 1.5, true, 1, 2,
        '2009-09-19 11:59:48.599',
        '2009-09-19 11:59:48.599+02', '2001-01-31', '12:34:56.7', '12:00+02', '1 day 2 hours',
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
        '\x0061ff5c', '{"a": [1, null]}', '{"b": 1.50, "a": "\\"}', '{1,NULL,3}',
        '{"a b",NULL,"","q\"q"}', '(5,"a ""b""")', 'so "so"',
        7, '2020-02-03 04:05:06', false, 'ab', 'vä r', 'nm', 'x', 5, '1.2.3.4/24', '[1,3)', '101', 5,
        '((0,0),(1,1))', '(1,2)'
    )
'''
ODD_TIMES = (
    "insert into t (id, ts, tz, d) values (1, 'infinity', '-infinity', 'infinity')",
    (
        "insert into t (id, ts, tz, d, num, f8)"
        " values (2, '0044-03-15 BC', '0044-03-15 BC', '4713-01-01 BC', 'NaN', '-Infinity')"
    ),
    (
        "insert into t (id, ts, tz, d, f8)"
        " values (3, '294276-12-31 23:59:59.999999', '1800-06-01', '10000-01-01', 0.1::float8 + 0.2)"
    ),
)
SETTINGS = (
    "set local datestyle = 'German, DMY'",
    "set local timezone = 'Asia/Kolkata'",
    "set local intervalstyle = 'iso_8601'",
    "set local bytea_output = 'escape'",
    "set local extra_float_digits = 0",
)
AMERICAN = ("set local datestyle = 'SQL, MDY'", "set local timezone = 'America/New_York'")
COLUMNS = (
    "txt = 'x'",
    "txt = null",
    "num = 1.5",
    "num = 1.50001",
    "f8 = 'NaN'",
    "f8 = 0",
    "f4 = '-0'",
    "b = false",
    "tz = tz + interval '0'",
    "iv = '26 hours'",
    "j = '{\"a\": [1, null]}'",
    "j = '{}'",
    'jb = \'{"b": 1.5, "a": "\\\\"}\'',
    "a = '{1,NULL,3}'",
    "a = '[0:0]={1}'",
    "p = '(5,c)'",
    "p = null",
    "e = 'sad'",
    "q = 8",
    "ch = 'ab '",
    "ch = 'b'",
    "ine = '1.2.3.4/24'",
    "ine = '::1'",
    "r = '[1,2]'",
    "x = '((0,0),(2,1))'",
    "x = '((0,0),(2,2))'",
    "pt = '(1,2.0)'",
    "pt = '(1,3)'",
    "bits = '10'",
    "ta = '{}'",
    "id = 1",
    "id = 2",
    "id = 2, txt = 'key too'",
)
ROW = (
    "insert into t values (1, 'x', 2)",
    "update t set a = 'y'",
    "update t set a = 'y'",
    "update t set id = 2",
    "delete from t",
)
SIMPLE = "create table t (id int primary key, a text, b int)"

TABLES = (
    Case("every type", "t", TYPES, (FULL_ROW, "update t set txt = 'x'", "delete from t")),
    Case("odd values of times", "t", TYPES, ODD_TIMES),
    Case(
        "German dates, Indian time",
        "t",
        TYPES,
        (FULL_ROW, *ODD_TIMES[1:], "delete from t"),
        settings=SETTINGS,
    ),
    Case(
        "American dates and time", "t", TYPES, (FULL_ROW, *ODD_TIMES[1:], "delete from t"), settings=AMERICAN
    ),
    Case(
        "nothing but the key",
        "t",
        TYPES,
        ("insert into t (id) values (1)", "update t set id = 1", "delete from t"),
    ),
    Case("a change of each type", "t", TYPES, (FULL_ROW, *(f"update t set {column}" for column in COLUMNS))),
    Case(
        "a change of each type beside an ignored one",
        "t",
        TYPES.replace("id int", "ign serial, id int"),
        (
            FULL_ROW.replace("into t values (", "into t values (default,"),
            *(f"update t set ign = ign + 1, {column}" for column in COLUMNS),
        ),
        ("q", "ignore=ign", "backup"),
    ),
    Case(
        "names that need quotes",
        '"S x"."T ""q%s"',
        'create schema "S x"; create table "S x"."T ""q%s" ('
        '"%L" int, x int, "a""b\\c" text, "UP" int, "sel ect" int, "select" text, "Ünï" text, primary key ("UP", x))',
        (
            'insert into "S x"."T ""q%s" values (0, 1, \'x\', 2, 3, null, \'é\')',
            'update "S x"."T ""q%s" set "a""b\\c" = \'y\\\', "sel ect" = null',
            'delete from "S x"."T ""q%s"',
        ),
    ),
    Case(
        "a key of several columns",
        "t",
        "create table t (a int, b text, c int, d text, primary key (d, a) include (c))",
        (
            "insert into t values (1, 'b', 3, 'd')",
            "update t set b = 'x'",
            "update t set c = 4",
            "update t set a = 4",
            "delete from t",
        ),
    ),
    Case(
        "dropped columns",
        "t",
        "create table t (a int, b text, c int, d int, primary key (c, a)); alter table t drop column b",
        ("insert into t values (1, 2, 3)", "update t set d = 4", "delete from t"),
    ),
    Case(
        "no key",
        "t",
        "create table t (a int unique not null, b json)",
        ("insert into t values (1, '{}')", "update t set a = 2", "delete from t"),
    ),
    Case("no columns", "t", "create table t ()", ("insert into t default values",)),
    Case(
        "a float for a key",
        "t",
        "create table t (a float8 primary key, b text)",
        (
            "insert into t values (0, 'b')",
            "update t set a = '-0'",
            "update t set a = 1",
            "update t set b = 'c'",
            "delete from t",
        ),
    ),
    Case(
        "columns without a default operator",
        "t",
        "create table t (id int primary key, c pair2[], j json, p point)".replace(
            "create table", "create type pair2 as (j json); create table"
        ),
        (
            "insert into t values (1, '{\"({})\"}', '{}', '(1,2)')",
            "update t set c = '{\"({ })\"}'",
            "update t set j = '{ }'",
            "update t set p = '(1,2.0)'",
        ),
    ),
    Case(
        "partitions",
        "t",
        "create table t (id int primary key, v text) partition by range (id);"
        "create table t1 (v text, id int not null); alter table t attach partition t1 for values from (0) to (10);"
        "create table t2 partition of t for values from (10) to (20)",
        (
            "insert into t values (1, 'a'), (11, 'x')",
            "update t set v = 'b'",
            "update t set id = 2 where id = 1",
            "update t set id = 12 where id = 1",
            "delete from t",
        ),
    ),
    Case(
        "a parent table",
        "t",
        "create table t (id int primary key, v text); create table child (w int) inherits (t)",
        (
            "insert into t values (1, 'a')",
            "insert into child values (2, 'b', 3)",
            "update t set v = 'c'",
            "delete from t",
        ),
    ),
    Case(
        "a child table",
        "child",
        "create table t (id int primary key, v text); create table child (w int) inherits (t)",
        ("insert into t values (1, 'a')", "insert into child values (2, 'b', 3)", "update t set v = 'c'"),
    ),
    Case(
        "every magic column",
        "t",
        "create table t (id int, _pgq_ev_type text, _pgq_ev_data text, _pgq_ev_extra1 int, "
        "_pgq_ev_extra2 bool, _pgq_ev_extra3 timestamp, _pgq_ev_extra4 numeric, v text)",
        (
            "insert into t values (1, 'ty', 'da', 5, true, '2020-01-01', 1.50, 'v')",
            "insert into t values (1)",
        ),
    ),
    Case(
        "one magic column",
        "t",
        "create table t (id int primary key, v text, _pgq_ev_extra2 text)",
        (
            "insert into t values (1, 'v')",
            "update t set v = 'w'",
            "update t set _pgq_ev_extra2 = 'x'",
            "delete from t",
        ),
        ("q", "backup"),
    ),
    Case(
        "a magic column beside ignored ones",
        "t",
        "create table t (id int primary key, v text, _pgq_ev_extra2 text)",
        (
            "insert into t values (1, 'v')",
            "update t set v = 'w'",
            "update t set _pgq_ev_extra2 = 'x'",
            "update t set _pgq_ev_extra2 = 'y', id = 7",
        ),
        ("q", "ignore=v"),
    ),
    Case(
        "an unknown magic column",
        "t",
        "create table t (id int primary key, _pgq_ev_foo text)",
        ("insert into t values (1)",),
    ),
    Case(
        "columns change in the same transaction",
        "t",
        SIMPLE,
        (
            *ROW[:3],
            "alter table t add c numeric default 1.50",
            "update t set a = 'z'",
            "alter table t rename a to aa",
            "update t set b = 5",
            "alter table t alter b type text",
            "update t set c = 2.50",
            "alter table t drop column aa",
            "update t set b = '6'",
            "alter table t drop constraint t_pkey",
            "update t set b = '7'",
            "insert into t values (5, 'five')",
            "alter table t add primary key (b)",
            "update t set id = 9 where id = 5",
            "alter table t rename to renamed",
            "delete from renamed",
        ),
    ),
)
