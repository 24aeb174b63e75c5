"""Tables of a stranger that are shaped like Rowbus's, each a trap for who reads it; and all that reads by shape.

Invariant: a trap that fires moves the sequence `mallory.caught`, unless the stranger fires it himself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final, cast

from rowbus.contracts.published import look_for_published
from rowbus.database.backends import inspecting
from rowbus.database.postgresql.database import Database
from rowbus.database.sessions import Session
from rowbus.errors import RowbusError
from rowbus.messages.address import PostgresAddresses, QueueAddress
from rowbus.messages.headers import Header
from rowbus.transport.pauses.table import paused
from rowbus.transport.published_contracts.table import contracts_address, contracts_table
from rowbus.web import delayed, history, recurring, sagas, subscriptions
from rowbus.web.failed import message
from rowbus.web.queues import contents
from rowbus.web.sampling.look import Look
from rowbus.web.sampling.sampler import Recorder
from rowbus.web.sampling.snapshot import Snapshot
from rowbus.web.search import search
from rowbus.web.settings import WebSettings
from rowbus.web.visit import Visit
from tests.fixtures.command_line import CommandLine

Run = Callable[[str], Any]

MALLORY: Final = "rowbus_test_mallory"
ROW: Final = "00000000-0000-0000-0000-000000000000"
TABLES: Final = {
    "error": (
        "id uuid not null, expires timestamp, headers text, body bytea, seq integer",
        f"'{ROW}', null, {{}}, '', 1",
    ),
    "Sales.Delayed": (
        "id uuid, headers text, body bytea, due timestamptz",
        f"'{ROW}', {{}}, '', now()",
    ),
    "Store": (
        "id varchar, destination text, state bytea, time timestamptz, headers bytea, retry_count integer",
        "'1', 'Sales', '', now(), '', 0",
    ),
    "Sales.Recurring": (
        "name text, schedule text, next_due timestamptz, last_sent timestamptz",
        "'hourly', {}, now(), now()",
    ),
    "Sales.Order": (
        (
            "id uuid, correlation text, state jsonb, version integer, concurrency integer, originator text, "
            "original_message_id text, timeouts jsonb, began timestamptz, changed timestamptz"
        ),
        f"'{ROW}', {{}}, 'null', 1, 1, '', '', '[]', now(), now()",
    ),
    "Routing": ("queueaddress varchar, endpoint text, topic varchar", "'Sales', {}, 'Event'"),
    "Sales.Running": (
        (
            "id uuid, seq bigint, queue text, headers text, body bytea, failures integer, epoch integer, "
            "lease timestamptz, process text, since timestamptz, progress float8, note text, cancelled_by text, "
            "cancelled_why text"
        ),
        f"'{ROW}', 1, 'Sales', {{}}, '', 0, 0, now(), '', now(), 0, '', '', ''",
    ),
    "Contracts": (
        "endpoint text, version text, document text, published timestamptz, seen timestamptz",
        "{}, '1', '', now(), now()",
    ),
}
"""The tables by which each look finds something: their columns, and a row with a place for a text."""

PLACE: Final = """
    create schema mallory authorization rowbus_test_mallory;
    set role rowbus_test_mallory;
    grant usage on schema mallory to public;
    create sequence mallory.caught;
    grant all on sequence mallory.caught to public;
    create function mallory.trap() returns boolean language plpgsql as $$
    begin
        if current_user <> 'rowbus_test_mallory' then perform pg_catalog.nextval('mallory.caught'); end if;
        return true;
    end $$;
    create type mallory.evil as (x integer);
    create function mallory.told(mallory.evil) returns text language plpgsql
    as $$ begin perform mallory.trap(); return '{}'; end $$;
    create cast (mallory.evil as text) with function mallory.told(mallory.evil) as implicit;
    create function mallory.same(text, text) returns boolean language plpgsql immutable
    as $$ begin return mallory.trap(); end $$;
    create operator mallory.= (function = mallory.same, leftarg = text, rightarg = text);
    reset role
"""
LOOKS: Final = (
    "queue list",
    "doctor",
    "metrics",
    "delayed list",
    "overview",
    "delayed page",
    "subscriptions page",
    "failed page",
    "queue page",
    "endpoint page",
    "sagas page",
    "recurring page",
    "search page",
    "running list",
)


def lay_out(run: Run, *, evil: bool = False) -> None:
    """Make the stranger's tables anew; texts in them are of a type whose cast is a trap, or plain."""
    run(f"drop schema if exists mallory cascade; drop role if exists {MALLORY}; create role {MALLORY}")
    run(PLACE)
    _make_tables(run, evil=evil)


