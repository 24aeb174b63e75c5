"""Events of an endpoint from outside its handlers: publish them, subscribe to them.

Invariant: each verb is one transaction of its own, committed when it returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rowbus.messages.message_types import contract_of
from rowbus.messages.outgoing import Options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from rowbus.endpoint.running import RunningEndpoint


class Publisher(ABC):
    """The publishing and subscribing side of an endpoint."""

    @abstractmethod
    def _started(self) -> RunningEndpoint:
        """Return what runs; raises ConfigurationError when nothing does."""

    async def publish(
        self,
        event: object,
        *,
        type: str | tuple[str, ...] | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
    ) -> str:
        """Publish an event from outside a handler, in a transaction of its own, and return its message id.

        Each endpoint that subscribes to it, or to a parent, gets a copy; see `AsyncSendVerbs.publish`. Raises as that
        does, QueueNotFoundError, and ConfigurationError when the endpoint is not started.
        """
        running = self._started()
        published = running.sender().event(event, Options(headers, time_to_be_received, type=type))
        subscribers = await running.subscribers.of(published.types)
        await running.dispatcher.dispatch(published.to(subscribers))
        return published.message.message_id

    async def subscribe(self, *events: type | str) -> None:
        """Have a copy of each of these events come to the endpoint's queue, once for all its instances.

        Events are given by class or by wire name; exactly these are subscribed to, and what has them as a parent comes
        too. Publishers may take as long as their `subscription_cache` to notice. Raises ConfigurationError when the
        endpoint is not started or a name is longer than 200 characters, StorageError.
        """
        await self._started().subscribe(_topics(events))

    async def unsubscribe(self, *events: type | str) -> None:
        """Have no more copies of these events come; those on their way still do. Raises as `subscribe`."""
        await self._started().unsubscribe(_topics(events))


def _topics(events: tuple[type | str, ...]) -> list[str]:
    return [event if isinstance(event, str) else contract_of(event).name for event in events]
