"""With the event trigger that a superuser's installation creates, generated code follows a table at once."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

Connection = psycopg.Connection[Any]


MADE = """
    select pgq.create_queue('q');
    create table public.orders (id int primary key, note text);
    create trigger changes after insert or update or delete on public.orders
    for each row execute function pgq.jsontriga('q')
"""


@pytest.fixture
def log_script() -> str:
    return MADE


@pytest.fixture
def orders(pgq: Connection) -> Connection:
    """Give a connection; there is a log q, and a table orders with PgQ's own trigger."""
    return pgq


def status(connection: Connection) -> list[Any]:
    return connection.execute("select table_name, generated from pgq.capture_status").fetchall()


def test_an_altered_table_has_new_code_at_once(orders: Connection) -> None:
    orders.execute("alter table public.orders add column total numeric")
    orders.execute("insert into public.orders values (1, 'a', 2.5)")

    assert status(orders) == [("public.orders", "yes")]
    data = orders.execute("select ev_data from pgq.event_1").fetchall()
    assert data == [('{"id":1,"note":"a","total":"2.5"}',)]


def test_code_that_cannot_be_made_does_not_fail_the_command(orders: Connection) -> None:
    orders.execute("alter function pgq.make_captures(oid[]) rename to make_captures_gone")

    orders.execute("alter table public.orders add column total numeric")

    assert status(orders) == [("public.orders", "stale")]


def test_a_partition_has_its_triggers_when_it_is_made_or_attached(orders: Connection) -> None:
    orders.execute("create table public.parts (id int primary key) partition by range (id)")
    orders.execute("select pgq.capture_table('public.parts', 'q')")
    orders.execute("create table public.a partition of public.parts for values from (1) to (2)")
    orders.execute("create table public.b (id int not null)")
    orders.execute("alter table public.parts attach partition public.b for values from (2) to (3)")
    orders.execute("truncate public.a; truncate public.b")

    assert set(status(orders)) > {("public.a", "yes"), ("public.b", "yes")}
    truncated = orders.execute("select ev_extra1 from pgq.event_1 order by ev_id").fetchall()
    assert truncated == [("public.a",), ("public.b",)]


def test_a_trigger_as_pgq_documents_it_has_generated_code_when_it_is_created_and_other_tables_have_none(
    orders: Connection,
) -> None:
    orders.execute("create table public.other (id int); alter table public.other add column note text")

    assert status(orders) == [("public.orders", "yes")]
    assert orders.execute("select count(*) from pgq.capture_code").fetchone() == (1,)


def test_only_the_triggers_of_the_table_itself_are_looked_at(orders: Connection) -> None:
    """Before, a producer's trigger with a long argument slowed everybody's ALTER TABLE down, under its lock."""
    notices = list[str]()
    orders.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    orders.execute("""
        create or replace function pgq.trigger_arguments(i_args bytea) returns text[] language plpgsql
        as $$ begin raise 'the arguments of orders are read'; end $$
    """)

    orders.execute("create table public.other (id int); alter table public.other add column note text")
    assert notices == []
    orders.execute("alter table public.orders add column total numeric")
    assert any("are read" in notice for notice in notices)


CALLS = """
    select funcname, calls from pg_stat_xact_user_functions
    where funcname not in ('trigger_arguments', 'is_exact') -- all that is read of others: which there are
"""
CHANGES = """
    create table public.other (id int primary key);
    alter table public.other add note text;
    drop table public.other;
    alter table public.orders add more text;
    create table public.part partition of public.parts for values in (1)
"""
OTHERS = """
    create table public.{0} (id int primary key);
    create trigger changes after insert on public.{0} for each row execute function pgq.jsontriga('q');
    update pgq.capture_code set cc_shape = '' where cc_table = 'public.{0}'::regclass
"""


def test_no_change_of_a_table_costs_more_for_the_triggers_of_others(orders: Connection) -> None:
    """Before, code was made for all that had none, and all shapes were looked at, under the lock of ALTER TABLE."""
    orders.execute(
        "set track_functions = 'all'; create table public.parts (id int primary key) partition by list (id)"
    )
    orders.execute("select pgq.capture_table('public.parts', 'q')")
    counted = list[dict[str, int]]()
    for number in range(12):
        orders.execute(OTHERS.format(f"other_{number}").encode())
        counted.append(_calls(orders))

    assert counted[1] == counted[-1]


def _calls(connection: Connection) -> dict[str, int]:
    """Count the calls of functions when tables change; nothing changes."""
    with connection.transaction(force_rollback=True):
        before = dict(connection.execute(CALLS.encode()).fetchall())
        connection.execute(CHANGES.encode())
        after = connection.execute(CALLS.encode()).fetchall()
        return {name: more for name, calls in after if (more := calls - before.get(name, 0))}


def test_arguments_too_long_to_be_looked_at_are_refused(orders: Connection) -> None:
    long = "x" * 9000
    orders.execute(f"""
        create table public.other (id int primary key);
        create trigger changes after insert on public.other
        for each row execute function pgq.jsontriga('q', 'ev_extra1={long}')
    """)

    assert status(orders) == [("public.orders", "yes")]
    with pytest.raises(psycopg.Error, match="longer than 8 kB"):
        orders.execute("insert into public.other values (1)")
