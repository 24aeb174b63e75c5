"""Operations of Django's migrations, run by its executor, and what they leave in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import OperationWriter

import rowbus
from rowbus.django.operations import (
    CaptureTable,
    CreateEndpoint,
    CreateLogs,
    CreateQueue,
    GrantEndpoints,
    GrantLogs,
)
from tests.fixtures.every import every

pytestmark = pytest.mark.one_version


def migrate(*operations: Operation, back: bool = False) -> None:
    migration = Migration("0001_queues", "rowbus")
    setattr(migration, "operations", operations)  # noqa: B010 - the stubs know it of the class only
    with connection.schema_editor(atomic=True) as editor:
        if back:
            migration.unapply(ProjectState(), editor)
        else:
            migration.apply(ProjectState(), editor)


def answers(database: str, query: str) -> list[Any]:
    with psycopg.connect(database) as asking:
        return [row[0] for row in asking.execute(query.encode())]


TABLES = "select tablename from pg_tables where schemaname = 'public' order by 1"


def test_an_endpoint_s_tables_are_all_that_it_needs(database: str) -> None:
    migrate(CreateEndpoint("Sales"), CreateQueue("audit"))

    found = answers(database, TABLES)
    assert sorted(found) == ["Sales", "Sales.Delayed", "SubscriptionRouting", "audit", "error"]


async def test_such_an_endpoint_starts_without_installing(database: str) -> None:
    await sync_to_async(migrate)(CreateEndpoint("Shop.Sales"))
    settings = rowbus.EndpointSettings(install=False)
    sales = rowbus.Endpoint("Shop.Sales", database=database, settings=settings)

    @sales.handler("Shop.Nothing")
    async def nothing(message: object) -> None: ...

    async with sales:
        await sales.send_local({}, type="Shop.Nothing")
    await sync_to_async(connections.close_all)()


def test_a_migration_that_fails_leaves_nothing(database: str) -> None:
    with pytest.raises(Exception, match="missing"):
        migrate(CreateQueue("Sales"), GrantLogs("missing", write=True))

    assert answers(database, TABLES) == []


def test_logs_and_captures_are_made_and_captures_are_released(database: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("create table stock (item text primary key)")
    operations: Sequence[Operation] = (CreateLogs(["changes"]), CaptureTable("stock", "changes"))
    migrate(*operations)
    migrate(*operations)  # again: nothing changes

    assert answers(database, "select queue_name from pgq.queue") == ["changes"]
    assert answers(database, "select table_id::regclass::text from pgq.capture_status") == ["stock"]
    migrate(*operations, back=True)
    assert answers(database, "select queue_name from pgq.queue") == ["changes"]
    assert answers(database, "select table_id::regclass::text from pgq.capture_status") == []


def test_grants_let_a_role_run_an_endpoint_and_send_and_append(database: str, role: str) -> None:
    migrate(CreateEndpoint("Sales"), CreateEndpoint("Billing"), CreateLogs(["changes"]))
    migrate(GrantEndpoints(role, receive=["Sales"], send=["Billing"]), GrantLogs(role, write=True))

    def may(what: str, table: str) -> bool:
        (found,) = answers(database, f"select has_any_column_privilege('{role}', '{table}', '{what}')")
        return bool(found)

    assert [may(what, '"Sales"') for what in ("select", "update", "insert")] == [True, True, True]
    assert [may(what, '"Billing"') for what in ("select", "update", "insert")] == [False, False, True]
    assert [may("insert", table) for table in ("error", '"Billing.Delayed"')] == [True, True]
    assert answers(database, f"select pg_has_role('{role}', 'pgq_writer', 'member')") == [True]


@every(
    "operation",
    [
        CreateEndpoint("Sales", schema="bus"),
        CreateQueue("audit"),
        CreateLogs(["changes", "orders"]),
        CaptureTable("stock", "changes", arguments=["backup"]),
        GrantEndpoints("app", receive=["Sales"]),
        GrantLogs("app", read=True),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_an_operation_can_be_written_into_a_migration_again(operation: Operation) -> None:
    text, imports = OperationWriter(operation, indentation=0).serialize()

    written: dict[str, Any] = {}
    exec("\n".join([*imports, f"operation = {text.removesuffix(',')}"]), written)  # noqa: S102 - as Django would
    assert written["operation"].deconstruct() == operation.deconstruct()
