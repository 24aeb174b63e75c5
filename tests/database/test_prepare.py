"""Every .sql file: PostgreSQL accepts it, psql runs it as it is, its header says what it does, and code loads it."""

from __future__ import annotations

import re
import secrets
import subprocess
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from rowbus.bench.statements import create_orders, create_schema
from rowbus.database.embedded import find_binaries
from rowbus.database.postgresql.connection import Session
from rowbus.database.statements import load
from rowbus.messages.address import QueueAddress
from rowbus.sagas.history.postgresql import HistoryTable
from rowbus.sagas.nservicebus.postgresql import SagaTable as SharedSagaTable
from rowbus.sagas.nservicebus.table import Correlation
from rowbus.sagas.postgresql import SagaTable
from rowbus.transport.claims.postgresql import ClaimedValues
from rowbus.transport.deduplication.postgresql import InboxTable
from rowbus.transport.delayed.postgresql import DelayedTable
from rowbus.transport.delayed_store.postgresql import DelayedStoreTable
from rowbus.transport.history.postgresql import HistoryTable as PastTable
from rowbus.transport.limits.postgresql import LimitTable
from rowbus.transport.long_work.postgresql import LongWorkTable
from rowbus.transport.operations.discarded.postgresql import DiscardedTable
from rowbus.transport.operations.postgresql import OperationsTable
from rowbus.transport.pauses.postgresql import PausesTable
from rowbus.transport.published_contracts.postgresql import PublishedContractsTable
from rowbus.transport.pubsub.postgresql import SubscriptionRouting
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.recurring.postgresql import RecurringTable
from rowbus.transport.uniqueness.postgresql import UniqueTable
from tests.fixtures.every import every
from tests.fixtures.sql_files import (
    LOG,
    PACKAGE,
    SPARK,
    SQL,
    body_of,
    can_be_prepared,
    files_for,
    is_loaded,
    text_of,
)

# The event log's, Spark's and those for users' tests need their schemas, or make them: tests/log/test_log_files.py,
# tests/spark/test_files.py, tests/testing/test_running.py.
FILES = files_for("postgresql", but=(LOG, SPARK, PACKAGE / "transport" / "events", PACKAGE / "testing"))

