"""A database with something to steal, roles that want it, the traps they set, and the calls they make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import psycopg
from hypothesis import strategies as st
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.log.test_definer_functions import FUNCTIONS, OPERANDS, OPERATORS, TYPES

Connection = psycopg.Connection[Any]

SECRET = "swordfish"
SECRET_NUMBER = 424242

SETUP = f"""
    create schema watch;
    create sequence watch.caught;
    grant usage on schema watch to public;
    create table public.secret (like pgq.event_template);
    insert into public.secret (ev_id, ev_time, ev_txid, ev_data) values (1, now(), txid_current(), '{SECRET}');
    create table public.secret_0 () inherits (public.secret);
    create table public.secret_1 () inherits (public.secret);
    create table public.secret_2 () inherits (public.secret);
    insert into public.secret_0 select * from public.secret;
    insert into public.secret_1 select * from only public.secret;
    insert into public.secret_2 select * from only public.secret;
    create sequence public.secret_seq;
    select setval('public.secret_seq', {SECRET_NUMBER});
    create schema app;
    create table app.orders (id int primary key, note text, total numeric);
    create function app.order(i_id int, i_note text) returns void language sql security definer
    set search_path = pg_catalog, pg_temp
    as $$ insert into app.orders values (i_id, i_note, 1) on conflict (id) do update set note = i_note, total = 2 $$;
    grant usage on schema app to public;
    select pgq.create_queue(name) from unnest(array['plain', 'limited', 'changes']) as name;
    select pgq.set_queue_option('plain', 'max_retries', '3');
    update pgq.queue set queue_per_tx_limit = 3 where queue_name = 'limited';
    select pgq.register_consumer('plain', 'c');
    select pgq.insert_event('plain', 't', 'd');
    select pgq.capture_table('app.orders', 'changes', 'json', array['backup', 'ev_extra3=note']);
    select pgq.capture_table('app.orders', 'changes', 'url', array['ignore=total'], 'second');
"""
STATE = """
    select 'role', rolname, concat_ws(' ', rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls)
    from pg_roles
    union all
    select 'member', member::regrole::text, roleid::regrole::text from pg_auth_members
    union all
    select 'relation', oid::regclass::text, concat_ws(' ', relowner::regrole, relacl) from pg_class
    where relnamespace::regnamespace::text in ('public', 'app', 'watch', 'pg_catalog') and relkind in ('r', 'v', 'S')
    union all
    select 'function', oid::regprocedure::text, concat_ws(' ', proowner::regrole, prosecdef, proacl) from pg_proc
    where pronamespace::regnamespace::text in ('public', 'app', 'watch', 'pg_catalog')
    union all
    select 'schema', nspname, concat_ws(' ', nspowner::regrole, nspacl) from pg_namespace
    where nspname in ('public', 'app', 'watch', 'pgq', 'pgq_node', 'pgq_coop', 'pgq_ext')
    union all
    select 'owner', oid::regclass::text, relowner::regrole::text from pg_class where relname in ('queue', 'tick')
"""
CALLABLE = """
    select p.oid::regproc::text, array(
        select t::regtype::text from unnest(p.proargtypes) with ordinality as a (t, place) order by place
    )
    from pg_proc as p
    where p.pronamespace::regnamespace::text in ('pgq', 'pgq_coop', 'pgq_ext', 'pgq_node', 'rowbus_spark')
        and has_schema_privilege(%(role)s, p.pronamespace, 'usage')
        and has_function_privilege(%(role)s, p.oid, 'execute')
        and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
    order by p.oid::regprocedure::text
"""

EVENT_COLUMNS = """
    ev_id bigint, ev_time timestamptz, ev_txid bigint, ev_owner int4, ev_retry int4,
    ev_type text, ev_data text, ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
