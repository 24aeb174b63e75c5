"""The plans that a queue is read by: its indexes alone, however little the planner knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from psycopg import sql

from rowbus.database.postgresql.connection import Session
from rowbus.database.statements import Statement
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.fixtures.sessions import run

DEEP = 20_000
HISTORIES = {
    "never analysed": (),
    "analysed when empty": ("analyze",),
    "vacuumed when empty": ("vacuum analyze",),
}
FILL = """
insert into {} (id, headers, body) select gen_random_uuid(), repeat('h', 200), '' from generate_series(1, {})
"""


NOT_OF_TABLES = {"CTE Scan", "Function Scan", "Subquery Scan"}


def scans(plan: dict[str, Any]) -> set[tuple[str, str]]:
    """Give how each table is read, as (node, index), and every sort."""
    node = plan["Node Type"]
    here = {(node, plan.get("Index Name", ""))} if "Scan" in node or "Sort" in node else set()
    return here.union(*(scans(child) for child in plan.get("Plans", ()))) - {
        (skip, "") for skip in NOT_OF_TABLES
    }


def explained(
    session: Session, statement: str, parameters: Mapping[str, object] | None = None
) -> set[tuple[str, str]]:
    query = f"explain (format json) {statement}"
    ((plan,),) = session.connection.execute(query, parameters).fetchall()
    return scans(plan[0]["Plan"])


def statements_that_look_from_the_head(queue: QueueTable, lower_bound: int) -> list[Statement[Any]]:
    return [
        queue.receive(1, lower_bound),
        queue.receive(100, lower_bound),
        queue.count_available(1, lower_bound),
        queue.count_available(100, lower_bound),
        queue.peek(100),
    ]


def prepare_while_empty(session: Session, queue: QueueTable) -> list[str]:
    """Have the server settle on plans while there is nothing in the queue, as for an endpoint that starts idle."""
    executions: list[str] = []
    for number, statement in enumerate(statements_that_look_from_the_head(queue, FROM_THE_START)):
        values = ", ".join(
            sql.Literal(statement.parameters[name]).as_string() for name in statement.query.names
        )
        run(session, f"prepare plan_{number} as {statement.query.native.decode()}")
        executions.append(f"execute plan_{number} ({values})")
        for _ in range(10):
            run(session, executions[-1])
    return executions


def deep_queue(session: Session, history: str) -> QueueTable:
    queue = QueueTable(QueueAddress("public", "Deep"))
    session.run_all(queue.create())
    run(session, 'alter table "Deep" set (autovacuum_enabled = false)')
    for command in HISTORIES[history]:
        run(session, f'{command} "Deep"')
    return queue


def is_read_by_its_indexes(plan: set[tuple[str, str]]) -> bool:
    by_position = ("Index Scan", "Deep_seq_key")
    by_id = {("Index Scan", "Deep_pkey"), ("Bitmap Heap Scan", ""), ("Bitmap Index Scan", "Deep_pkey")}
    by_place = {("Tid Scan", "")}
    return by_position in plan and plan <= {by_position} | by_id | by_place


@pytest.mark.parametrize("history", HISTORIES)
def test_a_deep_queue_is_read_by_its_indexes_alone_whatever_the_planner_knows_of_it(
    session: Session, history: str
) -> None:
    queue = deep_queue(session, history)
    run(session, FILL.format('"Deep"', DEEP))

    for lower_bound in (FROM_THE_START, 0, DEEP - 1000):
        for statement in statements_that_look_from_the_head(queue, lower_bound):
            plan = explained(session, statement.query.text.decode(), statement.parameters)
            assert is_read_by_its_indexes(plan), (statement.query.text, plan)


def test_plans_kept_since_a_new_queue_was_empty_do_when_it_is_deep(session: Session) -> None:
    queue = deep_queue(session, "never analysed")
    prepared = prepare_while_empty(session, queue)
    run(session, FILL.format('"Deep"', DEEP))

    for execution in prepared:
        assert is_read_by_its_indexes(explained(session, execution)), execution
