"""Taking over a schema that PgQ itself made: nothing is lost, nothing repeated, nothing renumbered.

What is promised: docs/how-to/migrate-from-pgq.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, PermissionDeniedError
from rowbus.log.schema import table as log_schema
from rowbus.log.schema.installer import adopt_now, install_now
from tests.fixtures import forked

Connection = psycopg.Connection[Any]
PLAIN = Path("/usr/share/postgresql/15/contrib/pgq_pl_only.sql")
NODE = Path("/usr/share/postgresql/15/extension/pgq_node.control")
LONDISTE = Path("/usr/share/postgresql/15/extension/londiste.control")
LONDISTE_FILE = Path("/usr/share/postgresql/15/contrib/londiste.sql")

STATE = """
    select 'queue', to_jsonb(q)::text from pgq.queue as q
    union all select 'consumer', to_jsonb(c)::text from pgq.consumer as c
    union all select 'subscription', to_jsonb(s)::text from pgq.subscription as s
    union all select 'tick', to_jsonb(t)::text from pgq.tick as t
    union all select 'event', to_jsonb(e)::text from pgq.event_template as e
    union all select 'retry', to_jsonb(r)::text from pgq.retry_queue as r
    union all select 'sequence', sequencename || ' ' || coalesce(last_value, 0)::text from pg_sequences
    where schemaname = 'pgq' and sequencename not in ('dead_letter_dl_id_seq', 'capture_shape_cs_id_seq')
    order by 1, 2
"""


@pytest.fixture
def real(oracle_database: str) -> Iterator[Session]:
    """Give a session on a database in which the C extension is in the middle of its work."""
    with Database(oracle_database).session() as session:
        make_history(session.connection)
        yield session


@pytest.fixture
def plain(database: str, postgres_server: str) -> Iterator[Session]:
    """Give a session on a database in which upstream's plain SQL is in the middle of its work."""
    if not PLAIN.exists():
        pytest.skip("PgQ's plain SQL is not installed (Debian: postgresql-15-pgq3)")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(PLAIN.read_text())
    with Database(database).session() as session:
        make_history(session.connection)
        yield session


def make_history(connection: Connection) -> None:
    """Make two queues, three consumers, an open batch, a waiting retry, and a table with a trigger."""
    for statement in HISTORY:
        connection.execute(statement)


TICK: LiteralString = "select pgq.force_tick('orders'), pgq.ticker()"
HISTORY: list[LiteralString] = [
    "select pgq.create_queue('gone'), pgq.drop_queue('gone')",
    "select pgq.create_queue('orders'), pgq.create_queue('other')",
    "select pgq.register_consumer('orders', 'fast'), pgq.register_consumer('orders', 'slow')",
    "create table public.sales (id int primary key, total int)",
    """
    create trigger capture after insert or update or delete on public.sales
    for each row execute function pgq.logutriga('orders')
    """,
    """
    create trigger captured_as_json after insert on public.sales
    for each row execute function pgq.jsontriga('other')
    """,
    "select pgq.insert_event('orders', 't', i::text) from generate_series(1, 10) as i",
    "insert into public.sales values (1, 100)",
    TICK,
    TICK,
    "select pgq.next_batch('orders', 'slow')",
    "select pgq.next_batch('orders', 'fast')",
    "select pgq.event_retry(2, 3, 0)",
    "select pgq.finish_batch(2)",
    "select pgq.insert_event('orders', 't', i::text) from generate_series(11, 20) as i",
]


def rows(connection: Connection, query: LiteralString, *values: object) -> list[tuple[Any, ...]]:
    return connection.execute(query, values).fetchall()


def consume(connection: Connection, consumer: str) -> list[str]:
    """Read all batches that there are, finishing each; give the data of their events."""
    seen: list[str] = []
    while (batch := rows(connection, "select pgq.next_batch('orders', %s)", consumer)[0][0]) is not None:
        seen += [data for (data,) in rows(connection, "select ev_data from pgq.get_batch_events(%s)", batch)]
        connection.execute("select pgq.finish_batch(%s)", [batch])
    return seen


