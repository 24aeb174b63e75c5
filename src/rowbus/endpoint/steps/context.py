"""The context of a step around the handlers: the message's facts, its attempt, and a handler's verbs.

Invariant: a step reads the message; what it sends, appends or executes leaves with the attempt, as a handler's does.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from rowbus.endpoint.context import AsyncMessageContext
from rowbus.endpoint.pipeline import read
from rowbus.messages.headers import Header, parse_enclosed_types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.endpoint.pipeline import Pipeline
    from rowbus.transport.receiving.delivery import Delivery


class StepContext(AsyncMessageContext):
    """The context of a step; one context for all steps of an attempt.

    `connection`, `send`, `publish`, `reply` and `append` are those of `Context`, on the same transaction.
    """

    outgoing_headers: dict[str, str]
    """Headers added to all that this step, later ones and the handlers send, publish or reply in this attempt.

    A header given to a single send wins.
    """

    def __init__(self, delivery: Delivery, pipeline: Pipeline) -> None:
        """Stand between the steps and their delivery."""
        self.outgoing_headers = {}
        super().__init__(delivery, pipeline.sender.with_headers(self.outgoing_headers))
        self._pipeline = pipeline
        self._message: object = None

    @property
    def headers(self) -> Mapping[str, str | None]:
        """The message's headers, to read."""
        return MappingProxyType(self._delivery.headers)

    @property
    def message_types(self) -> tuple[str, ...]:
        """The message's wire names, most concrete first; none for a message that does not say."""
        return parse_enclosed_types(self._delivery.headers.get(Header.ENCLOSED_MESSAGE_TYPES))

    @property
    def message(self) -> object:
        """The message as its first handler reads it, an object of the step's own; None for an empty or control message.

        Read when first asked for. Raises UnknownMessageTypeError and MessageDeserializationError, as handling it would.
        """
        if self._message is None and (plan := self._pipeline.plan(self._delivery)):
            self._message = read(plan[0], self._delivery)
        return self._message

    @property
    def attempt(self) -> int:
        """The number of this attempt since the message came into its queue, 1 for the first.

        A delayed retry begins with 1 again. Counted by this process, as immediate retries are.
        """
        return self._delivery.failures + 1

    @property
    def delayed_retries(self) -> int:
        """The number of delayed retries that the message has had."""
        count = (self._delivery.headers.get(Header.RETRIES) or "").strip()
        return int(count) if count.isdecimal() else 0

    async def _handle(self) -> None:
        """Have the handlers handle the message, with the headers that the steps added."""
        await self._pipeline.process(self._delivery, self._sender)
