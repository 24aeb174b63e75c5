"""A SQL Server store behind a lock: the server gives up what waits, and that is an outage."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import rowbus
from rowbus import DelayedMessage, TransactionMode
from rowbus.transport.delayed_store.decisions import is_outage
from tests.conformance.backend import Backend

pytestmark = [
    pytest.mark.only("SQL Server", reason="PostgreSQL's limits can be set shorter, in test_outages"),
    pytest.mark.slow,  # the limit of ten seconds is a literal of T-SQL's
]

PATIENCE = 25.0  # seconds: less than the store's calls may take


async def test_what_waits_for_a_lock_for_ten_seconds_is_given_up_by_the_server(backend: Backend) -> None:
    store = rowbus.SqlServerDelayedMessageStore(backend.dsn, schema=backend.schema)
    await store.initialize("Sales", TransactionMode.NONE)
    await store.setup_infrastructure()
    now = datetime.now(UTC)
    message = DelayedMessage(message_id="1", destination="Billing", time=now, headers=b"{}")
    await store.store(message)

    async with store.transaction() as holding:
        assert await holding.remove(message)
        with pytest.raises(rowbus.StorageError) as raised:
            async with asyncio.timeout(PATIENCE):
                await store.remove(message)
    await store.close()

    assert is_outage(raised.value)
