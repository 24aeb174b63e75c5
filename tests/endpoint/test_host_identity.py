"""Identity of an endpoint's host: id and name, by which ServicePulse groups what it sends and fails."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header
from rowbus.running.host import this_host
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.transport import eventually, in_default_mode
from tests.fixtures.every import every

if TYPE_CHECKING:
    from typing import Unpack

    from tests.conformance.settings import Settings

HOST_ID = "0696488B-A526-B5EA-D0A4-FD9BB712DDBD"
DIGITS = "0696488ba526b5ead0a4fd9bb712ddbd"


async def failed(endpoints: Endpoints, name: str, **settings: Unpack[Settings]) -> dict[str, str | None]:
    """Have an endpoint fail a message it sent itself, and return the headers of the copy in the error queue."""
    error_queue = f"{ERROR}{name}"
    settings["error_queue"] = error_queue
    endpoint = endpoints.make(name, recoverability=NO_RETRIES, **settings)

    @endpoint.handler
    async def place_order(order: PlaceOrder) -> None:
        raise ValueError(order.order_id)

    async def is_there() -> bool:
        return await endpoints.backend.count(error_queue) == 1

    async with endpoint:
        await endpoint.send(name, PlaceOrder("42"))
        await eventually(is_there)
    (row,) = await endpoints.backend.rows(error_queue)
    return row.headers


@in_default_mode
@pytest.mark.one_version
async def test_the_host_id_and_display_name_of_the_settings_are_sent_and_failed_with(
    endpoints: Endpoints,
) -> None:
    headers = await failed(
        endpoints, "Sales", host_id=HOST_ID, host_display_name="sales-1", host_name="rack-1"
    )

    assert headers[Header.ORIGINATING_HOST_ID] == headers[Header.HOST_ID] == DIGITS
    assert headers[Header.HOST_DISPLAY_NAME] == "sales-1"
    assert headers[Header.PROCESSING_MACHINE] == headers[Header.ORIGINATING_MACHINE] == "rack-1"


@in_default_mode
@pytest.mark.one_version
async def test_two_endpoints_of_one_process_have_their_own_hosts(endpoints: Endpoints) -> None:
    sales, billing = await failed(endpoints, "Sales"), await failed(endpoints, "Billing")

    assert sales[Header.HOST_ID] == sales[Header.ORIGINATING_HOST_ID]
    assert sales[Header.HOST_ID] != billing[Header.HOST_ID]
    assert sales[Header.HOST_DISPLAY_NAME] == billing[Header.HOST_DISPLAY_NAME] == socket.gethostname()


def test_with_a_display_name_the_host_id_is_the_same_in_every_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = this_host("Sales", display_name="sales-1")
    monkeypatch.setattr(socket, "gethostname", lambda: "5f0c9a")
    monkeypatch.setattr("sys.argv", ["/elsewhere/rowbus"])
    there = this_host("Sales", display_name="sales-1")

    assert there.id == here.id
    assert there.machine != here.machine
    assert this_host("Sales", display_name="sales-2").id != here.id


@every(
    "wrong",
    [{"host_id": "sales-1"}, {"host_display_name": " "}, {"host_name": "a\0b"}, {"host_name": "x" * 451}],
)
def test_a_host_that_cannot_be_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        rowbus.EndpointSettings(**wrong)  # type: ignore[arg-type]  # texts all
