"""pgq_node answers as PgQ's own: transcripts of the lives of nodes, recorded from the extension, are replayed.

`node_lives/*.txt` are questions and PgQ's answers. To ask more, add lines `> statement` to one of them and record the
answers with `ROWBUS_TEST_ACCEPT=1 make test ARGS='tests/log/test_node.py -k real'`, where the extension is installed.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from psycopg.rows import dict_row, scalar_row

from tests.fixtures.processes import await_blocked
from tests.log.transcript import replay, statements

LIVES = sorted(Path(__file__).with_name("node_lives").glob("*.txt"))
OF_OLD = Path("/usr/share/postgresql/15/extension/pgq_node.control")
MINE = ("pgq_reader", "pgq_writer", "pgq_admin", "pg_monitor")

of_each_life = pytest.mark.parametrize("life", LIVES, ids=lambda life: life.stem)


@pytest.fixture
def real_nodes(oracle: psycopg.Connection) -> psycopg.Connection:
    """Give a connection to a database with PgQ's own pgq_node."""
    if not OF_OLD.exists():
        pytest.skip(
            "PgQ's own pgq_node is not installed beside PostgreSQL 15 (Debian: postgresql-15-pgq-node)"
        )
    oracle.execute("create extension pgq_node")
    return oracle


def call(connection: psycopg.Connection, function: str, *arguments: object) -> dict[str, object]:
    marks = ", ".join(["%s"] * len(arguments))
    query = f"select * from pgq_node.{function}({marks})".encode()
    row = connection.cursor(row_factory=dict_row).execute(query, arguments).fetchone()
    assert row is not None
    return row


@pytest.fixture
def root(pgq: psycopg.Connection) -> psycopg.Connection:
    """Give a connection to the root "here" of a queue "q", from which "there" may read."""
    for node in ("here", "there"):
        call(pgq, "register_location", "q", node, f"dbname={node}", False)  # noqa: FBT003 - as SQL calls it
    call(pgq, "create_node", "q", "root", "here", "worker", None, None, None)
    return pgq


@of_each_life
def test_it_answers_as_pgq_itself(pgq: psycopg.Connection, life: Path) -> None:
    approved = life.read_text("utf-8")
    assert replay(pgq, "pgq_node", statements(approved)) == approved


@of_each_life
def test_the_approved_answers_are_those_of_the_real_pgq_node(
    real_nodes: psycopg.Connection, life: Path
) -> None:
    approved = life.read_text("utf-8")
    answered = replay(real_nodes, "pgq_node", statements(approved))
    if os.environ.get("ROWBUS_TEST_ACCEPT"):
        life.write_text(answered, "utf-8")
    else:
        assert answered == approved


def test_every_function_is_in_one_of_the_lives(pgq: psycopg.Connection) -> None:
    query = "select proname from pg_proc where pronamespace = 'pgq_node'::regnamespace and proname not like '\\_%'"
    functions = pgq.cursor(row_factory=scalar_row).execute(query).fetchall()
    asked = {
        statement.partition("(")[0] for life in LIVES for statement in statements(life.read_text("utf-8"))
    }
    assert sorted(set(functions) - asked) == []


SIGNATURES = b"""
    select p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.prosecdef, p.proisstrict
    from pg_proc as p
    where p.pronamespace = 'pgq_node'::regnamespace and p.proname not like '\\_%'
    order by 1, 2
"""
MAY_CALL = b"""
    select p.proname, array(
        select r.rolname from pg_roles as r
        where has_function_privilege(r.oid, p.oid, 'execute') and r.rolname = any(%s) order by 1
    )
    from pg_proc as p
    where p.pronamespace = 'pgq_node'::regnamespace and p.proname not like '\\_%%'
    order by 1
"""
MAY_USE = b"""
    select c.relname, r.rolname, kind
    from pg_class as c, pg_roles as r, unnest(array['select', 'insert', 'update', 'delete', 'truncate']) as kind
    where c.relnamespace = 'pgq_node'::regnamespace and c.relkind = 'r'
        and r.rolname = any(%s) and has_table_privilege(r.oid, c.oid, kind)
    order by 1, 2, 3
"""
COLUMNS = b"""
    select table_name, column_name, data_type, is_nullable, column_default
    from information_schema.columns where table_schema = 'pgq_node' order by table_name, ordinal_position
"""
CONSTRAINTS = b"""
    select conrelid::regclass::text, conname, contype from pg_constraint
    where connamespace = 'pgq_node'::regnamespace and contype <> 'n' order by 1, 2
"""


