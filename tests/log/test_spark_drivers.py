"""Consumers told to be queries of Spark's: those whose lock a driver holds, or has held before."""

from __future__ import annotations

import psycopg
import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import run_steps_now
from rowbus.log import catalog
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.spark_drivers import SparkDrivers
from tests.fixtures.processes import await_that
from tests.fixtures.spark_driver import driver_of_spark
from tests.log.orders import Orders

pytestmark = pytest.mark.one_version

LAKE, AUDIT = ("orders", "lake of all"), ("orders", "audit")


@pytest.fixture
def orders(log_database: str, pgq: psycopg.Connection) -> Orders:
    orders = Orders(log_database, pgq)
    for consumer in ("lake of all", "audit"):
        orders.register(consumer)
    return orders


def look(drivers: SparkDrivers, session: Session) -> dict[tuple[str, str], bool]:
    return dict(run_steps_now(session, drivers.look(session.run(catalog.consumer_states()))))


def test_a_consumer_is_sparks_while_a_driver_runs_and_is_known_to_be_afterwards(orders: Orders) -> None:
    drivers = SparkDrivers()
    with Database(orders.dsn).session() as session:
        assert look(drivers, session) == {}

        with driver_of_spark(orders.dsn, *LAKE):
            assert look(drivers, session) == {LAKE: True}
        await_that(lambda: look(drivers, session) == {LAKE: False}, "the end of the driver's session")

        assert look(SparkDrivers(), session) == {}  # the database alone does not tell
        orders.connection.execute("select pgq.unregister_consumer('orders', 'lake of all')")
        assert look(drivers, session) == {}


def test_another_holder_of_the_lock_is_no_driver(orders: Orders) -> None:
    with (
        Database(orders.dsn, application_name="rowbus consumer audit").session() as leader,
        Database(orders.dsn).session() as session,
    ):
        assert leader.run(ConsumerTable(*AUDIT).try_lead())
        assert look(SparkDrivers(), session) == {}