def _make_tables(run: Run, prefix: str = "", *, evil: bool) -> None:
    for name, (columns, row) in TABLES.items():
        typed, value = columns, "'{}'"
        if evil:
            typed = re.sub("(headers|endpoint|schedule|correlation) text", r"\1 mallory.evil", columns)
            value = "row(1)::mallory.evil"
        table = f'mallory."{prefix}{name}"'
        run(f"set role {MALLORY}; create table {table} ({typed})")
        run(f"insert into {table} values ({row.replace('{}', value)})")
        run(f"grant select on {table} to public; reset role")


def copy_all(run: Run) -> None:
    """Make more of each shape: a table to be held, one whose cast is a trap, and a view that is one."""
    _make_tables(run, "Held ", evil=False)
    _make_tables(run, "Cast ", evil=True)
    run(f"set role {MALLORY}")
    for name in TABLES:
        view = f'mallory."View {name}"'
        run(f'create view {view} as select * from mallory."{name}" where mallory.trap()')
        run(f"grant all on {view} to public")
    run("reset role")


def hold(run: Run, prefix: str = "") -> None:
    """Lock each table, so that nobody can read it until the transaction ends."""
    for name in TABLES:
        run(f'lock table mallory."{prefix}{name}" in access exclusive mode')


def police(run: Run) -> None:
    """Have each table run the trap by a policy."""
    for name in TABLES:
        run(f'alter table mallory."{name}" enable row level security')
        run(f'create policy evil on mallory."{name}" using (mallory.trap())')


EVERY_TRAP: Final = """
    create function mallory.fire() returns trigger language plpgsql
    as 'begin perform mallory.trap(); return new; end';
    alter function mallory.trap() immutable;
    create collation mallory.own from "C";
    create domain mallory.checked as text check (mallory.trap());
    alter table mallory.error
    add more mallory.checked collate mallory.own,
    add made boolean generated always as (mallory.trap()) stored
"""
TRAPS_OF_A_TABLE: Final = """
    create trigger of_rows before insert or update or delete on {0} for each row execute function mallory.fire();
    create trigger of_all before insert or update or delete on {0} execute function mallory.fire();
    alter table {0} alter {1} set default mallory.trap()::text, add check (mallory.trap()),
    add check ({1} operator(mallory.=) {1});
    create index on {0} ((mallory.trap())) where mallory.trap();
    grant all on {0} to public
"""


KINDS: Final = """
    select kind from (
        select 'policy', count(*) from pg_policy where polrelid::regclass::text like 'mallory.%'
        union all select 'trigger', count(*) from pg_trigger where tgrelid::regclass::text like 'mallory.%'
        union all select 'rule', count(*) from pg_rules where schemaname = 'mallory'
        union all select 'view', count(*) from pg_views where schemaname = 'mallory'
        union all select 'default', count(*) from pg_attrdef where adrelid::regclass::text like 'mallory.%'
        union all select 'generated', count(*) from pg_attribute
        where attrelid::regclass::text like 'mallory.%' and attgenerated <> ''
        union all select 'domain', count(*) from pg_constraint where contypid::regtype::text like 'mallory.%'
        union all select 'cast', count(*) from pg_cast where castsource::regtype::text like 'mallory.%'
        union all select 'operator', count(*) from pg_depend
        where refclassid = 'pg_operator'::regclass and refobjid::regoper::text like 'mallory.%' and deptype = 'n'
        union all select 'collation', count(*) from pg_collation where collnamespace = 'mallory'::regnamespace
        union all select 'lock', count(*) from pg_locks
        where relation::regclass::text like 'mallory.%' and mode = 'AccessExclusiveLock'
    ) as kinds (kind, found) where found = 0
"""
"""Kinds of traps that are not there."""


TEXTS: Final = {
    "Store": "destination",
    "Routing": "endpoint",
    "Contracts": "endpoint",
    "Sales.Recurring": "schedule",
    "Sales.Order": "correlation",
}
"""A column of text of each table, where that is not `headers`."""


def set_every_trap(run: Run) -> None:
    """Put all on each table that its owner can: what reads it, or writes to it, runs a trap."""
    run(f"set role {MALLORY}")
    run(EVERY_TRAP)
    police(run)
    for name in TABLES:
        text = TEXTS.get(name, "headers")
        run(TRAPS_OF_A_TABLE.format(f'mallory."{name}"', text))
        if name != "error":  # a rule keeps statements of ours with a WITH from running at all
            run(f'create rule evil as on insert to mallory."{name}" do also select mallory.trap()')
    run("reset role")


def bait(run: Run) -> None:
    """Have messages and subscriptions of the queue Sales name the stranger's tables."""
    there = QueueAddress("mallory", "error").canonical
    headers = json.dumps({Header.FAILED_QUEUE: there, Header.FORWARD_DESTINATION: there})
    run(f"insert into error (id, headers, body) values (gen_random_uuid(), '{headers}', '{{}}')")
    run(f"insert into \"Sales.Delayed\" (headers, body, due) values ('{headers}', '{{}}', now())")
    run(
        f"insert into \"SubscriptionRouting\" values ('{there}', 'Evil', 'Shop.Another') on conflict do nothing"
    )