@pytest.mark.parametrize(
    "catalogue", [SIGNATURES, COLUMNS, CONSTRAINTS], ids=["functions", "columns", "constraints"]
)
def test_it_is_made_as_pgq_itself(
    pgq: psycopg.Connection, real_nodes: psycopg.Connection, catalogue: bytes
) -> None:
    assert pgq.execute(catalogue).fetchall() == real_nodes.execute(catalogue).fetchall()


@pytest.mark.parametrize("catalogue", [MAY_CALL, MAY_USE], ids=["functions", "tables"])
def test_the_same_roles_may_use_it(
    pgq: psycopg.Connection, real_nodes: psycopg.Connection, catalogue: bytes
) -> None:
    ours = pgq.execute(catalogue, [list(MINE)]).fetchall()
    assert ours == real_nodes.execute(catalogue, [list(MINE)]).fetchall()


def test_a_writer_may_register_a_consumer_and_nobody_else_the_internals(root: psycopg.Connection) -> None:
    root.execute("set role pgq_writer")
    assert call(root, "register_consumer", "q", "c", "there", 1)["ret_code"] == 200
    assert call(root, "is_root_node", "q") == {"is_root_node": True}
    with pytest.raises(errors.InsufficientPrivilege):
        call(root, "_change_type", "q", "leaf", "there")


def test_the_last_tick_of_a_root_is_behind_all_that_was_still_being_written(
    root: psycopg.Connection, log_database: str
) -> None:
    with psycopg.connect(log_database) as writer, psycopg.connect(log_database) as admin:
        writer.execute("select pgq.insert_event('q', 'late', 'event')")
        assert call(root, "demote_root", "q", 1, "there")["ret_code"] == 200
        with pytest.raises(psycopg.Error, match="Insert into queue disallowed"):
            root.execute("select pgq.insert_event('q', 'too', 'late')")
        with ThreadPoolExecutor() as pool:
            step = pool.submit(call, admin, "demote_root", "q", 2, "there")
            await_blocked(root, admin)
            writer.commit()
            last_tick = step.result()["last_tick"]
        admin.commit()
    root.execute("select pgq.register_consumer_at('q', 'c', 1)")
    read = "select ev_type, tick_id from pgq.next_batch('q', 'c') as b, pgq.get_batch_events(b), pgq.get_batch_info(b)"
    assert root.execute(read.encode()).fetchall() == [("late", last_tick)]


def test_the_watermark_of_a_root_is_published_when_it_is_five_minutes_behind(
    root: psycopg.Connection,
) -> None:
    published = b"select ev_data from pgq.event_template where ev_type = 'pgq.global-watermark'"
    root.execute("update pgq.tick set tick_time = now() - interval '4 minutes 50 seconds'")
    assert call(root, "maint_watermark", "q") == {"maint_watermark": 0}
    assert root.execute(published).fetchall() == []
    root.execute("update pgq.tick set tick_time = now() - interval '5 minutes'")
    call(root, "maint_watermark", "q")
    assert root.execute(published).fetchall() == [("1",)]


def test_a_node_that_reads_from_here_holds_rotation_until_its_watermark_moves(
    root: psycopg.Connection,
) -> None:
    call(root, "register_subscriber", "q", "there", "worker of there", None)
    root.execute("select pgq.force_tick('q')")
    root.execute("select pgq.ticker('q')")
    root.execute("select pgq.register_consumer_at('q', 'worker of there', 2)")
    held = b"select min(last_tick) from pgq.get_consumer_info('q') where consumer_name <> '.global_watermark'"
    assert root.execute(held).fetchone() == (1,)
    assert call(root, "set_subscriber_watermark", "q", "there", 2)["ret_code"] == 200
    assert root.execute(held).fetchone() == (2,)
    assert call(root, "get_node_info", "q")["local_watermark"] == 2


def test_a_schema_from_before_node_attributes_is_upgraded(pgq: psycopg.Connection) -> None:
    pgq.execute("alter table pgq_node.node_info drop column node_attrs")
    assert call(pgq, "upgrade_schema") == {"upgrade_schema": 1}
    assert call(pgq, "upgrade_schema") == {"upgrade_schema": 0}