"""

TEXTS = (
    "null", "''", "'plain'", "'limited'", "'changes'", "'nowhere'", "'c'", "'s'", "'c.s'", "'json'", "'url'", "'sql'",
    "'INSERT'", "'UPDATE'", "'max_retries'", "'1'", "'rotation_period'", "'1 second'", "'root'", "'pgq.event_1_0'",
    "'public.secret'", "'public.secret_0'", "'public.secret_seq'", "'pg_catalog.pg_authid'", "'secret'",
    "'trap() is null'", "'x''); select trap(); --'", "'%I%s%L'", "'pgq'", "'queue'",
)  # fmt: skip
VALUES = {
    "text": TEXTS,
    "name": TEXTS,
    "integer": ("null", "0", "1", "2", "-1", "2147483647"),
    "bigint": ("null", "0", "1", "2", "3", "-1", "9223372036854775807"),
    "boolean": ("null", "true", "false"),
    "interval": ("null", "'0'", "'1 second'", "'-1 day'"),
    "timestamp with time zone": ("null", "'now'", "'infinity'", "'1970-01-01'"),
    "text[]": (
        "null",
        "'{}'",
        "'{a}'",
        "'{id,note}'",
        "'{backup}'",
        "'{public.secret}'",
        "'{[0:0]=changes}'",
    ),
    "bigint[]": ("null", "'{}'", "'{1}'", "'{1,2,3}'"),
    "integer[]": ("null", "'{}'", "'{1}'", "'{0,0,0}'"),
    "timestamp with time zone[]": ("null", "'{now}'"),
    "regclass": ("null", "'mine'", "'app.orders'", "'public.secret'", "'pgq.queue'"),
    "oid": ("null", "25", "'app.orders'::regclass", "'mine'::regclass"),
    "anyelement": (
        "null::pg_temp.mine",
        "row(1, 'x')::pg_temp.mine",
        "'x'::pg_temp.text",
        "null::app.orders",
    ),
    "pgq.queue": ("null", "(select q from pgq.queue as q where queue_id = 1)"),
    "pgq.tick": ("null", "(select t from pgq.tick as t limit 1)"),
    "pgq.subscription": ("null", "(select s from pgq.subscription as s limit 1)"),
    "bytea": ("null", "'\\x6100'"),
    "tid": ("null", "'(0,0)'"),
}
"""Arguments for each type, each also as what the caller has made a type of that name mean."""

PATHS = ("evil, pg_temp, pg_catalog, public", "pg_temp, evil, pg_catalog", "pg_catalog, pg_temp", "public")

OTHER_CALLS = (
    "insert into mine values (1, 'x') on conflict (id) do update set note = 'y'",
    "alter table mine add column if not exists more text",
    "select app.order(1, 'note')",
    "update pgq.queue set queue_tick_seq = 'public.secret_seq' where queue_name = 'plain'",
    "update pgq.queue set queue_event_seq = 'public.secret_seq' where queue_name = 'plain'",
    "update pgq.queue set queue_event_seq = 'evil.sequence_view' where queue_name = 'limited'",
    "update pgq.queue set queue_data_pfx = 'public.secret' where queue_name = 'plain'",
    "update pgq.queue set queue_data_pfx = 'evil.events' where queue_name = 'limited'",
    "update pgq.queue set queue_switch_time = now() - interval '1 day', queue_rotation_period = '1 second'",
    "insert into pgq.capture_code select 'app.orders'::regclass, 'json', '{}', 'x', 'version'",
    "table pgq.log_status", "table pgq.consumer_status", "table pgq.capture_status",
    "select from public.secret",
    "create trigger t after insert on mine for each row execute function pgq.jsontriga('plain')",
)  # fmt: skip
TABLES = (
    "create table evil.own (id int primary key, note text default evil.trap()::text, check (evil.trap()))",
    "create table evil.parts (id int primary key, note text) partition by range (id)",
    "create table evil.part partition of evil.parts (check (evil.trap())) default",
    "create table evil.heir () inherits (evil.own)",
    "alter table evil.own add column more evil.odd default 'x'",
    "alter table evil.own add column made bool generated always as (evil.still()) stored",
    "create index on evil.own ((evil.still()))",
    "alter table evil.own enable row level security; create policy p on evil.own using (evil.trap())",
    "create rule r as on insert to evil.own do also select evil.trap()",
    "select pgq.capture_table('evil.own', 'changes', 'json', array['when=evil.trap()', 'ev_extra3=evil.trap()::text'])",
    "select pgq.capture_table('evil.parts', 'changes', 'json', array['as-root'])",
    "create trigger t after insert on evil.own for each row execute function pgq.logutriga('plain', 'when=trap()')",
    "insert into evil.own (id) values (1) on conflict do nothing", "update evil.own set note = 'x'",
    "insert into evil.parts values (1, 'x') on conflict do nothing", "truncate evil.parts",
    "alter table evil.own rename to other", "alter table evil.other rename to own", "drop table evil.own cascade",
    "select pgq.release_table('evil.own', 'changes')",
)  # fmt: skip
"""Tables of the role's own with a trap of each kind, captured too: event triggers and maintenance look at them."""

