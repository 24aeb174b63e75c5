"""Where replies go: to any instance, to the one that asked, or to whom the sender names."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, NO_RETRIES, OrderAccepted, PlaceOrder
from tests.conformance.transport import SimulatedError, eventually, in_all_modes, within

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints

pytestmark = [
    pytest.mark.one_version,
]


@rowbus.command("Shop.Messages.StartOrder")
@dataclass
class StartOrder:
    order_id: str
    reply_to: str = ""


def asking(endpoint: rowbus.Endpoint) -> None:
    """Have an endpoint place an order, with replies to its own instance or to whom the message says."""

    @endpoint.handler
    async def start(message: StartOrder, context: rowbus.Context) -> None:
        reply_to = message.reply_to or context.instance_address
        await context.send("Sales", PlaceOrder(message.order_id), reply_to=reply_to)


def accepting(endpoint: rowbus.Endpoint) -> rowbus.Endpoint:
    @endpoint.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(OrderAccepted(message.order_id))

    return endpoint


def noting(endpoint: rowbus.Endpoint) -> asyncio.Queue[str]:
    got: asyncio.Queue[str] = asyncio.Queue()

    @endpoint.handler
    async def accepted(message: OrderAccepted) -> None:
        await got.put(message.order_id)

    return got


@in_all_modes
async def test_a_handler_has_its_replies_come_to_its_own_instance(endpoints: Endpoints) -> None:
    first, second = (endpoints.make("Web", discriminator=name, concurrency=1) for name in ("1", "2"))
    replies = [noting(endpoint) for endpoint in (first, second)]
    for endpoint in (first, second):
        asking(endpoint)

    async with first, second, accepting(endpoints.make("Sales")) as sales:
        for number, instance in enumerate((first, second)):
            assert instance.instance_address is not None
            for _ in range(5):
                await sales.send(instance.instance_address, StartOrder(str(number)))
        got = [[await within(queue.get()) for _ in range(5)] for queue in replies]

    assert got == [["0"] * 5, ["1"] * 5]


async def test_a_handler_names_who_gets_the_replies(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue("Back.Office")
    web = endpoints.make("Web")
    asking(web)

    async with web, accepting(endpoints.make("Sales")):
        await web.send("Web", StartOrder("1", reply_to=str(endpoints.queue("Back.Office"))))

        async def replied() -> bool:
            return await endpoints.backend.count("Back.Office") == 1

        await eventually(replied)

    (row,) = await endpoints.backend.rows("Back.Office")
    assert row.headers[Header.MESSAGE_INTENT] == "Reply"


async def test_who_has_no_queue_of_its_own_cannot_ask_for_replies_there(endpoints: Endpoints) -> None:
    web = endpoints.make("Web", recoverability=NO_RETRIES)
    asking(web)

    async with web:
        await web.send("Web", StartOrder("1"))

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)

    (row,) = await endpoints.backend.rows(ERROR)
    assert "no discriminator" in (row.headers[Header.EXCEPTION_MESSAGE] or "")


async def test_an_endpoint_names_who_gets_the_replies_to_what_it_sends_outside_handlers(
    endpoints: Endpoints,
) -> None:
    web, office = endpoints.make("Web"), endpoints.make("Office")
    got = noting(office)

    async with web, office, accepting(endpoints.make("Sales")):
        await web.send("Sales", PlaceOrder("1"), reply_to="Office")
        assert await within(got.get()) == "1"


async def test_what_fails_in_an_instances_queue_is_said_to_have_failed_there(endpoints: Endpoints) -> None:
    """So that ServiceControl, and `rowbus errors retry`, put it back to that instance."""
    web = endpoints.make("Web", discriminator="1", recoverability=NO_RETRIES)

    @web.handler
    async def accepted(message: OrderAccepted) -> None:
        raise SimulatedError

    async with web, accepting(endpoints.make("Sales")):
        await web.send("Sales", PlaceOrder("1"), reply_to_this_instance=True)

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)

    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.FAILED_QUEUE] == str(endpoints.queue("Web.1"))


async def test_a_reply_may_have_what_answers_it_come_to_this_instance(endpoints: Endpoints) -> None:
    web, sales = endpoints.make("Web"), endpoints.make("Sales", discriminator="1")
    answers: asyncio.Queue[rowbus.QueueAddress | None] = asyncio.Queue()

    @sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(OrderAccepted(order.order_id), to_this_instance=True)

    @web.handler
    async def accepted(message: OrderAccepted, context: rowbus.Context) -> None:
        answers.put_nowait(context.reply_to)

    async with web, sales:
        await web.send("Sales", PlaceOrder("1"))
        assert str(await within(answers.get())) == str(endpoints.queue("Sales.1"))


async def test_an_instance_is_sent_to_by_its_address(endpoints: Endpoints) -> None:
    instances = [endpoints.make("Web", discriminator=name) for name in ("1", "2")]
    replies = [noting(instance) for instance in instances]
    second = endpoints.queue("Web.2")

    async with instances[0], instances[1]:
        await instances[0].send(second, OrderAccepted("to the second"))
        assert await within(replies[1].get()) == "to the second"

    assert replies[0].empty()