def tick(connection: Connection) -> None:
    """Force a tick on `orders` whatever its ticker thinks."""
    connection.execute("update pgq.queue set queue_ticker_max_lag = '0'")
    connection.execute("select pgq.force_tick('orders')")
    connection.execute("select pgq.ticker()")


def check_that_work_goes_on(connection: Connection) -> None:
    before = [str(number) for number in range(1, 11)]
    sale = "id=1&total=100"
    tick(connection)
    assert consume(connection, "slow") == [*before, sale, *(str(number) for number in range(11, 21))]
    assert consume(connection, "fast") == [str(number) for number in range(11, 21)]
    assert rows(connection, "select pgq.maint_retry_events()") == [(1,)]
    tick(connection)
    assert (consume(connection, "fast"), consume(connection, "slow")) == (["3"], [])


# ------------------------------------------------------------------------------------------------------ the extension


def test_rows_numbers_and_positions_stay_as_they_are(real: Session) -> None:
    before = rows(real.connection, STATE)

    assert adopt_now(real) == "PgQ's extension, version 3.5"

    assert rows(real.connection, STATE) == before
    assert rows(real.connection, "select extname from pg_extension where extname like 'pgq%%'") == []


def test_an_open_batch_is_the_same_batch_afterwards(real: Session) -> None:
    before = rows(real.connection, "select * from pgq.get_batch_events(1)")

    adopt_now(real)

    assert rows(real.connection, "select pgq.next_batch('orders', 'slow')") == [(1,)]
    assert rows(real.connection, "select * from pgq.get_batch_events(1)") == before


def test_nothing_is_lost_and_nothing_repeated(real: Session) -> None:
    adopt_now(real)

    check_that_work_goes_on(real.connection)


def test_triggers_on_tables_go_on_with_our_functions(real: Session) -> None:
    adopt_now(real)
    real.connection.execute("update public.sales set total = 200")

    found = rows(
        real.connection, "select ev_type, ev_data, ev_extra1 from pgq.event_2 order by ev_id desc limit 1"
    )
    assert found == [("U:id", "id=1&total=200", "public.sales")]
    real.connection.execute("insert into public.sales values (2, 5)")
    assert rows(
        real.connection, "select ev_data::json ->> 'total' from pgq.event_3 order by ev_id desc limit 1"
    ) == [("5",)]


def test_no_function_in_c_remains(real: Session) -> None:
    adopt_now(real)

    query: LiteralString = """
        select proname from pg_proc inner join pg_language as l on l.oid = prolang
        where pronamespace = 'pgq'::regnamespace and lanname = 'c'
    """
    assert rows(real.connection, query) == []
    assert real.run(log_schema.missing()) == []


def test_it_is_ours_then_and_installs_as_ours(real: Session) -> None:
    adopt_now(real)

    assert not install_now(real)
    assert rows(real.connection, "select pgq.create_queue('new'), pgq.version()") == [(1, "3.5.2")]
    assert rows(real.connection, "select pgq.insert_event('new', 't', 'd')") == [(1,)]
    with pytest.raises(ConfigurationError, match="is Rowbus's already"):
        adopt_now(real)


def test_privileges_split_by_role_stay_split(real: Session) -> None:
    adopt_now(real)

    query: LiteralString = "select has_function_privilege('public', 'pgq.create_queue(text)', 'execute')"
    assert rows(real.connection, query) == [(False,)]


def test_sessions_that_were_using_the_extension_go_on(real: Session, oracle_database: str) -> None:
    insert: LiteralString = "select pgq.insert_event('orders', 't', 'from before')"
    with psycopg.connect(oracle_database, autocommit=True) as producer:
        first = rows(producer, insert)[0][0]
        adopt_now(real)
        assert rows(producer, insert) == [(first + 1,)]


