"""Messages that cannot travel in a way are refused before they leave: events sent, commands as answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.messages.address import PostgresAddresses
from rowbus.messages.outgoing import Options, Origin
from rowbus.transport.composition import Composer
from tests.conformance.endpoints import ERROR, NO_RETRIES
from tests.conformance.transport import eventually
from tests.fixtures.every import every

if TYPE_CHECKING:
    from rowbus.messages.bodies.serializer import Read
    from tests.conformance.endpoints import Endpoints


@rowbus.command("Misuse.Order")
@dataclass
class Order:
    number: int = 1


@rowbus.event("Misuse.Ordered")
@dataclass
class Ordered:
    number: int = 1


@rowbus.message("Misuse.Answer")
@dataclass
class Answer:
    number: int = 1


async def test_a_handler_sends_and_answers_with_what_may_be_sent_and_answered_with(
    endpoints: Endpoints,
) -> None:
    sales, said = endpoints.make("Sales", recoverability=NO_RETRIES), []

    @sales.handler
    async def handle(message: Order, context: rowbus.Context) -> None:
        for attempt in (
            context.send("Sales", Ordered()),
            context.send_local(Ordered()),
            context.reply(Ordered()),
            context.reply(Order()),
            context.publish(Order()),
        ):
            with pytest.raises(rowbus.MessageSerializationError) as refused:
                await attempt
            said.append(str(refused.value))
        await context.reply(Answer(), to="Sales")
        said.append("done")

    async with sales:
        for attempt in (sales.send("Sales", Ordered()), sales.publish(Order())):
            with pytest.raises(rowbus.MessageSerializationError):
                await attempt
        with pytest.raises(
            rowbus.ConfigurationError, match=r"Misuse\.Order is a command, which nobody publishes"
        ):
            await sales.subscribe(Order)
        await sales.send("Sales", Order())
        await eventually(lambda: "done" in said)
    event, command = "Misuse.Ordered is an event: ", "Misuse.Order is a command: "
    assert [text[: text.index(": ") + 2] for text in said[:-1]] == [event, event, event, command, command]


def test_a_client_sends_no_events_also_of_many() -> None:
    composer = Composer(PostgresAddresses(), Origin())
    sales = composer.address("Sales")
    for attempt in (
        lambda: composer.compose("Sales", Ordered()),
        lambda: [list(batch.texts) for batch in composer.batches(sales, [Order(), Ordered()], Options())],
    ):
        with pytest.raises(rowbus.MessageSerializationError, match=r"Misuse\.Ordered is an event"):
            attempt()


def test_nobody_subscribes_to_a_command() -> None:
    sales = rowbus.Endpoint("Sales")

    with pytest.raises(rowbus.ConfigurationError, match="there is nothing to subscribe to"):

        @sales.handler(subscribe=True)
        async def handle(message: Order) -> None: ...

    @sales.handler("Misuse.IOrdered", subscribe=True)  # of an event that another class stands for
    async def read(message: Order) -> None: ...


class Format:
    def __init__(self, content_types: Any) -> None:  # noqa: ANN401 - that is what is wrong
        self.content_types = content_types

    def write(self, message: object, types: tuple[str, ...], /) -> bytes:
        raise NotImplementedError

    def reader(self, kind: type, /) -> Read:
        raise NotImplementedError


@every("content_types", [(), [], "text/json", ""])
def test_a_serializer_says_its_content_types_in_a_tuple(content_types: object) -> None:
    with pytest.raises(rowbus.ConfigurationError, match="give them as a tuple"):
        rowbus.Endpoint("Sales", serializers=[Format(content_types)])
    with pytest.raises(rowbus.ConfigurationError, match="The content_types of Format are"):
        Composer(PostgresAddresses(), Origin(), serializer=Format(content_types))


async def test_who_sends_or_replies_to_a_misspelt_queue_learns_which_was_meant(endpoints: Endpoints) -> None:
    sales, billing = endpoints.make("Sales", recoverability=NO_RETRIES), endpoints.make("Billing")
    await billing.install()

    @sales.handler
    async def order(message: Order, context: rowbus.Context) -> None:
        if message.number == 2:
            await context.reply(Answer())
        await context.send("Biling", Order())

    async def are_given_up() -> bool:
        return await endpoints.backend.count(ERROR) == 2

    async with sales:
        await sales.send("Sales", Order(1))
        await sales.send("Sales", Order(2), reply_to="Bilings")
        await eventually(are_given_up)

    first = order.__code__.co_firstlineno
    said = sorted(
        row.headers["NServiceBus.ExceptionInfo.Message"] or "" for row in await endpoints.backend.rows(ERROR)
    )
    for text, kind, line in zip(said, ("Order", "Answer"), (first + 4, first + 3), strict=True):
        assert f"Misuse.{kind} was sent there by {__name__}." in text
        assert f"({__file__}, line {line}). Did you mean " in text
        assert f"mean {billing.address}?".lower() in text.lower()  # Babelfish lists names in small letters