ORDERS = QueueAddress("public", "orders")
STORE = QueueAddress("public", "orders.delayed")
DELAYED = QueueAddress("public", "orders.Delayed")
ROUTING = QueueAddress("public", "SubscriptionRouting")
SAGA = QueueAddress("public", "orders.OrderSaga")
SHARED = QueueAddress("public", "orders_OrderSaga")
HISTORY = QueueAddress("public", "orders.OrderSaga.History")
RECURRING = QueueAddress("public", "orders.Recurring")
INBOX = QueueAddress("public", "orders.Inbox")
CLAIMED = QueueAddress("public", "ClaimedValues")
OUTBOX = "orders_OutboxData"
RUNNING = QueueAddress("public", "orders.Running")
LIMITS = QueueAddress("public", "orders.Limits")
UNIQUE = QueueAddress("public", "orders.Unique")
OPERATIONS = QueueAddress("public", "Rowbus.Operations")
DISCARDED = QueueAddress("public", "Rowbus.Discarded")
PAUSES = QueueAddress("public", "Rowbus.Pauses")
PAST = QueueAddress("public", "Rowbus.History")
CONTRACTS = QueueAddress("public", "Rowbus.Contracts")
IDENTIFIERS = {
    "schema": "public",
    "queue": "orders",
    "sequence": "orders_seq_seq",
    "channel": ORDERS.channel,
    "channels": f"{{{ORDERS.channel}}}",
    "role": "postgres",
    "to_schema": "public",
    "to_queue": "orders",
    "lane": "orders",
    "table": "SubscriptionRouting",
    "inbox": INBOX.table,
    "claimed": CLAIMED.table,
    "outbox": OUTBOX,
    "keep_until_index": "claimed_keep_until",
    "recurring": RECURRING.table,
    "limits": LIMITS.table,
    "claims": UNIQUE.table,
    "place": ORDERS.table,
    "running": RUNNING.table,
    "operations": OPERATIONS.table,
    "pauses": PAUSES.table,
    "past": PAST.table,
    "contracts": CONTRACTS.table,
    "discarded": DISCARDED.table,
    "operations_began": "operations_began",
    "saga": SAGA.table,
    "shared_saga": SHARED.table,
    "correlation_column": "Correlation_OrderId",
    "correlation_type": "varchar",
    "correlation_index": "orders__i_shared",
    "history": HISTORY.table,
    "history_key": "saga_history",
    "history_found": "saga_history_found",
    "history_completed": "saga_history_completed",
    "correlation_key": "saga_correlation",
    "accepted_index": "inbox_accepted",
    "store": STORE.table,
    "delayed": DELAYED.table,
    "due_index": "orders.Delayed_Due",
    "queue_schema": "public",
    "template": "template1",
    "database": f"rowbus_temporary_{secrets.token_hex(4)}",
}
VALUES = {
    "header": "Rowbus.Key",
    "lanes": "{16}",
    "all": "false",
    "keeps_expiry": "true",
    "members": "orders",
    "beats": "orders",
    "patience": "4 s",
    "pid": "0",
    "operator_cost": "10000",
    "order_id": "R1",
    "total": "9.5",
    "messages": "2",
    "queues": '{"\\"public\\".\\"orders\\""}',
    "lock_names": "{rowbus receiver}",
    "keys": "{R1,R2}",
    "numbers": "{1,2}",
    "fields": "{R1}",
    "intervals": "{0.1,1}",
    "bursts": "{1,10}",
    "waited": "{1,0}",
    "fresh": "{0,1}",
    "defers": "true",
    "longest": "3600",
    "seconds": "{0.1,1}",
    "expected": "2026-01-01 00:00:00+00",
    "following": "2026-01-01 00:00:01+00",
    "next_due": "2026-01-01 00:00:00+00",
    "sent": "2026-01-01 00:00:00+00",
    "moment": "0",
    "name": "orders.nightly",
    "count": "10",
    "process": "here/7",
    "lease": "00:00:15",
    "epoch": "1",
    "epochs": "{1}",
    "fraction": "0.5",
    "note": "page 12 of 30",
    "by": "alice",
    "kind": "recurring",
    "kinds": "{recurring}",
    "why": "a deploy",
    "amount": "3",
    "until": "2026-01-01 00:00:00+00",
    "schedule": "0 7 * * *",
    "quoted_id": '"00000000-0000-4000-8000-000000000000"',
    "concurrency": "1",
    "correlation": "R1",
    "id": "00000000-0000-4000-8000-000000000000",
    "key": "R1",
    "beginning": "R",
    "original_message_id": "00000000-0000-4000-8000-000000000000",
    "originator": '"public"."Customer"',
    "metadata": "{}",
    "state": "{}",
    "timeouts": "[]",
    "saga_id": "00000000-0000-4000-8000-000000000000",
    "number": "1",
    "message_type": "Shop.PlaceOrder",
    "before": "{}",
    "is_completed": "1",
    "keep_seconds": "2592000",
    "version": "1",
    "message_key": "00000000-0000-4000-8000-000000000000",
    "message_keys": "{00000000-0000-4000-8000-000000000000}",
    "older_than": "7 days",
    "value_id": "00000000-0000-4000-8000-000000000000",
    "part": "0",
    "parts": "1",
    "keep_for": "30 days",
    "content": r"\x7b7d",
    "ats": "{NULL,NULL}",
    "delay": "60",
    "delayed_name": str(DELAYED),
    "delays": "{60,60}",
    "idle_timeout": "10000",
    "tables": f"{{{ORDERS.table},{DELAYED.table}}}",
    "lower_bounds": "{0,NULL}",
    "ids": "{00000000-0000-4000-8000-000000000000}",
    "lock_timeout": "5000",
    "statement_timeout": "25000",
    "position": "1",
    "mark": "",
    "schema_name": "public",
    "schema_names": "{public}",
    "table_names": "{Sales}",
    "kept_table": "orders",
    "at": "2026-01-01 00:00:00+00",
    "after": "-2147483648",
    "after_due": "2026-01-01 00:00:00+00",
    "after_id": "00000000-0000-4000-8000-000000000000",
    "first": "2026-01-01 00:00:00+00",
    "last": "2026-01-01 00:00:00+00",
    "text": "Shop.PlaceOrder",
    "document": "{}",
    "batch_size": "10",
    "bodies": r'{"\\x00","\\x7b7d"}',
    "body": r"\x7b7d",
    "body_string_lock": str(ORDERS.body_string_lock),
    "headers": "{}",
    "lower_bound": "-2147483648",
    "lock_name": "rowbus mover",
    "members_lock": "rowbus members",
    "milliseconds": "200",
    "sequences": "{Orders_seq_seq}",
    "most": "10",
    "days": "7",
    "operation": "1",
    "most_bytes": "67108864",
    "most_characters": "1000",
    "most_read": "1000",
    "passed_over": "{1,2}",
    "schemas": "{public}",
    "beside_schema": "public",
    "beside_table": "Orders",
    "fails": "false",
    "in_transaction": "true",
    "in_data": "7",
    "in_cause": "7",
    "cause": '{"message_id": "7"}',
    "conversation_id": "7",
    "handler": "shop.place",
    "user": "ann",
    "request": "POST /orders",
    "value_ids": "{00000000-0000-4000-8000-000000000000}",
    "newest": "2147483647",
    "row_ids": "{00000000-0000-4000-8000-000000000000}",
    "positions": "{1,2}",
    "texts": "{R1}",
    "fragments": r'{"\\x5231"}',
    "looked_at": "1000",
    "overdue_by": "60",
    "column_names": "{id}",
    "column_types": "{pg_catalog.uuid}",
    "person": "alice",
    "queue_name": '"public"."orders"',
    "action": "retry",
    "subject": "a group",
    "meant": "1",
    "done": "1",
    "depths": "{1}",
    "durations": "{1}",
    "entered": "{1}",
    "failed": "{1}",
    "hours": "720",
    "lags": "{1}",
    "minutes": "60",
    "largest": "4194304",
    "points": "720",
    "privileges": "{select}",
    "taken": "{1}",
    "stayed": "0",
    "result": "",
    "row_id": "00000000-0000-4000-8000-000000000000",
    "value": "reminder-7",
    "within": "1 hour",
    "locked_values": "{reminder-7}",
    "endpoint": "Billing",
    "topics": "{Shop.Messages.OrderPlaced}",
    "queue_address": '"public"."Billing"',
    "message_id": "00000000-0000-4000-8000-000000000000",
    "destination": '"public"."Billing"',
    "time": "2026-01-01 00:00:00+00",
    "names": '{"\\"public\\".\\"orders\\""}',
    "notify": "true",
    "table_name": str(ROUTING),
    "time_to_be_received": "00:01:00",
    "times_to_be_received": "{NULL,00:01:00}",
}
LANES = "transport/lanes/sql/postgresql"
VALUES_OF = {
    "transport/queues/sql/postgresql/send_batch.sql": {
        "ids": "{00000000000040008000000000000001,00000000000040008000000000000002}",
        "headers": '{"{}","{}"}',
    },
    "transport/queues/catalog/sql/postgresql/refuse_foreign.sql": {"tables": "{pg_class}"},
    "transport/delayed/sql/postgresql/store_batch.sql": {"headers": '{"{}","{}"}'},
    "transport/delayed/sql/postgresql/move_with_headers.sql": {"headers": '{"{}"}'},
    "transport/delayed_store/sql/postgresql/store.sql": {"headers": r"\x7b7d"},
    f"{LANES}/join_members.sql": {"process": "7"},
    f"{LANES}/take_lane.sql": {"process": "7"},
    "transport/history/sql/postgresql/tell.sql": {"failed": "1"},
}

