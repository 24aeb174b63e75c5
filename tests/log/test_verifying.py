"""`rowbus schema verify --log`: what of an installation is not as this Rowbus would make it, above all what is unsafe.

`installed/8fb2ba9.sql.gz` is what `rowbus schema sql --log` printed at that commit, whose installations were open to
every role and ran functions without a pinned search path.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_and_report, install_now
from rowbus.log.schema.verifier import verify
from tests.fixtures import forked

Connection = psycopg.Connection[Any]
OLD = Path(__file__).parent / "installed" / "8fb2ba9.sql.gz"
STRANGER = "rowbus_test_stranger"


@pytest.fixture
def old(database: str) -> Iterator[Session]:
    """Give a session on a database in which an older Rowbus installed the log, and a queue is in use."""
    with Database(database).session() as session:
        session.connection.execute(gzip.decompress(OLD.read_bytes()))
        session.connection.execute("select pgq.create_queue('q'), pgq.insert_event('q', 't', 'd')")
        yield session


@pytest.fixture
def session(log_database: str) -> Iterator[Session]:
    """Give a session on a database with our log and a queue."""
    with Database(log_database).session() as session:
        session.connection.execute("select pgq.create_queue('q')")
        yield session


@pytest.fixture
def stranger(session: Session, log_database: str) -> Iterator[str]:
    """Give the DSN of a role that may connect, and use what every role may use."""
    session.connection.execute(f"drop role if exists {STRANGER}; create role {STRANGER}")
    yield make_conninfo(log_database, options=f"-c role={STRANGER}")
    session.connection.execute(f"drop owned by {STRANGER} cascade; drop role {STRANGER}")


# -------------------------------------------------------------------------------------------------- an older install


def test_an_installation_of_an_older_rowbus_is_told_what_is_unsafe(old: Session) -> None:
    found = verify(old)
    text = "\n".join(found.differences)

    assert "function pgq.maint_operations(OUT func_name text, OUT func_arg text): its text is another" in text
    assert "its search path is not pinned" in text
    assert "function pgq._companions_operations(OUT func_name text, OUT func_arg text): " in text
    assert "every role may execute it" in text
    assert "its grants are in the old style" in found.warnings[0]
    assert "`rowbus log grants --style new`" in found.warnings[0]


def test_the_upgrade_mends_an_older_installation_but_for_who_may_use_it_which_was_chosen(
    old: Session,
) -> None:
    assert install_and_report(old).grants == "old"

    found = verify(old)

    assert found.differences == []
    assert ["old style" in warning for warning in found.warnings] == [True]
    old.connection.execute("select pgq.set_grants('new')")
    assert verify(old) == ([], [])


def test_the_command_line_upgrades_and_says_which_grants_it_kept(old: Session, database: str) -> None:
    upgraded = rowbus("schema", "install", "--log", database=database)

    assert upgraded.returncode == 0
    assert "as before, every role that can connect may read, write and drop logs" in upgraded.stderr
    assert "`rowbus log grants --style new`" in upgraded.stderr
    verified = rowbus("schema", "verify", "--log", "--json", database=database)
    assert (verified.returncode, json.loads(verified.stdout)[0]["verified"]) == (0, True)
    assert "old style" in json.loads(verified.stdout)[0]["warnings"][0]
    assert "warn" in rowbus("schema", "verify", "--log", database=database).stdout
    assert old.connection.execute("select ev_id from pgq.event_1").fetchall() == [(1,)]


# --------------------------------------------------------------------------------------------------------- this one


def test_a_new_installation_in_use_is_as_it_should_be(session: Session) -> None:
    session.connection.execute("create table public.orders (id int primary key, note text)")
    session.connection.execute("select pgq.capture_table('public.orders', 'q')")
    session.connection.execute("select pgq.maint_capture(), pgq.force_tick('q'), pgq.ticker()")

    assert verify(session) == ([], [])
    session.connection.execute("alter table orders disable trigger capture_q_truncate")
    differences, (warning,) = verify(session)
    assert differences == []
    assert warning == (
        "trigger capture_q_truncate of orders is disabled: the log gets none of its changes: "
        "`alter table orders enable trigger capture_q_truncate`, then copy it again"
    )


TAMPERED = [
    (
        "create or replace function pgq.quote_fqname(i_name text) returns text language sql as $$ select i_name $$",
        "function pgq.quote_fqname(i_name text): its text is another",
    ),
    (
        "alter function pgq.create_queue(text) reset search_path",
        "function pgq.create_queue(i_queue_name text): its search path is not pinned",
    ),
    (
        "alter function pgq.create_queue(text) set search_path = public, pg_catalog",
        "function pgq.create_queue(i_queue_name text): its search path is public, pg_catalog",
    ),
    (
        "alter function pgq.maint_rotate_tables_step2() security definer",
        "function pgq.maint_rotate_tables_step2(): it runs with its owner's rights",
    ),
    (
        "grant execute on function pgq._generate_insert(int4) to public",
        "function pgq._generate_insert(i_queue_id integer): every role may execute it",
    ),
    (
        "grant execute on function pgq.drop_queue(text, bool) to public",
        "function pgq.drop_queue(x_queue_name text, x_force boolean): every role may execute it",
    ),
    (
        "grant execute on function pgq_coop.unregister_subconsumer(text, text, text, int4) to public",
        "function pgq_coop.unregister_subconsumer(",
    ),
    (
        "create function pgq.insert_event(text, text, varchar) returns int8 language sql as 'select 1::int8'",
        "function pgq.insert_event(text, text, character varying): it is not one of Rowbus's",
    ),
    (
        "create function pgq.helper() returns int language sql as 'select 1'",
        "function pgq.helper(): it is not one of Rowbus's",
    ),
    (
        """
        create function public.spy() returns trigger language plpgsql as 'begin return new; end';
        create trigger spy before insert on pgq.tick for each row execute function public.spy()
        """,
        "trigger spy on pgq.tick is not one of Rowbus's",
    ),
    (
        "create rule spy as on insert to pgq.tick do also select 1",
        "rule spy on pgq.tick is not one of Rowbus's",
    ),
]


@pytest.mark.parametrize("change,difference", TAMPERED)
def test_what_was_changed_since_is_told(session: Session, change: str, difference: str) -> None:
    session.connection.execute(change.encode())

    found = verify(session)

    assert any(line.startswith(difference) for line in found.differences), found.differences
    assert len(found.differences) == 1


def test_what_every_role_may_execute_is_told_beside_other_changes(session: Session) -> None:
    session.connection.execute(
        "create function pgq.helper() returns int language sql as 'select 1';"
        "grant execute on function pgq.drop_queue(text, bool) to public"
    )

    drop, helper = sorted(verify(session).differences)
    assert drop.endswith("pgq.drop_queue(x_queue_name text, x_force boolean): every role may execute it")
    assert helper.startswith("function pgq.helper(): it is not one of Rowbus's")


def test_installing_again_mends_functions_and_their_rights(session: Session) -> None:
    for change, _difference in TAMPERED[:6]:
        session.connection.execute(change.encode())

    install_now(session)

    assert verify(session) == ([], [])


# --------------------------------------------------------------------------------------------------------- strangers


def test_what_belongs_to_a_stranger_is_told(session: Session, stranger: str) -> None:
    session.connection.execute(f"alter function pgq.ticker() owner to {STRANGER}")

    assert verify(session).differences == [f"function pgq.ticker() belongs to {STRANGER}"]


def test_verifying_runs_nothing_of_a_strangers_schema(database: str) -> None:
    """Its tables may be views, whose functions would run as a superuser who looks."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"drop role if exists {STRANGER}; create role {STRANGER}")
        name = sql.Identifier(admin.info.dbname)
        admin.execute(sql.SQL("grant create on database {} to {}").format(name, sql.Identifier(STRANGER)))
        with psycopg.connect(
            make_conninfo(database, options=f"-c role={STRANGER}"), autocommit=True
        ) as mallory:
            mallory.execute("create schema pgq; create sequence pgq.caught")
            mallory.execute("grant usage on schema pgq to public")
            mallory.execute("""
                create function pgq.trap() returns int language plpgsql as $$
                begin perform nextval('pgq.caught'); return 1; end $$;
                create view pgq.schema_version as select pgq.trap() as version, now() as installed_at;
                create view pgq.queue as select pgq.trap() as queue_id, 'q' as queue_name
            """)
        with Database(database).session() as session:
            assert verify(session).differences == [f"schema pgq belongs to {STRANGER}"]
        doctor = rowbus("doctor", "--json", database=database)
        found = [finding["text"] for finding in json.loads(doctor.stdout) if finding["level"] == "fail"]
        assert f"schema pgq belongs to {STRANGER}, who can change what the log does" in found
        assert admin.execute("select is_called from pgq.caught").fetchone() == (False,)
        admin.execute(f"drop owned by {STRANGER} cascade; drop role {STRANGER}")


def rowbus(*arguments: str, database: str) -> subprocess.CompletedProcess[str]:
    return forked.run_text("--database", database, *arguments)
