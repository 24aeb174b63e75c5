"""Objects of a role with CREATE on the database: not built upon, and not run with a maintainer's rights."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError
from rowbus.log.schema.installer import install_now
from rowbus.log.ticker.ticks import Report, TickerRights, Upkeep, open_session
from rowbus.settings import TickerSettings
from rowbus.spark import schema as spark_installer

Connection = psycopg.Connection[Any]
MALLORY = "rowbus_test_mallory"
TICKER = "rowbus_test_ticker"
OWNER = "rowbus_test_owner"

TRAP: LiteralString = """
    create sequence {0}.caught;
    create function {0}.{1} returns int language plpgsql as $$
    begin
        if current_user <> 'rowbus_test_mallory' then
            perform pg_catalog.nextval('{0}.caught');
        end if;
        return 0;
    end $$;
    grant usage on schema {0} to public;
    grant all on {0}.caught to public
"""


@pytest.fixture
def admin(database: str) -> Iterator[Connection]:
    """Give a superuser's connection to a database in which the role mallory may create schemas, and do nothing else."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield from with_mallory(connection)


@pytest.fixture
def pgq_admin(pgq: Connection) -> Iterator[Connection]:
    """Give the same where our log is installed, with a queue."""
    pgq.execute("select pgq.create_queue('q')")
    yield from with_mallory(pgq)


def with_mallory(connection: Connection) -> Iterator[Connection]:
    connection.execute(f"drop role if exists {MALLORY}; create role {MALLORY}")
    grant = sql.SQL("grant create on database {} to {}")
    connection.execute(grant.format(sql.Identifier(connection.info.dbname), sql.Identifier(MALLORY)))
    yield connection
    connection.execute(f"drop owned by {MALLORY} cascade; drop role {MALLORY}")


def as_mallory(connection: Connection, *statements: str) -> None:
    connection.execute(f"set role {MALLORY}")
    for statement in statements:
        connection.execute(statement.encode())
    connection.execute("reset role")


def trap(schema: str, function: str) -> str:
    return TRAP.format(schema, function)


def caught(connection: Connection, schema: str) -> bool:
    row = connection.execute(f"select is_called from {schema}.caught".encode()).fetchone()
    return row is not None and bool(row[0])


# -------------------------------------------------------------------------------------------------------- installing


@pytest.mark.parametrize("schema", ["pgq", "pgq_coop", "pgq_ext", "pgq_node"])
def test_a_schema_that_a_stranger_made_is_not_built_upon(
    admin: Connection, database: str, schema: str
) -> None:
    as_mallory(admin, f"create schema {schema}", trap(schema, "maint_operations()"))

    with (
        Database(database).session() as session,
        pytest.raises(
            ConfigurationError, match=rf"schema {schema} belongs to {MALLORY}\. Install as that role"
        ) as error,
    ):
        install_now(session)

    assert "have a superuser drop or revoke it" in str(error.value)
    assert not caught(admin, schema)
    assert admin.execute("select to_regclass('pgq.queue')").fetchone() == (None,)


OBJECTS = [
    (
        "create function pgq.insert_event(text, text, varchar) returns int8 language sql as 'select 1::int8'",
        "function",
    ),
    ("create type pgq.text as enum ()", "type pgq.text"),
    ("create domain pgq.int4 as int", "type pgq.int4"),
    (
        """
        create function pgq.f(text, text) returns bool language sql as 'select true';
        create operator pgq.= (function = pgq.f, leftarg = text, rightarg = text)
        """,
        "operator",
    ),
    ("create table pgq.consumer (co_id int)", "table pgq.consumer"),
    ("create view pgq.queue as select 1 as queue_id", "view pgq.queue"),
]


@pytest.mark.parametrize("made,named", OBJECTS)
def test_an_object_that_a_stranger_put_into_a_schema_is_not_built_upon(
    admin: Connection, database: str, made: str, named: str
) -> None:
    admin.execute(f"create schema pgq; grant create, usage on schema pgq to {MALLORY}")
    as_mallory(admin, made)
    admin.execute(f"revoke create on schema pgq from {MALLORY}")

    with (
        Database(database).session() as session,
        pytest.raises(ConfigurationError, match=rf"{named}.* belongs to {MALLORY}"),
    ):
        install_now(session)


@pytest.mark.parametrize("whom", [MALLORY, "public"])
def test_a_schema_in_which_others_may_create_objects_is_not_built_upon(
    admin: Connection, database: str, whom: str
) -> None:
    admin.execute(f"create schema pgq; grant create on schema pgq to {whom}".encode())

    with (
        Database(database).session() as session,
        pytest.raises(ConfigurationError, match="the right to create objects in schema pgq belongs to "),
    ):
        install_now(session)


