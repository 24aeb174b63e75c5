"""Installing, upgrading, verifying and removing the event log's schema, from Python and from the command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import raw_source, split_script
from rowbus.errors import ConfigurationError, StorageError
from rowbus.log.schema import table as log_schema
from rowbus.log.schema.installer import install, install_now, uninstall_now
from tests.fixtures import forked

CATALOGUE = """
    select 'relation', relname, relacl::text from pg_class where relnamespace = 'pgq'::regnamespace
    union all select 'function', oid::regprocedure::text, md5(prosrc) || proacl::text
    from pg_proc where pronamespace = 'pgq'::regnamespace
    union all select 'constraint', conname, pg_get_constraintdef(oid)
    from pg_constraint where connamespace = 'pgq'::regnamespace
    order by 1, 2
"""


@pytest.fixture
def session(log_database: str) -> Iterator[Session]:
    with Database(log_database).session() as session:
        yield session


def rowbus(*arguments: str, database: str | None = None) -> subprocess.CompletedProcess[str]:
    where = () if database is None else ("--database", database)
    return forked.run_text(*where, *arguments)


# --------------------------------------------------------------------------------------------------------- installing


def test_installing_again_changes_nothing(session: Session) -> None:
    session.connection.execute("select pgq.create_queue('q')")
    before = session.connection.execute(CATALOGUE).fetchall()

    assert not install_now(session)

    assert session.connection.execute(CATALOGUE).fetchall() == before


def test_installing_again_keeps_privileges_that_were_split_by_role(session: Session) -> None:
    session.connection.execute("select pgq.create_queue('q'), pgq.set_grants('new')")
    before = session.connection.execute(CATALOGUE).fetchall()

    install_now(session)

    assert session.connection.execute(CATALOGUE).fetchall() == before


async def test_several_who_install_at_once_all_succeed_and_one_made_it(database: str) -> None:
    sessions = await asyncio.gather(*(Database(database).connect() for _ in range(4)))

    made = await asyncio.gather(*(install(session) for session in sessions))

    assert sorted(made) == [False, False, False, True]
    await asyncio.gather(*(session.close() for session in sessions))


async def test_an_installation_that_fails_leaves_nothing_behind(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_schema, "PARTS", ("structure", "grants"))  # which need the functions left out
    session = await Database(database).connect()

    with pytest.raises(StorageError, match=r"Failed to install the event log \(grants/\S+\.sql\)"):
        await install(session)

    cursor = await session.connection.execute("select to_regnamespace('pgq')")
    assert await cursor.fetchone() == (None,)
    await session.close()


def test_a_session_that_is_in_a_transaction_installs_within_it(database: str) -> None:
    with psycopg.connect(database) as connection:
        install_now(Session(connection))
        connection.rollback()
        assert connection.execute("select to_regnamespace('pgq')").fetchone() == (None,)


def test_an_older_version_is_upgraded_and_its_queues_stay(session: Session) -> None:
    connection = session.connection
    connection.execute("select pgq.create_queue('q'), pgq.insert_event('q', 't', 'd')")
    connection.execute("update pgq.schema_version set version = 0")
    connection.execute("alter table pgq.queue drop column queue_extra_maint")
    connection.execute("drop function pgq.insert_events, pgq.notify_channel")
    connection.execute("drop table pgq.queue_option cascade")

    assert install_now(session)

    assert session.run(log_schema.version()) == log_schema.VERSION
    assert session.run(log_schema.missing()) == []
    assert connection.execute("select ev_id from pgq.event_1").fetchall() == [(1,)]
    assert connection.execute("select pgq.insert_event('q', 't', 'd')").fetchone() == (2,)


def test_a_newer_version_is_left_alone(session: Session) -> None:
    session.connection.execute("update pgq.schema_version set version = 99")

    with pytest.raises(
        ConfigurationError, match=r"has version 99, and this Rowbus installs .*; upgrade Rowbus"
    ):
        install_now(session)


def test_the_schema_of_another_product_is_not_installed_over(oracle_database: str) -> None:
    with (
        Database(oracle_database).session() as session,
        pytest.raises(ConfigurationError, match="rowbus log adopt"),
    ):
        install_now(session)


def test_a_role_that_may_not_create_anything_gets_one_error(
    pgq: psycopg.Connection, log_database: str
) -> None:
    pgq.execute("drop role if exists rowbus_test_nobody; create role rowbus_test_nobody login")
    with (
        Database(
            psycopg.conninfo.make_conninfo(log_database, user="rowbus_test_nobody")
        ).session() as session,
        pytest.raises(StorageError, match=r"Failed to install the event log \(\S+\.sql\)"),
    ):
        install_now(session)


def test_the_owner_of_a_database_installs_and_works_without_being_superuser(database: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    owner = f"{name}_owner"
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"create role {owner} login createrole")
        admin.execute(f"alter database {name} owner to {owner}")
        with Database(psycopg.conninfo.make_conninfo(database, user=owner)).session() as session:
            install_now(session)
            work: LiteralString = (
                "select pgq.create_queue('q'), pgq.insert_event('q', 't', 'd'), pgq.ticker()"
            )
            session.connection.execute(work)
            session.connection.execute("select pgq.set_grants('new'), pgq.drop_queue('q')")
            assert session.run(log_schema.missing()) == []
            uninstall_now(session)
        admin.execute(f"alter database {name} owner to {admin.info.user}")
        admin.execute(f"drop role {owner}")


# ----------------------------------------------------------------------------------------------------------- removing


def test_removing_leaves_nothing_but_the_roles(session: Session) -> None:
    assert uninstall_now(session)

    schemas = session.connection.execute(
        "select nspname from pg_namespace where nspname like 'pgq%'"
    ).fetchall()
    assert schemas == []
    assert session.connection.execute("select to_regrole('pgq_admin') is null").fetchone() == (False,)
    assert not uninstall_now(session)
    assert install_now(session)


def test_queues_and_triggers_keep_the_schema_unless_forced(session: Session) -> None:
    connection = session.connection
    connection.execute("select pgq.create_queue('q')")
    connection.execute("create table public.orders (id int primary key)")
    connection.execute(
        "create trigger capture after insert on public.orders for each row execute function pgq.jsontriga('q')"
    )

    with pytest.raises(ConfigurationError, match=r"would lose queue q, trigger capture on orders; .*--force"):
        uninstall_now(session)

    assert uninstall_now(session, force=True)
    connection.execute("insert into public.orders values (1)")


def test_the_extension_is_not_removed_as_if_it_were_ours(oracle_database: str) -> None:
    with (
        Database(oracle_database).session() as session,
        pytest.raises(ConfigurationError, match="drop extension pgq"),
    ):
        uninstall_now(session, force=True)


# ------------------------------------------------------------------------------------------------------- command line


def test_the_script_installs_through_psql_what_python_installs(database: str, session: Session) -> None:
    script = rowbus("schema", "sql", "--log").stdout
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in split_script(script):
            connection.execute(statement)

        assert connection.execute(CATALOGUE).fetchall() == session.connection.execute(CATALOGUE).fetchall()
        assert connection.execute("select version from pgq.schema_version").fetchone() == (
            log_schema.VERSION,
        )


def test_the_command_line_installs_verifies_and_says_so(database: str) -> None:
    before = rowbus("schema", "verify", "--log", "--json", database=database)
    assert (before.returncode, json.loads(before.stdout)[0]["differences"]) == (1, ["it is not installed"])

    installed = rowbus("schema", "install", "--log", database=database)
    assert (installed.returncode, installed.stdout) == (
        0,
        f"installed the event log, version {log_schema.VERSION}\n",
    ), installed.stderr

    after = rowbus("schema", "verify", "--log", "--json", database=database)
    assert (after.returncode, json.loads(after.stdout)) == (
        0,
        [{"log": "pgq", "verified": True, "differences": [], "warnings": []}],
    )


def test_the_verbs_of_log_install_upgrade_and_uninstall(database: str) -> None:
    def run(verb: str, *options: str) -> tuple[int, str]:
        result = rowbus("log", verb, *options, database=database)
        return result.returncode, result.stdout + result.stderr

    missing = "rowbus: there is no event log of Rowbus's in this database; `rowbus log install` makes one\n"
    current = f"the event log has version {log_schema.VERSION}\n"
    assert run("upgrade") == (1, missing)
    assert run("install") == (0, f"installed {current.replace(' has', ',')}")
    assert run("upgrade") == (0, current)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("select pgq.create_queue('q')")
    code, text = run("uninstall")
    assert (code, "would lose queue q; if you mean it, repeat with --force" in text) == (2, True)
    assert run("uninstall", "--force") == (0, "removed the event log\n")
    assert run("uninstall") == (1, "rowbus: there is no event log in this database\n")


def test_verifying_says_what_is_missing(log_database: str, pgq: psycopg.Connection) -> None:
    pgq.execute("select pgq.create_queue('q')")
    pgq.execute(
        "drop function pgq.insert_events, pgq.insert_event_1, pgq.jsontriga;"
        "drop table pgq.batch_position, pgq.event_1_2"
    )
    pgq.execute("update pgq.schema_version set version = 0")

    found = rowbus("schema", "verify", "--log", "--json", database=log_database)

    assert found.returncode == 1
    assert json.loads(found.stdout)[0]["differences"] == [
        f"it has version 0, not {log_schema.VERSION}",
        "function pgq.insert_events is missing",
        "function pgq.jsontriga is missing",
        "queue q: its insert function is missing; run select pgq.upgrade_schema()",
        "queue q: pgq.event_1_2 is missing",
        "relation pgq.batch_position is missing",
    ]


def test_grants_are_printed_for_a_role(pgq: psycopg.Connection) -> None:
    printed = rowbus("schema", "grants", "--log", "--role", "shop", "--send", "--receive").stdout

    assert printed.splitlines()[:1] == ["select pgq.set_grants('new');"]
    with pgq.transaction(force_rollback=True):
        pgq.execute("create role shop")
        pgq.execute(printed)
        granted = pgq.execute(
            "select pg_has_role('shop', 'pgq_writer', 'usage'), pg_has_role('shop', 'pgq_reader', 'usage')"
        )
        assert granted.fetchone() == (True, True)


def test_log_and_queues_are_not_asked_for_together() -> None:
    assert rowbus("schema", "sql", "--log", "--queue", "Sales").returncode == 2


# ------------------------------------------------------------------------------------------------------------ scripts


def test_a_script_is_split_at_the_semicolons_that_end_a_statement() -> None:
    script = """
        -- a comment; it ends nothing
        select ';', "a;b", $$ a; b $$, $x$ $$;$$ $x$; /* ; */ do $$ begin perform '%s'; end $$;
        -- the end
    """
    first, second = split_script(script)

    assert first.endswith("$x$ $$;$$ $x$")
    assert second.startswith("/* ; */ do")
    assert second.endswith("end $$")


def test_every_definition_says_what_it_is_for() -> None:
    for path in log_schema.files():
        assert raw_source(path).startswith("--"), path
