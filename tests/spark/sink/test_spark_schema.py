"""Schema `rowbus_spark`: made when it is first needed, and only then."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
from typer.testing import CliRunner

from rowbus.cli.application import app
from rowbus.database.postgresql.database import Database
from rowbus.spark import schema as spark_schema
from rowbus.spark.schema import ensure


def test_it_is_made_once(database: str) -> None:
    with Database(database).session() as session:
        assert ensure(session)
        assert not ensure(session)


def test_many_tasks_may_make_it_at_once(database: str) -> None:
    def make(_number: int) -> bool:
        with Database(database).session() as session:
            return ensure(session)

    with ThreadPoolExecutor(4) as pool:
        assert any(pool.map(make, range(4)))


def test_an_older_one_is_brought_up_to_date(database: str) -> None:
    with Database(database).session() as session, psycopg.connect(database, autocommit=True) as connection:
        ensure(session)
        connection.execute("update rowbus_spark.schema_version set version = 0")
        connection.execute("drop table rowbus_spark.prepared_part")
        assert ensure(session)
        assert connection.execute("select count(*) from rowbus_spark.prepared_part").fetchone() == (0,)


def test_a_newer_one_is_left_alone(database: str) -> None:
    with Database(database).session() as session, psycopg.connect(database, autocommit=True) as connection:
        ensure(session)
        connection.execute("update rowbus_spark.schema_version set version = 999, digest = 'other'")
        assert not ensure(session)


def test_the_script_for_psql_does_the_same(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(spark_schema.text().encode())
    with Database(database).session() as session:
        assert not ensure(session)


def test_the_command_line_prints_the_script() -> None:
    printed = CliRunner().invoke(app, ["schema", "sql", "--spark"]).output
    assert printed.strip() == spark_schema.text()