def test_a_trigger_with_a_strangers_function_is_told(pgq_admin: Connection, log_database: str) -> None:
    as_mallory(
        pgq_admin,
        "create schema mallory",
        "create function mallory.f() returns trigger language plpgsql as 'begin return new; end'",
    )
    pgq_admin.execute("create trigger t before insert on pgq.tick for each row execute function mallory.f()")

    with (
        Database(log_database).session() as session,
        pytest.raises(ConfigurationError, match=rf"trigger t on pgq\.tick belongs to {MALLORY}"),
    ):
        install_now(session)


def test_an_empty_schema_of_the_installers_own_will_do(admin: Connection, database: str) -> None:
    admin.execute("create schema pgq")
    with Database(database).session() as session:
        assert install_now(session)


def test_a_superuser_does_not_build_upon_what_the_owner_of_the_database_may_change(
    admin: Connection, database: str
) -> None:
    as_mallory(admin, "create schema pgq")
    name = sql.Identifier(admin.info.dbname)
    admin.execute(sql.SQL("alter database {} owner to {}").format(name, sql.Identifier(MALLORY)))
    with (
        Database(database).session() as session,
        pytest.raises(ConfigurationError, match=f"belongs to {MALLORY}"),
    ):
        install_now(session)
    with Database(make_conninfo(database, options=f"-c role={MALLORY}")).session() as session:
        assert install_now(session)  # the owner does
    admin.execute(sql.SQL("alter database {} owner to postgres").format(name))


def test_a_member_of_the_owning_role_upgrades(admin: Connection, database: str) -> None:
    admin.execute(f"drop role if exists {OWNER}; create role {OWNER} login in role {MALLORY}")
    with Database(make_conninfo(database, options=f"-c role={MALLORY}")).session() as session:
        install_now(session)
    with Database(make_conninfo(database, user=OWNER)).session() as session:
        session.connection.execute("update pgq.schema_version set version = 0")
        assert install_now(session)
    admin.execute(f"drop owned by {OWNER}; drop role {OWNER}")


def test_schema_rowbus_spark_of_a_stranger_is_not_built_upon(admin: Connection, database: str) -> None:
    as_mallory(
        admin,
        "create schema rowbus_spark",
        trap("rowbus_spark", "version()"),
        "create view rowbus_spark.schema_version as select rowbus_spark.version() as version, '' as digest",
        "grant select on rowbus_spark.schema_version to public",
    )

    with (
        Database(database).session() as session,
        pytest.raises(ConfigurationError, match=f"schema rowbus_spark belongs to {MALLORY}"),
    ):
        spark_installer.ensure(session)

    assert not caught(admin, "rowbus_spark")


# ------------------------------------------------------------------------------------------------------- maintaining


@pytest.fixture
def ticker(pgq_admin: Connection, log_database: str) -> Iterator[str]:
    """Give the DSN of a role that is a member of pgq_admin, as the docs have the ticker run."""
    pgq_admin.execute(f"drop role if exists {TICKER}; create role {TICKER} login in role pgq_admin")
    yield make_conninfo(log_database, user=TICKER)
    pgq_admin.execute(f"drop owned by {TICKER} cascade; drop role {TICKER}")


async def maintain(dsn: str) -> Report:
    session = await open_session(Database(dsn), None)
    try:
        return await Upkeep(session).everything()
    finally:
        await session.close()


def listed(dsn: str) -> set[str]:
    """Ask as pgqd does."""
    with psycopg.connect(dsn) as connection:
        return {name for name, _ in connection.execute("select * from pgq.maint_operations()")}


@pytest.mark.parametrize("superuser", [True, False])
async def test_londiste_of_a_stranger_is_not_maintained(
    pgq_admin: Connection, log_database: str, ticker: str, *, superuser: bool
) -> None:
    dsn = log_database if superuser else ticker
    as_mallory(pgq_admin, "create schema londiste", trap("londiste", "periodic_maintenance()"))

    assert "londiste.periodic_maintenance" not in listed(dsn)
    report = await maintain(dsn)

    assert not caught(pgq_admin, "londiste")
    assert f"{MALLORY} could change what it does" in report.failed["londiste.periodic_maintenance"]


async def test_londiste_of_the_owner_of_pgq_is_maintained(pgq_admin: Connection, ticker: str) -> None:
    pgq_admin.execute("create schema londiste")
    pgq_admin.execute(trap("londiste", "periodic_maintenance()").encode())

    report = await maintain(ticker)

    assert caught(pgq_admin, "londiste")
    assert report.operations == ["londiste.periodic_maintenance"]
    assert report.failed == {}


async def test_extra_maintenance_of_a_stranger_does_not_run(
    pgq_admin: Connection, ticker: str, log_database: str
) -> None:
    names = ["mallory.extra", "MALLORY.Extra", "extra", "mallory.Sweep", "Sweep"]  # quoted or not
    as_mallory(pgq_admin, "create schema mallory", trap("mallory", "extra(text)"))
    as_mallory(pgq_admin, """create function mallory."Sweep"(text) returns int return mallory.extra('')""")
    pgq_admin.execute("update pgq.queue set queue_extra_maint = %s", [names])
    pgq_admin.execute(f"alter role {TICKER} set search_path = mallory, public")

    for dsn in (ticker, log_database):
        assert not set(names) & set(listed(dsn))
        failed = (await maintain(dsn)).failed
        assert [name for name in names if f"{MALLORY} could change what it does" not in failed[name]] == []
    assert not caught(pgq_admin, "mallory")