def test_a_producer_with_an_open_transaction_does_not_stop_it(real: Session, oracle_database: str) -> None:
    with psycopg.connect(oracle_database) as producer:
        rows(producer, "select pgq.insert_event('orders', 't', 'open')")
        real.connection.execute("set lock_timeout to '5s'")
        adopt_now(real)
        rows(producer, "select pgq.insert_event('orders', 't', 'still open')")
        producer.commit()
        tick(real.connection)

    assert consume(real.connection, "slow")[-2:] == ["open", "still open"]


def test_the_extension_for_nodes_is_taken_over_with_it(real: Session) -> None:
    if not NODE.exists():
        pytest.skip("PgQ's extension for nodes is not installed (Debian: postgresql-15-pgq-node)")
    connection = real.connection
    connection.execute("create extension pgq_node")
    connection.execute("select pgq_node.register_location('orders', 'here', 'dbname=x', false)")
    connection.execute("select pgq_node.create_node('orders', 'root', 'here', 'worker', null, null, null)")

    adopt_now(real)

    assert rows(connection, "select extname from pg_extension where extname like 'pgq%%'") == []
    assert rows(connection, "select node_name from pgq_node.node_info") == [("here",)]
    assert rows(connection, "select node_type, node_name from pgq_node.get_node_info('orders')") == [
        ("root", "here")
    ]


def test_another_extension_that_depends_on_it_is_named(real: Session) -> None:
    real.connection.execute("create schema londiste; create extension if not exists plpgsql")
    real.connection.execute("""
        insert into pg_depend
        select 'pg_extension'::regclass, e.oid, 0, 'pg_extension'::regclass, p.oid, 0, 'n'
        from pg_extension as e, pg_extension as p where e.extname = 'plpgsql' and p.extname = 'pgq'
    """)

    with pytest.raises(ConfigurationError, match=r"on it: plpgsql\. With `rowbus log adopt --release-dep"):
        adopt_now(real)

    assert rows(real.connection, "select count(*) from pg_extension where extname = 'pgq'") == [(1,)]


@pytest.fixture
def replicating(real: Session) -> Session:
    """Give a session on a database whose tables londiste's extension replicates."""
    if not LONDISTE.exists():
        pytest.skip("londiste's extension is not installed (Debian: postgresql-15-londiste-sql)")
    real.connection.execute("create extension pgq_node; create extension londiste")
    replicate(real.connection)
    return real


def replicate(connection: Connection) -> None:
    for statement in REPLICATION:
        connection.execute(statement)


REPLICATION: list[LiteralString] = [
    "select pgq_node.register_location('orders', 'here', 'dbname=x', false)",
    "select pgq_node.create_node('orders', 'root', 'here', 'worker', null, null, null)",
    "create table public.prices (id int primary key, price int)",
    "select londiste.local_add_table('orders', 'public.prices')",
]

REPLICATED: LiteralString = """
    select 'table', to_jsonb(t)::text from londiste.table_info as t
    union all select 'node', to_jsonb(n)::text from pgq_node.node_info as n
    union all select 'functions', count(*)::text from pg_proc where pronamespace = 'londiste'::regnamespace
    union all select 'privileges', relname || relacl::text from pg_class
    where relnamespace = 'londiste'::regnamespace and relacl is not null
    order by 1, 2
"""


def test_londiste_stops_it_and_nothing_changes_unless_asked(replicating: Session) -> None:
    with pytest.raises(ConfigurationError, match=r"depend on it: londiste\. With"):
        adopt_now(replicating)

    query: LiteralString = (
        "select count(*) from pg_extension where extname in ('pgq', 'pgq_node', 'londiste')"
    )
    assert rows(replicating.connection, query) == [(3,)]


