"""Arguments of PgQ's triggers alone and together, right and wrong, at each level and time of firing."""

from __future__ import annotations

from tests.log.trigger_cases import Case

TABLE = 'create table t (id int primary key, a text, b int, "Odd Col" text)'
KEYLESS = 'create table t (id int, a text, b int, "Odd Col" text)'
CHANGES = (
    "insert into t values (1, 'x y', 5, 'O''q')",
    "update t set a = 'é'",
    "update t set b = 6",
    "update t set b = 6",
    "update t set id = 2",
    "update t set id = 3, a = 'z'",
    "update t set a = null, b = 7",
    'update t set "Odd Col" = null',
    "delete from t",
)

ROW = (
    (),
    ("q",),
    ("",),
    ("q", "bad"),
    ("q", ""),
    ("q", "skip"),
    ("q", "BACKUP"),
    ("q", "backup "),
    ("q", "ev_extra5=b"),
    ("q", "SKIP"),
    ("q", "SKIP", "bad"),
    ("q", "deny", "SKIP"),
    ("q", "deny"),
    ("q", "deny", "when=false"),
    ("q", "backup"),
    ("q", "backup", "ev_extra2=a"),
    ("q", "ignore=a"),
    ("q", "ignore=nope"),
    ("q", "ignore=id"),
    ("q", "ignore="),
    ("q", "ignore=a, b"),
    ("q", "ignore=A"),
    ("q", "ignore=\ta ,b"),
    ("q", "ignore=a,id,b,Odd Col"),
    ("q", "ignore=Odd,Col"),
    ("q", "ignore=b", "ignore=a"),
    ("q", "ignore=a", "backup"),
    ("q", "ignore=b", "pkey=a"),
    ("q", "ignore=a", "pkey=b,a"),
    ("q", "pkey=b,a"),
    ("q", "pkey=nope"),
    ("q", "pkey="),
    ("q", "pkey=Odd Col"),
    ("q", "pkey= id, b"),
    ("q", "pkey=id,"),
    ("q", 'pkey="id"'),
    ("q", "pkey=a", "pkey=id"),
    (
        "q",
        "ev_type=a",
        "ev_data=b",
        "ev_extra1=id",
        "ev_extra2=b>5",
        "ev_extra3=null",
        "ev_extra4=replace(a,'x','X')||1",
    ),
    ("q", "ev_type=id", "ev_type=b"),
    ("q", "ev_type="),
    ("q", "ev_type=/* id */ id -- id"),
    ("q", "ev_type='it''s' || id"),
    ("q", r"ev_type=E'\x41\' b' || $x$b$x$"),
    ("q", "ev_type=id::text::varchar"),
    ("q", "ev_type=a.id"),
    ("q", "ev_type=B"),
    ("q", "ev_type=nosuch"),
    ("q", "ev_type=b, a"),
    ("q", "ev_type=b as foo"),
    ("q", "ev_type=id;"),
    ("q", "ev_type=it's"),
    ("q", "ev_type=1 where false"),
    ("q", "ev_type=generate_series(1, 2)"),
    ("q", "ev_type=b from t union select 5"),
    ("q", "ev_type=(select b from t limit 0)"),
    ("q", "ev_type=array[a, a]"),
    ("q", "ev_type=date '2010-01-02'"),
    ("q", "ev_type=1 / (b - 6)"),
    ("q", "when=b > 5"),
    ("q", "when=null"),
    ("q", "when=null::bool"),
    ("q", "when=1"),
    ("q", "when="),
    ("q", "when=a = 'é'", "ignore=b"),
    ("q", "when=false", "ev_extra2=1 limit 0"),
    ("q", "when=null::bool", "ev_extra4=1 limit 0"),
    ("q", "when=b > 5", "when=b < 6"),
    ("q", "when=true, 1"),
    ("q", "when=1 / (b - 6) > 0", "ignore=a"),
    ("q", "ignore=a", "ev_data=nosuch"),
    ("q", "ev_extra1=nosuch", "bad"),
    ("q", "ev_extra1=nosuch", "deny"),
    ("q", "ev_extra1=nosuch", "SKIP"),
    ("q", "ev_extra3=b", "ev_extra4=tableoid"),
)
BEFORE = (
    (),
    ("q",),
    ("q", "SKIP"),
    ("q", "SKIP", "deny"),
    ("q", "SKIP", "ignore=a"),
    ("q", "SKIP", "when=false"),
    ("q", "SKIP", "bad"),
    ("q", "ignore=a"),
    ("q", "when=b > 5", "backup"),
)
TRUNCATE = (
    (),
    ("q",),
    ("q", "bad"),
    ("q", "SKIP"),
    ("q", "deny"),
    ("q", "backup"),
    ("q", "ignore=a"),
    ("q", "ignore="),
    ("q", "pkey=id"),
    ("q", "pkey=id", "ignore=a"),
    ("q", "backup", "pkey=id"),
    ("q", "ev_type='x'"),
    ("q", "when=false"),
    ("q", "backup", "ev_data=1"),
    ("q", "SKIP", "deny"),
    ("q", "SKIP", "backup"),
    ("q", "ev_type=nosuch", "bad"),
)
NO_KEY = (
    (("q",)),
    ("q", "bad"),
    ("q", "SKIP"),
    ("q", "deny"),
    ("q", "when=false"),
    ("q", "ignore=a"),
    ("q", "pkey=id"),
)
LOCAL = "set local session_replication_role = local"
REPLICA = "set local session_replication_role = replica"
ANY = "before insert or update or delete"

ARGUMENTS = (
    *(Case(f"after row {arguments}", "t", TABLE, CHANGES, arguments) for arguments in ROW),
    *(Case(f"before row {arguments}", "t", TABLE, CHANGES, arguments, ANY) for arguments in BEFORE),
    *(
        Case(
            f"{time} truncate {arguments}",
            "t",
            TABLE,
            ("truncate t",),
            arguments,
            f"{time} truncate",
            "statement",
        )
        for time in ("after", "before")
        for arguments in TRUNCATE
    ),
    *(
        Case(f"after statement {arguments}", "t", TABLE, CHANGES[:2], arguments, level="statement")
        for arguments in ((), ("q",), ("q", "bad"))
    ),
    *(
        Case(
            f"no key {arguments}",
            "t",
            KEYLESS,
            ("insert into t values (1)", "update t set a = 'b'", "delete from t"),
            arguments,
        )
        for arguments in NO_KEY
    ),
    *(
        Case(f"{setting} {arguments}", "t", TABLE, CHANGES, arguments, ANY, settings=(setting,))
        for setting in (LOCAL, REPLICA)
        for arguments in ((), ("q",), ("q", "SKIP"), ("q", "bad"))
    ),
    Case("local statement", "t", TABLE, CHANGES, ("q",), level="statement", settings=(LOCAL,)),
    Case(
        "a view",
        "v",
        TABLE + "; create view v as select * from t",
        ("insert into v values (1, 'a')", "delete from v"),
        ("q",),
        "instead of insert or update or delete",
    ),
)
