"""A peek that is taken and never answered is an outage that ends, no wait for ever."""

from __future__ import annotations

import pytest

from rowbus import Context
from rowbus.transport.queues import lookout
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import eventually
from tests.database.test_answers import frozen

PEEKED = (
    "select pid from pg_stat_activity where datname = current_database() and query like '%from available%'"
    " and query not like '%pg_stat_activity%' and state = 'idle'"
)
"""Idle: a process that is frozen in a statement may be reading a page into memory, for which all others wait."""


@pytest.mark.only("PostgreSQL", reason="it freezes a session's process")
@pytest.mark.one_version
async def test_a_peek_that_is_never_answered_is_asked_again_on_another_session(
    backend: Backend, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "ANSWERED_WITHIN", 2.0)  # a new session on a busy machine takes 0.3
    sales, handled = endpoints.make("Sales", concurrency=1, delayed_delivery=None), list[str]()

    @sales.handler
    async def place_order(message: PlaceOrder, context: Context) -> None:
        handled.append(message.order_id)

    async with sales:
        pids = list[int]()

        async def has_peeked() -> bool:
            pids[:] = await backend.values(PEEKED)
            return bool(pids)

        await eventually(has_peeked)
        with frozen(pids[0]):
            await sales.send("Sales", PlaceOrder("1"))
            await eventually(lambda: handled == ["1"])