EXTRA_MAINTENANCE = "update pgq.queue set queue_extra_maint = array['evil.extra', 'evil.trap']"
ORDINARY = (
    "select pgq.insert_event('plain', 't', 'd')", "select pgq.insert_event('limited', 't', 'd')",
    "select pgq.insert_events('limited', array['t'], array['d'])", "select pgq.current_event_table('plain')",
    "select * from pgq.next_batch_custom('plain', 'c', null, null, null)",
    "select * from pgq.get_batch_events((select sub_batch from pgq.subscription where sub_batch is not null limit 1))",
    "select pgq.event_retry((select sub_batch from pgq.subscription where sub_batch is not null limit 1), 1, 0)",
    "select pgq.events_dead((select max(sub_batch) from pgq.subscription), '{1}', '{x}')",
    "select pgq.finish_batch((select sub_batch from pgq.subscription where sub_batch is not null limit 1))",
    "select pgq.register_consumer_at('plain', 'c', 1)", "select pgq.range_event_sql('plain', 1, 1)",
    "select * from pgq.get_range_events('plain', 1, (select max(tick_id) from pgq.tick where tick_queue = 1))",
    "select * from pgq.get_consumer_info()", "select * from pgq.get_queue_info()", "select pgq.grant_perms('plain')",
    "select pgq.ticker()", "select pgq.maint_analyze('plain')", "select pgq.maint_capture()",
    "select pgq.force_tick('plain')", "select app.order(1, 'note')", "select app.order(1, 'another note')",
    "alter table mine add column if not exists last text",
)  # fmt: skip
MAINTENANCE = (
    "select pgq.maint_rotate_tables_step1(queue_name) from pgq.queue", "select pgq.maint_rotate_tables_step2()",
    "select pgq.maint_retry_events()", "select pgq.maint_retry_events(100)", "select pgq.upgrade_schema()",
    "table pgq.log_status", "table pgq.capture_status", "select pgq.drop_queue('plain', true)",
)  # fmt: skip


class Thief(NamedTuple):
    """A role: which one it is a member of, in which style of grants, and whether it has a schema of its own."""

    member_of: str | None
    style: str
    has_schema: bool

    def __str__(self) -> str:
        schema = "-with-schema" if self.has_schema else ""
        return f"{self.member_of or 'stranger'}-{self.style}{schema}"

    @property
    def name(self) -> str:
        return f"thief_{self}".replace("-", "_")


THIEVES = (
    Thief(None, "old", has_schema=False),
    Thief(None, "new", has_schema=True),
    Thief("pgq_reader", "new", has_schema=True),
    Thief("pgq_writer", "new", has_schema=True),
    Thief("pgq_admin", "new", has_schema=True),
)


def prepare(owner: Connection, thief: Thief) -> None:
    """Make what there is to steal, and the role, with its permanent traps."""
    owner.execute(SETUP.encode())
    owner.execute("select pgq.set_grants(%s)", [thief.style])
    role = sql.Identifier(thief.name)
    owner.execute(sql.SQL("create role {}").format(role))
    owner.execute(sql.SQL("grant usage on sequence watch.caught to {}").format(role))
    if thief.member_of:
        owner.execute(sql.SQL("grant {} to {}").format(sql.Identifier(thief.member_of), role))
    if thief.has_schema:
        owner.execute(sql.SQL("create schema evil authorization {}").format(role))


def set_permanent_traps(thief: Connection, name: str) -> None:
    """Make functions, operators and types that unqualified SQL would find, and relations that a queue could name."""
    make_trap(thief, name, "evil")
    for number, operator in enumerate(OPERATORS):
        for operand in OPERANDS:
            function = f'evil."{number} {operand}"'
            thief.execute(_function(function, f"{operand}, {operand}", "bool", "evil.trap()").encode())
            thief.execute(
                f"create operator evil.{operator} "
                f"(function = {function}, leftarg = {operand}, rightarg = {operand})".encode()
            )
    for signature, result in FUNCTIONS.items():
        function, arguments = signature.rstrip(")").split("(")
        answer = f"case when evil.trap() then null::pg_catalog.{result} end"
        thief.execute(_function(f"evil.{function}", arguments, result, answer).encode())
    thief.execute("create domain evil.odd as pg_catalog.text check (evil.trap())")
    thief.execute(
        _function("evil.still", "", "bool", "evil.trap()").replace("plpgsql", "plpgsql immutable").encode()
    )
    thief.execute("create view evil.sequence_view as select 1::bigint as last_value where evil.trap()")
    thief.execute("create function evil.extra(text) returns int language sql as 'select evil.trap()::int'")
    for table in ("events", "events_0", "events_1", "events_2"):
        thief.execute(f"create table evil.{table} ({EVENT_COLUMNS}, check (evil.trap()))".encode())


