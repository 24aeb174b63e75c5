"""The audit queue, and the acknowledgement that ServiceControl wants of a message it had retried."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

import rowbus
from rowbus.endpoint.steps.audit import audit_copy, retry_acknowledgement
from rowbus.messages.headers import Header, Identity, encode_copied_headers
from rowbus.messages.timestamps import parse_timestamp
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.golden import Golden
from tests.conformance.on_postgresql import queue
from tests.conformance.transport import (
    RECEIVE_ONLY,
    SENDS_ATOMIC,
    SimulatedError,
    eventually,
    in_all_modes,
    in_all_modes_failing,
)
from tests.fixtures.every import every

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from rowbus.messages.message import OutgoingMessage
    from tests.conformance.settings import Settings

AUDIT, SERVICE_CONTROL = "audit", "Particular.ServiceControl"
SALES = queue("Sales")  # for what touches no database
BODY = b'{ "order_id" : "1" }'  # not as we would write it
HANDLING = 0.01  # seconds
IDENTITY = Identity("Sales", "machine", "0" * 32)
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
UNIQUE = "9a0364b9-99bb-30e2-b7b6-5e0f3d1c2b4a"
RETRIED = {
    Header.RETRY_UNIQUE_MESSAGE_ID: UNIQUE,
}


def audited(endpoints: Endpoints, **settings: Unpack[Settings]) -> rowbus.Endpoint:
    """Make an endpoint with an audit queue, whose handler changes the headers and sends."""
    chosen: Settings = {"audit_queue": "audit"}
    chosen.update(settings)
    sales = endpoints.make("Sales", **chosen)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        context.headers["Shop"] = "changed by the handler"
        await asyncio.sleep(HANDLING)
        if message.order_id == "bad":
            raise SimulatedError
        if message.order_id == "fails at the commit":
            await endpoints.backend.fail_at_commit(context.connection)

    return sales


async def insert(endpoints: Endpoints, body: bytes = BODY, more: Mapping[str, str] | None = None) -> str:
    headers = {Header.ENCLOSED_MESSAGE_TYPES: "Shop.Messages.PlaceOrder", "Shop": "Kraków", **(more or {})}
    if more is not None and Header.RETRY_UNIQUE_MESSAGE_ID in more:
        headers[Header.RETRY_ACKNOWLEDGEMENT_QUEUE] = str(endpoints.queue(SERVICE_CONTROL))
    return await endpoints.backend.insert("Sales", encode_copied_headers(headers), body, expires_in=3600)


async def wait_until_processed(endpoints: Endpoints) -> None:
    async def empty() -> bool:
        return await endpoints.backend.count("Sales") == 0

    await eventually(empty)


def copy_of(headers: Mapping[str, str | None]) -> OutgoingMessage:
    return audit_copy(headers, b"", received_from=SALES, identity=IDENTITY, started=NOW, ended=NOW)


@pytest.fixture
async def service_control(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue(SERVICE_CONTROL)


# --------------------------------------------------------------------------------------------------------- audit copies


@pytest.mark.one_version
async def test_a_malformed_time_sent_is_under_another_name_in_the_audit_copy(endpoints: Endpoints) -> None:
    sales = audited(endpoints)
    await sales.install()

    async with sales:
        await insert(endpoints, more={Header.TIME_SENT: "2026-04-29T21:56:55Z"})
        await wait_until_processed(endpoints)
        await sales.stop()

    (copy,) = await endpoints.backend.rows(AUDIT)
    assert Header.TIME_SENT not in copy.headers
    assert copy.headers["Rowbus.Malformed.NServiceBus.TimeSent"] == "2026-04-29T21:56:55Z"


@in_all_modes
async def test_a_processed_message_is_audited_with_its_body_and_its_headers_as_the_handler_left_them(
    endpoints: Endpoints,
) -> None:
    sales = audited(endpoints)
    await sales.install()
    before = datetime.now(UTC)

    async with sales:
        await insert(endpoints, more={Header.MESSAGE_ID: "1"})
        await wait_until_processed(endpoints)
        await sales.stop()

    (copy,) = await endpoints.backend.rows(AUDIT)
    headers = dict(copy.headers)
    started, ended = (
        parse_timestamp(headers.pop(name) or "")
        for name in (Header.PROCESSING_STARTED, Header.PROCESSING_ENDED)
    )
    assert before <= started <= ended <= datetime.now(UTC)
    assert (ended - started).total_seconds() >= HANDLING
    assert copy.body == BODY
    assert headers.pop(Header.PROCESSING_ENDPOINT) == "Sales"
    assert headers.pop(Header.PROCESSING_MACHINE) == headers.pop(Header.HOST_DISPLAY_NAME)
    assert len(headers.pop(Header.HOST_ID) or "") == 32
    assert headers == {
        Header.MESSAGE_ID: "1",
        Header.ENCLOSED_MESSAGE_TYPES: "Shop.Messages.PlaceOrder",
        "Shop": "changed by the handler",
    }


@in_all_modes
async def test_an_audit_copy_ignores_the_messages_time_to_be_received(endpoints: Endpoints) -> None:
    sales = audited(endpoints)
    await sales.install()

    async with sales:
        await insert(endpoints)
        await wait_until_processed(endpoints)
        await sales.stop()

    (copy,) = await endpoints.backend.rows(AUDIT)
    assert copy.expires_in is None


@pytest.mark.one_version
async def test_audit_copies_may_have_a_time_to_be_received_of_their_own(endpoints: Endpoints) -> None:
    sales = audited(endpoints, audit_time_to_be_received=timedelta(minutes=5))
    await sales.install()

    async with sales:
        await insert(endpoints)
        await wait_until_processed(endpoints)
        await sales.stop()

    (copy,) = await endpoints.backend.rows(AUDIT)
    assert copy.expires_in is not None
    assert 290 < copy.expires_in <= 300


@in_all_modes_failing
async def test_a_message_that_fails_is_not_audited(endpoints: Endpoints) -> None:
    sales = audited(endpoints)
    await sales.install()

    async with sales:
        await insert(endpoints, b'{"order_id":"bad"}')
        await wait_until_processed(endpoints)
        await sales.stop()

    assert await endpoints.backend.count(ERROR) == 1
    assert await endpoints.backend.count(AUDIT) == 0


@pytest.mark.one_version
async def test_a_message_whose_commit_fails_is_not_audited(endpoints: Endpoints) -> None:
    await endpoints.backend.create_business_tables()
    sales = audited(endpoints)
    await sales.install()

    async with sales:
        await insert(endpoints, b'{"order_id":"fails at the commit"}')
        await wait_until_processed(endpoints)
        await sales.stop()

    assert await endpoints.backend.count(ERROR) == 1
    assert await endpoints.backend.count(AUDIT) == 0


@pytest.mark.one_version
async def test_a_control_message_and_one_without_an_id_are_audited_too(endpoints: Endpoints) -> None:
    sales = audited(endpoints)
    await sales.install()

    async with sales:
        row_id = await insert(endpoints, b"", {Header.CONTROL_MESSAGE: "True"})
        await wait_until_processed(endpoints)
        await sales.stop()

    (copy,) = await endpoints.backend.rows(AUDIT)
    assert copy.body == b""
    assert copy.headers[Header.MESSAGE_ID] == row_id


@pytest.mark.one_version
async def test_without_an_audit_queue_nothing_is_audited(endpoints: Endpoints) -> None:
    sales = audited(endpoints, audit_queue=None)

    async with sales:
        await insert(endpoints)
        await wait_until_processed(endpoints)

    assert "audit" not in await endpoints.backend.tables()


@pytest.mark.one_version
async def test_with_a_batch_each_message_is_audited(endpoints: Endpoints) -> None:
    sales = audited(endpoints, batch_size=10, concurrency=1)
    await sales.install()
    for number in range(25):
        await insert(endpoints, b'{"order_id":"1"}', {Header.MESSAGE_ID: str(number)})

    async with sales:
        await wait_until_processed(endpoints)
        await sales.stop()

    copies = await endpoints.backend.rows(AUDIT)
    assert sorted(int(copy.headers[Header.MESSAGE_ID] or "") for copy in copies) == list(range(25))


def test_facts_of_an_earlier_processing_give_way_to_those_of_this_one() -> None:
    before = {Header.PROCESSING_ENDPOINT: "Billing", Header.PROCESSING_ENDED: "long ago", "Shop": "Kraków"}

    copy = copy_of(before)

    assert copy.headers[Header.PROCESSING_ENDPOINT] == "Sales"
    assert copy.headers[Header.PROCESSING_ENDED] == "2026-05-01 12:00:00:000000 Z"
    assert copy.headers["Shop"] == "Kraków"
    assert Header.RETRY_ACKNOWLEDGEMENT_SENT not in copy.headers


# ----------------------------------------------------------------------------------------------------- acknowledgements


@in_all_modes
@pytest.mark.usefixtures("service_control")
@pytest.mark.parametrize("control", [False, True], ids=["normal message", "control message"])
async def test_a_retried_message_is_acknowledged_once_it_is_processed(
    endpoints: Endpoints, *, control: bool
) -> None:
    sales = audited(endpoints)
    await sales.install()

    async with sales:
        await insert(
            endpoints,
            b"" if control else BODY,
            RETRIED | ({Header.CONTROL_MESSAGE: "True"} if control else {}),
        )
        await wait_until_processed(endpoints)
        await sales.stop()

    (acknowledgement,) = await endpoints.backend.rows(SERVICE_CONTROL)
    assert acknowledgement.body == b""
    assert acknowledgement.headers[Header.RETRY_UNIQUE_MESSAGE_ID] == UNIQUE
    assert acknowledgement.headers[Header.CONTROL_MESSAGE] == "True"
    parse_timestamp(acknowledgement.headers[Header.RETRY_SUCCESSFUL] or "")
    (copy,) = await endpoints.backend.rows(AUDIT)
    assert copy.headers[Header.RETRY_ACKNOWLEDGEMENT_SENT] == "true"


@pytest.mark.one_version
@pytest.mark.usefixtures("service_control")
async def test_an_acknowledgement_needs_no_audit_queue(endpoints: Endpoints) -> None:
    sales = audited(endpoints, audit_queue=None)
    await sales.install()
    golden = Golden.read("servicecontrol_retry", endpoints.backend)

    async with sales:
        await endpoints.backend.insert("Sales", golden.headers_text, b"")
        await wait_until_processed(endpoints)
        await sales.stop()

    (acknowledgement,) = await endpoints.backend.rows(SERVICE_CONTROL)
    expected = golden.expected_headers[Header.RETRY_UNIQUE_MESSAGE_ID]
    assert acknowledgement.headers[Header.RETRY_UNIQUE_MESSAGE_ID] == expected


@pytest.mark.parametrize("case", [RECEIVE_ONLY, SENDS_ATOMIC], ids=str)
@pytest.mark.one_version
@pytest.mark.usefixtures("service_control")
async def test_a_retried_message_that_fails_again_is_not_acknowledged(endpoints: Endpoints) -> None:
    sales = audited(endpoints)
    await sales.install()

    async with sales:
        await insert(endpoints, b'{"order_id":"bad"}', RETRIED)
        await wait_until_processed(endpoints)
        await sales.stop()

    assert await endpoints.backend.count(ERROR) == 1
    assert await endpoints.backend.count(SERVICE_CONTROL) == 0


@every(
    "headers",
    [
        {},
        {Header.RETRY_UNIQUE_MESSAGE_ID: UNIQUE},
        {Header.RETRY_ACKNOWLEDGEMENT_QUEUE: '"public"."Particular.ServiceControl"'},
        {Header.RETRY_UNIQUE_MESSAGE_ID: UNIQUE, Header.RETRY_ACKNOWLEDGEMENT_QUEUE: None},
        {Header.RETRY_UNIQUE_MESSAGE_ID: UNIQUE, Header.RETRY_ACKNOWLEDGEMENT_QUEUE: '""'},
        {Header.RETRY_UNIQUE_MESSAGE_ID: UNIQUE[:-1], Header.RETRY_ACKNOWLEDGEMENT_QUEUE: '"error"'},
    ],
)
def test_who_does_not_properly_ask_for_an_acknowledgement_gets_none(headers: dict[str, Any]) -> None:
    asked = cast("dict[str, str | None]", headers)

    assert retry_acknowledgement(asked, received_from=SALES, now=NOW) is None
    copy = copy_of(asked)
    assert Header.RETRY_ACKNOWLEDGEMENT_SENT not in copy.headers