NAMED: Final = (
    "Rowbus.Operations",
    "Rowbus.Pauses",
    "Rowbus.Discarded",
    "Rowbus.History",
    "Rowbus.Contracts",
)
"""Tables that nobody names but Rowbus, which makes them when they are first needed."""
OWN: Final = ("Sales.Running", "Sales.Unique", "Sales.Limits", "Sales.Inbox", "ClaimedValues")
"""Tables that an endpoint has for itself, beside its queue and what it delays."""
SQUATTED: Final = """
    create or replace function mallory.fire() returns trigger language plpgsql
    as 'begin perform mallory.trap(); return new; end';
    create trigger evil before insert or update or delete on public.{0} execute function mallory.fire()
"""


def squat(run: Run, names: Iterable[str] = NAMED, *, as_view: bool = False) -> None:
    """Give the stranger what nobody names, with a trap in it: tables, or views in their place."""
    for name in (f'"{name}"' for name in names):
        run(f"alter table public.{name} owner to {MALLORY}; set role {MALLORY}")
        run(SQUATTED.format(name))
        if as_view:
            hidden = name.replace('"', '"Hidden ', 1)
            run(f"alter table public.{name} rename to {hidden}")
            run(f"create view public.{name} as select * from public.{hidden} where mallory.trap()")
            run(f"grant all on public.{hidden} to public")
        run(f"grant all on public.{name} to public; reset role")


def swap_for_views(run: Run) -> None:
    """Put a view that runs the trap in the place of each table."""
    for name, (columns, _row) in TABLES.items():
        chosen = [part.split()[0] for part in columns.split(", ")]
        run(f'alter table mallory."{name}" rename to "hidden {name}"')
        run(
            f"create view mallory.\"{name}\" as select {', '.join(chosen)}, '0'::xid as xmax "
            f'from mallory."hidden {name}" where mallory.trap()'
        )
        run(f'alter view mallory."{name}" owner to {MALLORY}; grant select on mallory."{name}" to public')


def look(rowbus: CommandLine, dsn: str, name: str, schema: str = "mallory") -> str:
    """Look as a command or a page does that finds tables by their shape; return what it says."""
    if not name.endswith(("page", "overview")):
        done = rowbus(*name.split(), ROWBUS_DATABASE=dsn)
        return done.stdout + done.stderr
    with inspecting(Database(dsn)) as session:
        try:
            return repr(_page(session, name, schema))
        except RowbusError as error:
            return str(error)


def note_history(session: Session, addresses: PostgresAddresses) -> str:
    """Note two minutes as the page does, and look at them."""
    recorder = Recorder(addresses, writes=True)
    for now in (0.0, 60.0):
        recorder.take(session, Snapshot(), now)
    return recorder.obstacle


def _searched(session: Session, addresses: PostgresAddresses) -> object:
    """Search as the page does: it asks a visit for what was found at the last look, and where places are."""
    snapshot = Look(addresses, is_postgresql=True, period=1.0).take(session, Snapshot())
    site = SimpleNamespace(addresses=addresses, settings=WebSettings())
    visit = SimpleNamespace(snapshot=snapshot, site=site, url=lambda *_given, **_named: "")
    return search(session, cast("Visit", visit), ROW)


def publish_nothing(dsn: str) -> None:
    """Make the table of published contracts, as the first endpoint does."""
    with inspecting(Database(dsn)) as session:
        session.run_all(contracts_table(contracts_address(PostgresAddresses("public"))).create())


def _page(session: Session, name: str, schema: str) -> object:
    addresses, error = PostgresAddresses("public"), QueueAddress(schema, "error")
    pages: dict[str, Callable[[], object]] = {
        "overview": lambda: Look(addresses, is_postgresql=True, period=1.0).take(session, Snapshot()),
        "delayed page": lambda: delayed.search(session, addresses, f'{schema}."Sales.Delayed"', "", ""),
        "subscriptions page": lambda: subscriptions.look(session, addresses, ""),
        "failed page": lambda: message.look(session, error, ROW, ()),
        "queue page": lambda: contents.peek(session, addresses, error),
        "endpoint page": lambda: contents.work_of(session, addresses, error),
        "sagas page": lambda: sagas.page_of(session, addresses, f'{schema}."Sales.Order"', "", ""),
        "saga's end page": lambda: sagas.end_one(session, addresses, 'public."Sales.Order"', ROW),
        "contracts page": lambda: look_for_published(session, addresses),
        "search page": lambda: _searched(session, addresses),
        "recurring page": lambda: recurring.list_all(session, addresses),
        "pauses page": lambda: paused(session, addresses),
        "history page": lambda: note_history(session, addresses),
        "operations page": lambda: history.latest(session, addresses),
    }
    return pages[name]()
