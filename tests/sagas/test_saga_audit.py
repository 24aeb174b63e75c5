"""A saga in ServicePulse: each change is told, with what was sent, and the audit copy names the saga."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR
from tests.conformance.transport import eventually
from tests.sagas.shop import CancelOrder, OrderSaga, PlaceOrder

if TYPE_CHECKING:
    from tests.conformance.backend import Backend, StoredRow
    from tests.conformance.endpoints import Endpoints

AUDIT = "audit"
UPDATED = "ServiceControl.EndpointPlugin.Messages.SagaState.SagaUpdatedMessage"


class QuickSaga(OrderSaga, name="Shop.Sagas.OrderSaga", correlation="order_id"):
    """The same process, whose customers pay at once or not at all."""

    overdue_after = timedelta(milliseconds=1)


def platform(backend: Backend) -> dict[str, Any]:
    return {"SagaAudit": {"Enabled": True, "SagaAuditQueue": backend.queue(AUDIT).canonical}}


async def audited(backend: Backend, count: int) -> list[StoredRow]:
    async def there() -> bool:
        return await backend.count(AUDIT) >= count

    await eventually(there)
    return await backend.rows(AUDIT)


async def test_each_change_of_a_saga_is_told_and_named_in_the_audit_copy(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales", audit_queue=AUDIT, service_platform=platform(backend))
    sales.add(QuickSaga)

    async with sales:
        message_id = await sales.send("Sales", PlaceOrder("1"))
        rows = await audited(backend, 4)

    told = [
        json.loads(row.body or b"") for row in rows if row.headers[Header.ENCLOSED_MESSAGE_TYPES] == UPDATED
    ]
    copies = [row.headers for row in rows if row.headers[Header.ENCLOSED_MESSAGE_TYPES] != UPDATED]
    (began, ended), saga = told, told[0]["SagaId"]
    (timeout,) = began["ResultingMessages"]
    assert (began["IsNew"], began["IsCompleted"]) == (True, False)
    assert (ended["IsNew"], ended["IsCompleted"], ended["SagaId"]) == (False, True, saga)
    assert began["Initiator"]["InitiatingMessageId"] == message_id
    state = json.loads(began["SagaState"])
    assert (state["order_id"], state["Id"], state["OriginalMessageId"]) == ("1", saga, message_id)
    assert timeout["MessageType"] == "Shop.PaymentOverdue"
    assert (timeout["DeliveryAt"] is not None, timeout["DeliveryDelay"]) == (
        True,
        None,
    )  # its instant is settled
    assert ended["Initiator"]["InitiatingMessageId"] == timeout["ResultingMessageId"]
    assert ended["Initiator"]["IsSagaTimeoutMessage"]
    assert [one["NServiceBus.InvokedSagas"] for one in copies] == [f"Shop.Sagas.OrderSaga:{saga}"] * 2
    assert [one["ServiceControl.SagaStateChange"] for one in copies] == [f"{saga}:New", f"{saga}:Completed"]


async def test_a_failed_attempt_tells_nothing(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales", service_platform=platform(backend))
    sales.add(OrderSaga)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await audited(backend, 1)
        await sales.send("Sales", CancelOrder("1"))

        async def failed() -> bool:
            return await backend.count(ERROR) == 1

        await eventually(failed)
    (row,) = await backend.rows(AUDIT)
    (failure,) = await backend.rows(ERROR)
    assert json.loads(row.body or b"")["IsNew"]
    assert "ServiceControl.SagaStateChange" not in failure.headers


async def test_without_the_part_nothing_is_told(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales", audit_queue=AUDIT)
    sales.add(OrderSaga)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        (copy,) = await audited(backend, 1)
    assert "NServiceBus.InvokedSagas" not in copy.headers