BENCH = "bench/sql/postgresql"
EMPTY, MEASURED = {"schema": "rowbus_bench_empty"}, {"schema": "rowbus_bench"}
IDENTIFIERS_OF = {
    f"{BENCH}/create_schema.sql": {"schema": "rowbus_bench_new"},
    f"{BENCH}/create_orders.sql": EMPTY,
    f"{BENCH}/insert_order.sql": MEASURED,
    f"{BENCH}/fill.sql": {"table": ORDERS.table},
    f"{BENCH}/fill_delayed.sql": {"table": DELAYED.table},
    f"{BENCH}/move_due.sql": {"table": DELAYED.table},
}
AFTER = {
    f"{LANES}/create_trigger.sql": [f"{LANES}/create_function.sql"],
    f"{LANES}/enable_trigger.sql": [f"{LANES}/create_function.sql", f"{LANES}/create_trigger.sql"],
    "transport/queues/sql/postgresql/hide_receiver.sql": [
        "transport/queues/sql/postgresql/show_receiver.sql"
    ],
    "transport/queues/sql/postgresql/keep.sql": ["transport/queues/sql/postgresql/name_kept.sql"],
}
"""Statements that come first: a lock given back must have been taken, and a block needs a setting."""

OUTSIDE_A_TRANSACTION = {
    f"{BENCH}/vacuum.sql": "select 1",
    "database/sql/postgresql/create_database.sql": 'drop database :"database"',
    "database/sql/postgresql/drop_database.sql": "select 1",
    "database/sql/postgresql/copy_database.sql": 'drop database :"database"',
}
EMPTY_BINARY_COPY = b"PGCOPY\n\xff\r\n\0" + b"\0" * 8 + b"\xff\xff"