def test_londiste_is_released_and_goes_on_with_what_it_had(
    replicating: Session, oracle_database: str
) -> None:
    connection = replicating.connection
    before = rows(connection, REPLICATED)

    run = forked.run_text("--database", oracle_database, "log", "adopt", "--release-dependents")

    assert run.stdout == (
        "took over the event log from PgQ's extension, version 3.5; no extensions any more: londiste\n"
    ), run.stderr
    assert rows(connection, REPLICATED) == before
    query: LiteralString = "select extname from pg_extension where extname ~ '^pgq|londiste'"
    assert rows(connection, query) == []
    check_that_prices_are_replicated(connection)
    assert not install_now(replicating)


def check_that_prices_are_replicated(connection: Connection) -> None:
    connection.execute("insert into public.prices values (1, 5)")
    query: LiteralString = """
        select ev_type, ev_data, ev_extra1 from pgq.event_template where ev_extra1 = 'public.prices'
    """
    assert rows(connection, query) == [("I:id", "id=1&price=5", "public.prices")]
    removed = rows(connection, "select * from londiste.local_remove_table('orders', 'public.prices')")
    assert removed[0][0] == 200
    connection.execute("select * from londiste.local_add_table('orders', 'public.sales')")
    assert rows(connection, "select table_name from londiste.table_info") == [("public.sales",)]


def test_an_extension_that_depends_on_one_that_depends_is_released_first(replicating: Session) -> None:
    depend: LiteralString = """
        insert into pg_depend
        select 'pg_extension'::regclass, e.oid, 0, 'pg_extension'::regclass, l.oid, 0, 'n'
        from pg_extension as e, pg_extension as l where e.extname = 'hstore' and l.extname = 'londiste'
    """
    replicating.connection.execute("create extension hstore")
    replicating.connection.execute(depend)

    origin = adopt_now(replicating, release_dependents=True)

    assert origin.endswith("no extensions any more: hstore, londiste")
    assert rows(replicating.connection, "select 'a=>1'::hstore -> 'a'") == [("1",)]


def test_londistes_plain_file_is_loaded_over_our_schema(log_database: str) -> None:
    if not LONDISTE_FILE.exists():
        pytest.skip("londiste's SQL file is not installed (Debian: postgresql-15-londiste-sql)")
    with psycopg.connect(log_database, autocommit=True) as connection:
        connection.execute("select pgq.create_queue('orders')")
        connection.execute("create table public.sales (id int primary key)")
        connection.execute(LONDISTE_FILE.read_text())
        replicate(connection)
        check_that_prices_are_replicated(connection)


def test_whoever_does_not_own_it_changes_nothing(real: Session, oracle_database: str) -> None:
    real.connection.execute("drop role if exists rowbus_test_nobody; create role rowbus_test_nobody login")
    somebody = psycopg.conninfo.make_conninfo(oracle_database, user="rowbus_test_nobody")
    with (
        Database(somebody).session() as session,
        pytest.raises(PermissionDeniedError, match="Failed to take over"),
    ):
        adopt_now(session)

    assert rows(real.connection, "select count(*) from pg_extension where extname = 'pgq'") == [(1,)]


# ---------------------------------------------------------------------------------------------------------- plain SQL


def test_a_plain_schema_is_taken_over_with_its_rows(plain: Session) -> None:
    before = rows(plain.connection, STATE)

    assert adopt_now(plain) == "PgQ's plain SQL"

    assert rows(plain.connection, STATE) == before
    assert plain.run(log_schema.missing()) == []


def test_work_goes_on_in_a_schema_that_was_plain(plain: Session) -> None:
    adopt_now(plain)

    check_that_work_goes_on(plain.connection)


# ------------------------------------------------------------------------------------------------------- command line


def test_there_must_be_something_to_take_over(database: str) -> None:
    with Database(database).session() as session, pytest.raises(ConfigurationError, match="There is no PgQ"):
        adopt_now(session)


def test_the_command_line_says_what_it_took_over(oracle_database: str) -> None:
    run = forked.run_text("--database", oracle_database, "log", "adopt")
    assert (run.returncode, run.stdout) == (
        0,
        "took over the event log from PgQ's extension, version 3.5\n",
    ), run.stderr