def _function(name: str, arguments: str, result: str, answer: str) -> str:
    return f"create function {name}({arguments}) returns {result} language plpgsql as $$begin return {answer}; end$$"


def make_trap(thief: Connection, name: str, schema: str) -> None:
    """Make a function that remembers, whatever is rolled back, that another role than its author has run it."""
    body = f"if current_user operator(pg_catalog.<>) '{name}' then perform pg_catalog.nextval('watch.caught'); end if;"
    make = (
        f"create function {schema}.trap() returns bool language plpgsql as $$begin {body} return true; end$$"
    )
    thief.execute(make.encode())


def set_temporary_traps(thief: Connection, name: str) -> None:
    """Make types and relations in the session's own schema, which PostgreSQL looks for in every path, and first."""
    make_trap(thief, name, "pg_temp")
    for type_ in (*TYPES, "record", "txid_snapshot", "tid"):
        base = "text" if type_ == "record" else type_
        make = f"create domain pg_temp.{type_} as pg_catalog.{base} check (pg_temp.trap())"
        thief.execute(make.encode())
    for relation in ("queue", "tick", "pg_class", "pg_proc"):
        schema = "pg_catalog" if relation.startswith("pg_") else "pgq"
        make = f"create temp view {relation} as select * from {schema}.{relation} where pg_temp.trap()"
        thief.execute(make.encode())
    thief.execute("create temp table mine (id int primary key, note pg_catalog.text)")


@contextmanager
def session(dsn: str, thief: Thief) -> Iterator[Connection]:
    """Give the role's connection, with fresh temporary traps."""
    options = f"-c role={thief.name} -c statement_timeout=5s -c lock_timeout=1s -c client_min_messages=error"
    with psycopg.connect(make_conninfo(dsn, options=options), autocommit=True) as connection:
        set_temporary_traps(connection, thief.name)
        yield connection


def calls(owner: Connection, thief: Thief, others: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    """Generate sequences of what the role may call, with hostile arguments, and of what else it may try."""
    functions = owner.execute(CALLABLE, {"role": thief.name}).fetchall()
    call = st.sampled_from(functions).flatmap(lambda function: _call(*function))
    path = st.sampled_from(PATHS).map(lambda names: f"set search_path = {names}")
    return st.lists(st.one_of(call, call, call, st.sampled_from(others), path), min_size=10, max_size=40)


def _call(name: str, types: list[str]) -> st.SearchStrategy[str]:
    arguments = st.tuples(*(st.sampled_from(_values(type_)) for type_ in types))
    return arguments.map(lambda values: f"select * from {name}({', '.join(values)})")


def _values(type_: str) -> tuple[str, ...]:
    values = VALUES.get(type_, ("null",))
    if type_ in {"text", "name", "integer", "bigint", "boolean"}:
        return (*values, *(f"{value}::{_SHORT.get(type_, type_)}" for value in values))
    return values


_SHORT = {"integer": "int4", "bigint": "int8", "boolean": "bool"}


def run(connection: Connection, statements: list[str] | tuple[str, ...]) -> list[Any]:
    """Run statements one by one, whatever becomes of them, and return the rows they gave."""
    rows: list[Any] = []
    for statement in statements:
        with suppress(psycopg.Error):
            cursor = connection.execute(statement.encode())
            rows += cursor.fetchall() if cursor.description else []
    return rows


def maintain(dsn: str) -> None:
    """Do what an owner and a ticker do, in sessions of theirs; drop a queue in the end, but let it be undone."""
    with psycopg.connect(dsn, autocommit=True, options="-c client_min_messages=error") as owner:
        operations = run(owner, ["select * from pgq.maint_operations()"])
        for function, argument in operations:
            with suppress(psycopg.Error):
                call = sql.SQL("select {}({})").format(
                    sql.SQL(function), sql.SQL("") if argument is None else sql.Literal(argument)
                )
                owner.execute(call)
        run(owner, ORDINARY)
    for statement in MAINTENANCE:
        with suppress(psycopg.Error), psycopg.connect(dsn) as owner, owner.transaction(force_rollback=True):
            owner.execute(statement.encode())
