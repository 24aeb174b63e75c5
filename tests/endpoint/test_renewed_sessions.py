"""On SQL Server a session in which a handler changed something that outlives its transaction has no second message."""

from __future__ import annotations

import pytest

import rowbus
from rowbus.database.sqlserver.transactions import changes_session
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import eventually
from tests.fixtures.every import every


@pytest.mark.only("SQL Server", reason="PostgreSQL's sessions are put in order instead")
@pytest.mark.parametrize("batch_size", [1, 10])
async def test_what_a_handler_sets_for_its_session_is_there_for_no_other_message(
    endpoints: Endpoints, batch_size: int
) -> None:
    seen = list[int]()
    sales = endpoints.make("Sales", concurrency=1, batch_size=batch_size)

    @sales.handler
    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        seen.extend(context.connection.execute("select @@options").fetchone() or ())
        if message.order_id == "sets":
            context.connection.execute("set xact_abort on")

    await sales.install()
    await endpoints.backend.client().send_many("Sales", map(PlaceOrder, ["sets", "looks", "sets", "looks"]))
    async with sales:
        await eventually(lambda: len(seen) >= 4)
    assert len(set(seen)) == 1


@every(
    "operation, changes",
    [
        ("set rowcount 5", True),
        ("update t set language = 'x', noted = 1", False),
        ("update t set name = 'x'", False),
        ("USE other", True),
        ("execute as login = 'x'", True),
        ("exec sp_getapplock 'x', 'Exclusive', 'Session'", True),
        ("select 1 as n into #n", True),
        ("declare @n int; set @n = 5", False),
    ],
)
def test_a_batch_says_whether_it_changes_its_session(operation: str, *, changes: bool) -> None:
    assert changes_session(operation) is changes
