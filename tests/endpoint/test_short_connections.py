"""Connections are short: what is called inside of a receive uses the message's own, and nothing waits for another."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import rowbus
from rowbus.running import backoff
from tests.conformance.backend import Backend
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import RECEIVE_ONLY, eventually, in_transaction_modes

pytestmark = pytest.mark.only("PostgreSQL", reason="it limits the connections of a role")

MESSAGES = 50
ORDER_PLACED = "Shop.Messages.OrderPlaced"


@pytest.fixture
async def limited(endpoints: Endpoints) -> AsyncIterator[tuple[Backend, str]]:
    """Give the backend and the name of a role that owns its database and has as many connections as a test says."""
    backend, name = endpoints.backend, f"rowbus_{os.urandom(6).hex()}"
    role = sql.Identifier(name)
    await backend.connection.execute(sql.SQL("create role {} login in role pg_monitor").format(role))
    await backend.connection.execute(sql.SQL("grant all on schema public to {}").format(role))
    yield backend, name
    await endpoints.stop_all()
    await backend.connection.execute(sql.SQL("drop owned by {0}; drop role {0}").format(role))


async def limit(backend: Backend, role: str, connections: int) -> None:
    await backend.connection.execute(
        sql.SQL("alter role {} connection limit {}").format(sql.Identifier(role), sql.Literal(connections))
    )


def of_role(backend: Backend, role: str) -> str:
    return make_conninfo(backend.dsn, user=role)


@in_transaction_modes
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_publishing_in_a_handler_needs_no_second_connection(
    endpoints: Endpoints, limited: tuple[Backend, str], kind: str
) -> None:
    backend, role = limited
    endpoint = endpoints.make(
        "Sales",
        database=of_role(backend, role),
        concurrency=1,
        subscription_cache=timedelta(0),
        delayed_delivery=None,
        recoverability=rowbus.Recoverability(immediate=0, delayed=0),
    )

    async def publish(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.publish({"order_id": message.order_id}, type=ORDER_PLACED)

    def publish_in_thread(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.publish({"order_id": message.order_id}, type=ORDER_PLACED)

    endpoint.handler(publish if kind == "async" else publish_in_thread)
    await endpoint.install()
    await backend.create_queue("Billing")
    for grant in ('insert on public."Billing"', "usage on all sequences in schema public"):
        await backend.connection.execute(f'grant {grant} to "{role}"')
    await backend.subscribe("Billing", ORDER_PLACED)
    await limit(
        backend, role, 2 if endpoints.case.mode is not RECEIVE_ONLY.mode else 3
    )  # the slot's, the pump's

    await backend.client().send_many("Sales", (PlaceOrder(str(n)) for n in range(MESSAGES)))
    async with endpoint:
        await eventually(lambda: emptied(backend))

    assert await backend.count(ERROR) == 0
    assert await backend.count("Billing") == MESSAGES


@pytest.mark.slow
async def test_an_immediate_send_without_a_connection_is_an_outage_and_counts_against_no_message(
    endpoints: Endpoints, limited: tuple[Backend, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", 0.02)
    backend, role = limited
    refused = list[Exception]()
    endpoint = endpoints.make(
        "Sales",
        database=of_role(backend, role),
        concurrency=1,
        delayed_delivery=None,
        recoverability=rowbus.Recoverability(immediate=0, delayed=0),
    )

    @endpoint.handler
    async def send_on(message: PlaceOrder, context: rowbus.Context) -> None:
        try:
            await context.send("Sales", {"n": 1}, type="Other", immediate=True)
        except Exception as error:
            refused.append(error)
            raise

    @endpoint.handler("Other")
    async def other(_message: dict[str, int]) -> None: ...

    await endpoint.install()
    await limit(backend, role, 2)
    await backend.client().send("Sales", PlaceOrder("1"))
    async with endpoint:
        await eventually(lambda: bool(refused))  # once: who has the second connection next is chance
        await limit(backend, role, 3)
        await eventually(lambda: emptied(backend))

    assert await backend.count(ERROR) == 0


async def emptied(backend: Backend) -> bool:
    return await backend.count("Sales") == 0
