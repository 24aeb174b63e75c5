"""Users of a log that was just installed: members of three roles, and not every role that can connect."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_and_report
from tests.fixtures import forked
from tests.fixtures.every import every

Connection = psycopg.Connection[Any]
STRANGER = "rowbus_test_stranger"
OWNER = "rowbus_test_owner"


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    with Database(database).session() as session:
        yield session


@pytest.fixture
def role(session: Session) -> Iterator[sql.Identifier]:
    """Give a role of no rights, but to connect."""
    session.connection.execute(f"drop role if exists {STRANGER}; create role {STRANGER}")
    yield sql.Identifier(STRANGER)
    session.connection.execute(f"drop owned by {STRANGER} cascade; drop role {STRANGER}")


def rowbus(*arguments: str, database: str) -> subprocess.CompletedProcess[str]:
    return forked.run_text("--database", database, *arguments)


# -------------------------------------------------------------------------------------------------------- a new log

FORBIDDEN: list[LiteralString] = [
    "select pgq.insert_event('q', 'forged', 'd')",
    "select * from pgq.event_1",
    "select * from pgq.event_template",
    "select pgq.register_consumer('q', 'spy')",
    "select pgq.batch_event_sql(1)",
    "select pgq.create_queue('mine')",
    "select pgq.drop_queue('q', true)",
    "select pgq.set_queue_config('q', 'ticker_paused', 'true')",
    "select pgq.ticker()",
    "select * from pgq.maint_operations()",
    "select * from pgq.dead_letter",
    "select * from pgq.retry_queue",
    "select pgq_coop.register_subconsumer('q', 'c', 's')",
]


@pytest.fixture
def new_log(session: Session) -> None:
    """Have a log "q" with the grants that a new one has."""
    assert install_and_report(session).grants == "new"
    session.connection.execute("select pgq.create_queue('q')")


@every("attack", FORBIDDEN)
@pytest.mark.usefixtures("role", "new_log")
def test_a_role_that_nobody_gave_anything_does_not_read_forge_or_drop_logs(
    database: str, attack: LiteralString
) -> None:
    with (
        psycopg.connect(make_conninfo(database, options=f"-c role={STRANGER}")) as stranger,
        pytest.raises(errors.InsufficientPrivilege),
    ):
        stranger.execute(attack)


def test_the_script_for_psql_grants_by_role_too(database: str, session: Session) -> None:
    script = forked.run_text("schema", "sql", "--log")
    script.check_returncode()
    before = session.connection.execute("show search_path").fetchone()
    session.connection.execute(script.stdout.encode())

    assert json.loads(rowbus("log", "grants", "--json", database=database).stdout)["style"] == "new"
    assert session.connection.execute("show search_path").fetchone() == before


# ---------------------------------------------------------------------------------------------------- another style


def test_the_style_is_kept_by_upgrades_shown_and_changed(database: str, session: Session) -> None:
    missing = rowbus("log", "grants", database=database)
    assert (missing.returncode, "`rowbus log install` makes one" in missing.stderr) == (1, True)
    install_and_report(session)
    assert rowbus("log", "grants", database=database).stdout.startswith("new: granted by role")

    changed = rowbus("log", "grants", "--style", "old", database=database)
    assert changed.stdout.startswith(
        "old (before: new): every role that can connect may read, write and drop"
    )
    again = rowbus("log", "install", database=database)
    assert "as before, every role that can connect may" in again.stderr
    assert install_and_report(session).grants == "old"

    back = json.loads(rowbus("log", "grants", "--style", "new", "--json", database=database).stdout)
    assert back == {"style": "new", "before": "old"}
    assert install_and_report(session).grants == "new"
    assert rowbus("log", "install", database=database).stderr == ""


def test_doctor_and_capture_warn_of_the_old_style_and_say_what_changes_it(
    database: str, session: Session
) -> None:
    install_and_report(session)
    session.connection.execute("select pgq.create_queue('q'); create table orders (id int primary key)")
    capture = ("log", "capture", "orders", "--log", "q")
    assert rowbus(*capture, database=database).stderr == ""
    assert "style" not in rowbus("doctor", database=database).stdout
    session.connection.execute("select pgq.set_grants('old')")

    warned = rowbus(*capture, "--trigger", "again", database=database)
    assert "who may not read orders may read its changes" in warned.stderr
    assert "`rowbus log grants --style new`" in warned.stderr
    found = json.loads(rowbus("doctor", "--json", database=database).stdout)
    (finding,) = [finding for finding in found if finding["subject"] == "event log"]
    assert finding["level"] == "warn"
    assert "`rowbus log grants --style new`" in finding["advice"]


# ------------------------------------------------------------------------------------- roles that were there before


def test_members_that_the_roles_have_already_are_named(session: Session, role: sql.Identifier) -> None:
    install_and_report(session)  # so that the roles are there
    session.connection.execute("drop schema pgq, pgq_coop, pgq_ext, pgq_node cascade")
    session.connection.execute(sql.SQL("grant pgq_reader to {}").format(role))
    session.connection.execute(sql.SQL("grant pgq_admin to {} with admin option").format(role))

    notes = install_and_report(session).notes

    assert f"{STRANGER} is a member of pgq_reader" in notes
    assert f"{STRANGER} is a member of pgq_admin (and may make others members)" in notes
    assert install_and_report(session).notes == []  # of a log that is there


def test_what_the_roles_are_members_of_is_named(
    session: Session, role: sql.Identifier, database: str
) -> None:
    install_and_report(session)
    session.connection.execute("drop schema pgq, pgq_coop, pgq_ext, pgq_node cascade")
    session.connection.execute(sql.SQL("grant {} to pgq_writer").format(role))

    installed = rowbus("log", "install", database=database)

    assert installed.returncode == 0
    assert f"pgq_writer is itself a member of {STRANGER}" in installed.stderr


@pytest.fixture
def split_admin(session: Session) -> Iterator[Connection]:
    """Give a superuser's connection; pgq_admin is there, and no member of the others."""
    install_and_report(session)
    session.connection.execute("drop schema pgq, pgq_coop, pgq_ext, pgq_node cascade")
    session.connection.execute("revoke pgq_reader, pgq_writer from pgq_admin")
    yield session.connection
    session.connection.execute("grant pgq_reader, pgq_writer to pgq_admin")


def test_an_administrator_that_is_no_member_of_the_others_becomes_one(
    split_admin: Connection, session: Session
) -> None:
    report = install_and_report(session)

    assert not [note for note in report.notes if "pgq_admin is no member" in note]
    query: LiteralString = """
        select count(*) from pg_auth_members where member = 'pgq_admin'::regrole
        and roleid in ('pgq_reader'::regrole, 'pgq_writer'::regrole)
    """
    assert split_admin.execute(query).fetchone() == (2,)


def test_who_may_not_make_it_one_installs_and_is_told_the_command(
    split_admin: Connection, database: str
) -> None:
    name = sql.Identifier(split_admin.info.dbname)
    split_admin.execute(f"drop role if exists {OWNER}; create role {OWNER} login")
    split_admin.execute(sql.SQL("grant create on database {} to {}").format(name, sql.Identifier(OWNER)))
    try:
        with Database(make_conninfo(database, user=OWNER)).session() as session:
            report = install_and_report(session)
        advice = "have a superuser run `grant pgq_reader to pgq_admin`"
        assert f"pgq_admin is no member of pgq_reader: {advice}" in report.notes
        assert report.changed
    finally:
        split_admin.execute(f"drop owned by {OWNER} cascade; drop role {OWNER}")
