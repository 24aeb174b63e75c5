"""Rights of a role that reads queues with Spark: SELECT to look, three printed grants to receive."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from rowbus.database.statements import Statement, script
from rowbus.spark import schema as spark_schema
from rowbus.transport.queues.catalog import postgresql as catalog
from tests.spark.queue.queues import ALL, Queue, read

ROLE = "rowbus_test_spark_receiver"


@pytest.fixture
def role(queue: Queue) -> Iterator[str]:
    """Give the connection string of a role without rights, where schema rowbus_spark is installed."""
    queue.ask(f"drop role if exists {ROLE}")
    queue.ask(f"create role {ROLE}")
    with psycopg.connect(queue.dsn, autocommit=True) as owner:
        owner.execute(spark_schema.text().encode())
        yield make_conninfo(queue.dsn, options=f"-c role={ROLE}")
        owner.execute(f"drop owned by {ROLE} cascade; drop role {ROLE}")


def grant(queue: Queue, *statements: Statement[None]) -> None:
    with psycopg.connect(queue.dsn, autocommit=True) as owner:
        for statement in statements:
            owner.execute(script(statement).encode())


def test_a_queue_is_looked_at_with_what_is_granted_and_not_received_from(queue: Queue, role: str) -> None:
    grant(queue, catalog.grant_view(queue.address, ROLE))
    queue.send(1, 2)

    assert len(read(queue.peeker(dsn=role))) == 2
    with psycopg.connect(role) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute('delete from "Work"')


def test_a_queue_is_received_from_with_what_is_granted_and_given_back(queue: Queue, role: str) -> None:
    """INSERT on the queue is for messages that a query which never comes back leaves behind."""
    receive, send = catalog.grant_receive(queue.address, ROLE), catalog.grant_send(queue.address, ROLE)
    grant(queue, receive, send, spark_schema.grant_use(ROLE))
    queue.send(1, 2)

    reader = queue.receiver(dsn=role)
    reader.latestOffset(reader.initialOffset(), ALL)
    assert queue.claimed() == [1, 2]
    reader.stop()
    queue.expire_leases()
    other = queue.receiver(dsn=role, consumer="other")
    other.latestOffset(other.initialOffset(), ALL)
    assert queue.claimed() == [1, 2]
    assert queue.ask("select distinct consumer from rowbus_spark.claim where state = 'held'") == [("other",)]