def test_the_files_are_found() -> None:
    assert len(FILES) >= 20


@pytest.fixture
def with_queue(session: Session) -> Session:
    queue = QueueTable(ORDERS)
    for statement in (
        *queue.create(),
        *queue.create_notify_trigger(),
        *SubscriptionRouting(ROUTING).create(),
        *InboxTable(INBOX).create(),
        *ClaimedValues(CLAIMED).create(),
        *OperationsTable(OPERATIONS).create(),
        *PausesTable(PAUSES).create(),
        *PastTable(PAST).create(),
        *PublishedContractsTable(CONTRACTS).create(),
        *DiscardedTable(DISCARDED).create(),
        *SagaTable(SAGA).create(),
        *SharedSagaTable(SHARED, "OrderSaga", Correlation("OrderId", "text")).create(),
        *HistoryTable(HISTORY).create(),
        *RecurringTable(RECURRING).create(),
        *LimitTable(LIMITS).create(),
        *UniqueTable(UNIQUE).create(),
        *LongWorkTable(RUNNING).create(),
        *DelayedStoreTable(STORE).create(),
        *DelayedTable(DELAYED).create(),
        create_schema(EMPTY["schema"]),
        create_schema(MEASURED["schema"]),
        create_orders(MEASURED["schema"]),
    ):
        session.run(statement)
    session.connection.execute(
        f'create table "{OUTBOX}" ("MessageId" text, "Dispatched" boolean)'
    )  # as .NET's
    return session


def names_in(path: str) -> set[str]:
    """Name the values a file asks for; its identifiers and its text without comments are left aside."""
    return set(re.findall(r":'(\w+)'", body_of(path)))


@every("path", [*filter(can_be_prepared, FILES)])
def test_postgresql_prepares_it_with_a_type_for_every_value(with_queue: Session, path: str) -> None:
    literals = {"channel": ORDERS.channel} if "channel" in names_in(path) else {}
    query = load(path, identifiers=IDENTIFIERS | IDENTIFIERS_OF.get(path, {}), literals=literals)

    with_queue.connection.execute(f"prepare it as {query.native.decode()}")

    ((types,),) = with_queue.connection.execute(
        "select parameter_types::text[] from pg_prepared_statements where name = 'it'"
    ).fetchall()
    with_queue.connection.execute("deallocate it")
    assert len(types) == len(query.names)
    for name in query.names:
        uses = re.findall(rf":'{name}'(::\w+(?:\[\])?)?", body_of(path))
        assert all(uses), f"{name} has no cast, so its type depends on the driver"