async def test_extra_maintenance_that_is_no_name_does_not_run(pgq_admin: Connection, ticker: str) -> None:
    name = "pg_sleep(0), pgq.drop_queue('q', true), concat"
    pgq_admin.execute("update pgq.queue set queue_extra_maint = array[%s]", [name])

    assert name not in listed(ticker)
    assert "is no name of a function" in (await maintain(ticker)).failed[name]


async def test_extra_maintenance_of_the_tickers_own_role_runs(pgq_admin: Connection, ticker: str) -> None:
    pgq_admin.execute(f"create schema extra authorization {TICKER}")
    pgq_admin.execute(trap("extra", "maintain(text)").encode())
    pgq_admin.execute(f"alter function extra.maintain(text) owner to {TICKER}")
    pgq_admin.execute("update pgq.queue set queue_extra_maint = array['extra.maintain']")

    report = await maintain(ticker)

    assert (report.operations, report.failed) == (["extra.maintain q"], {})
    assert caught(pgq_admin, "extra")


async def test_pgq_node_of_a_stranger_is_not_read(pgq_admin: Connection, ticker: str) -> None:
    pgq_admin.execute("drop schema pgq_node cascade")
    as_mallory(
        pgq_admin,
        "create schema pgq_node",
        trap("pgq_node", "maint_watermark(text)"),
        trap("pgq_node", "look()").replace("create sequence pgq_node.caught;", ""),
        "create view pgq_node.node_info as select 'root'::text as node_type, pgq_node.look()::text as queue_name",
        "grant select on pgq_node.node_info to public",
    )

    assert "pgq_node.maint_watermark" not in listed(ticker)
    await maintain(ticker)

    assert not caught(pgq_admin, "pgq_node")


async def test_maintenance_does_not_look_names_up_along_the_roles_path(
    pgq_admin: Connection, ticker: str
) -> None:
    """A trusted function that pins no path means pg_catalog's lower(), and not that of a schema in the role's path."""
    as_mallory(pgq_admin, "create schema mallory", trap("mallory", "lower(text)"))
    pgq_admin.execute("""
        create schema londiste; grant usage on schema londiste to public;
        create function londiste.periodic_maintenance() returns int language plpgsql as $$
        begin perform lower('A'); return 0; end $$
    """)
    pgq_admin.execute(f"alter role {TICKER} set search_path = mallory, pg_catalog")

    report = await maintain(ticker)

    assert report.operations == ["londiste.periodic_maintenance"]
    assert not caught(pgq_admin, "mallory")


async def test_a_superuser_does_not_tick_a_strangers_schema(admin: Connection, database: str) -> None:
    """The view that the ticker looks at, and the functions in it, would run as the superuser."""
    as_mallory(
        admin,
        "create schema pgq",
        trap("pgq", "look()"),
        "create view pgq._tick_wish as select pgq.look() as queue_id, '' as queue_name",
        "create view pgq.queue as select pgq.look() as queue_id, '' as queue_name",
        "grant select on pgq._tick_wish, pgq.queue to public",
    )

    with pytest.raises(ConfigurationError, match=f"The schema pgq belongs to {MALLORY}, who is neither"):
        await rowbus.Ticker(database).start()
    with pytest.raises(ConfigurationError, match="Run the ticker as a role that is a member of pgq_admin"):
        await maintain(database)

    assert not caught(admin, "pgq")


# ------------------------------------------------------------------------------------------------------- superusers


def rights(**facts: bool | str | None) -> TickerRights:
    usual = TickerRights(
        role="boss",
        is_superuser=True,
        schema_owner="boss",
        owner_is_superuser=True,
        owner_is_databases=False,
        is_private=False,
    )
    return usual._replace(**facts)  # type: ignore[arg-type] # each of its field's type


def test_a_ticker_that_is_a_superuser_is_warned_unless_the_server_is_its_own() -> None:
    assert "connects as the superuser boss" in (rights().warning or "")
    assert rights(is_private=True).warning is None
    assert rights(is_superuser=False).warning is None


def test_a_superuser_ticks_for_superusers_and_the_owner_of_the_database_only() -> None:
    assert rights().obstacle is None
    assert rights(owner_is_superuser=False, owner_is_databases=True).obstacle is None
    assert rights(schema_owner=None, owner_is_superuser=False).obstacle is None
    assert rights(owner_is_superuser=False).obstacle is not None
    assert rights(owner_is_superuser=False, is_superuser=False).obstacle is None


@pytest.mark.one_version
async def test_nothing_is_said_on_the_embedded_server(
    log_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        session = await open_session(Database(log_database), TickerSettings(), warns=True)
    await session.close()
    assert caplog.records == []