def psql(dsn: str, *arguments: str, script: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run psql as a person would, with the values as its variables."""
    return subprocess.run(
        [find_binaries() / "psql", "--no-psqlrc", "--quiet", *arguments, dsn],
        input=script,
        env={"PGOPTIONS": "-c client_min_messages=warning"},
        capture_output=True,
        check=False,
        timeout=30,
    )


def values(path: str, database: str) -> dict[str, str]:
    found = {**IDENTIFIERS, **VALUES, **VALUES_OF.get(path, {}), **IDENTIFIERS_OF.get(path, {})}
    if path == f"{BENCH}/grant_create.sql":
        found["database"] = str(conninfo_to_dict(database)["dbname"])
    return found


def variables(path: str, database: str) -> list[str]:
    return [f"--set={name}={value}" for name, value in values(path, database).items()]


@every("path", FILES)
def test_all_that_psql_puts_in_is_said_above(path: str) -> None:
    missing = names_in(path) | set(re.findall(r':"(\w+)"', body_of(path)))

    assert not missing - {*IDENTIFIERS, *VALUES}, "say above what psql is to put in"


ALONE = [path for path in FILES if path in OUTSIDE_A_TRANSACTION or body_of(path).startswith("copy")]


@pytest.mark.one_version  # each server prepares it above; psql is one program
@every("path", ALONE)
def test_psql_runs_it_outside_a_transaction_or_with_rows_behind_it(
    with_queue: Session, database: str, path: str
) -> None:
    if path in OUTSIDE_A_TRANSACTION:
        script = f"{text_of(path)};\n{OUTSIDE_A_TRANSACTION[path]};".encode()
    else:
        script = f"begin;\n{text_of(path)};\n".encode() + EMPTY_BINARY_COPY
    done = psql(database, *variables(path, database), "--set=ON_ERROR_STOP=1", "-f", "-", script=script)

    assert done.returncode == 0, done.stderr.decode()
    assert not done.stderr


@pytest.mark.one_version
def test_psql_runs_files_as_they_are(with_queue: Session, database: str, tmp_path: Path) -> None:
    """One psql runs them all, each in a transaction, and goes on after errors, which name their file."""
    broken = tmp_path / "broken.sql"
    broken.write_text('select nothing from :"schema".:"queue"')
    files = [str(SQL / path) for path in FILES if path not in ALONE]

    done = psql(
        database, script="".join(in_a_transaction(path, database) for path in [*files, str(broken)]).encode()
    )

    told = done.stderr.decode().splitlines()
    assert [line for line in told if not line.startswith(("LINE", " "))] == [
        f'psql:{broken}:1: ERROR:  column "nothing" does not exist'
    ]


def in_a_transaction(file: str, database: str) -> str:
    """Write what psql does with a file, beginning with its variables."""
    path = file.removeprefix(f"{SQL}/")
    names = "".join(f"\\set {name} {quoted(value)}\n" for name, value in values(path, database).items())
    before = "".join(f"\\i {SQL / each}\n;\n" for each in AFTER.get(path, ()))
    return f"{names}begin;\n{before}\\i {file}\n;\nrollback;\n\\c\n"


def quoted(value: str) -> str:
    """Write a value as psql's own commands take it."""
    return "'" + value.replace("\\", r"\\").replace("'", "''") + "'"


@every("path", FILES)
def test_its_header_says_what_it_does_what_it_locks_and_what_it_returns(path: str) -> None:
    lines = text_of(path).splitlines()
    header = [line for line in lines if line.startswith("--")]

    assert lines[: len(header)] == header, "comments are at the top, where psql and people look"
    assert 2 <= len(header) <= 5
    said = " ".join(header).lower()
    assert re.search(r"\block(s|ing)?\b|waits", said)
    assert re.search(r"returns|row count", said)


@every("path", FILES)
def test_some_code_loads_it(path: str) -> None:
    assert is_loaded(Path(path).stem)


@every("path", FILES)
def test_it_is_lower_case_and_ends_without_a_semicolon_for_the_driver(path: str) -> None:
    body = body_of(path)

    assert not body.endswith(";")
    without_texts = re.sub(r"'[^']*'", "", body)  # the catalogue writes privileges in capitals
    assert not re.search(r"\b(SELECT|INSERT|DELETE|UPDATE|FROM|WHERE|CREATE|WITH)\b", without_texts)


@pytest.mark.one_version
def test_no_text_is_another_where_backslashes_escape() -> None:
    """A role or a database may have `standard_conforming_strings` off."""
    texts = re.compile(r"--.*|e'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'", re.IGNORECASE)
    doubtful = [
        (path, text)
        for path in files_for("postgresql")
        for text in texts.findall(text_of(path))
        if text.startswith("'") and "\\" in text
    ]
    assert doubtful == []


@pytest.mark.one_version
def test_the_database_is_named_for_psql(database: str) -> None:
    name = psql(database, "-At", "-c", "select current_database()").stdout.decode().strip()

    assert name == conninfo_to_dict(database)["dbname"]
