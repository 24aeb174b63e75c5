"""Mutators: what changes messages on their way to the wire, and off it: encryption, compression, signatures.

Invariant: copies of a message have its body as it came: a retry always, those for the error queue and the audit queue
unless a mutator changes copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header, encode_headers
from rowbus.messages.outgoing import check_message_id
from rowbus.running.functions import check_function

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.message import KeptValue, OutgoingMessage


@dataclass
class Draft:
    """A message that is about to leave, before it is written; who sends it gave `message`, `type` and `headers`."""

    intent: str
    """Whether it is sent, published or replied: `Send`, `Publish`, `Reply`."""
    destination: QueueAddress | None
    """The queue that it goes to; None for an event, which goes to whoever subscribes."""
    message: object
    """The object; another one may take its place, also of another class."""
    type: str | tuple[str, ...] | None
    """The wire names of dicts and bytes; None for an object that has names of its own."""
    headers: dict[str, str]
    """The headers that the message gets beside those of every message; free to change."""
    incoming: Mapping[str, str | None] | None
    """The headers of the message in hand; None where there is none."""


class Mutator:
    """Changes messages as they leave, and bodies and headers on the wire; derive from it, and override some.

    One object serves all messages, also in threads: it must not keep anything of a message.
    """

    def leaving(self, draft: Draft) -> None:
        """Change a message that is sent, published or replied, before it is written: its object and its headers.

        For headers on all that leaves, and for what depends on the object. What this raises, the sender's call raises,
        and nothing leaves.
        """

    def outgoing(self, headers: dict[str, str | None], body: bytes) -> bytes:
        """Return the body of a message that is sent, published or replied, as it goes on the wire.

        `headers` are all that the message leaves with, free to change. What this raises, the sender's call raises.
        """
        _ = headers
        return body

    def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
        """Return the body of a message that was received, as the steps and handlers are given it.

        `headers` are the message's, a copy for the handlers, free to change. What this raises fails the attempt.
        """
        _ = headers
        return body

    def copied(self, headers: dict[str, str | None], body: bytes) -> bytes:
        """Return the body of a copy that an endpoint makes for its error queue or its audit queue.

        `headers` are the copy's, those about the failure or the processing among them, free to change. To keep personal
        data out of there; a message that is retried from there is as the copy is. What this raises in an audit copy
        fails the attempt; in the copy of a failure it is as if the policy had raised it: the message stays.
        """
        _ = headers
        return body

    def blocks(self, headers: Mapping[str, str | None]) -> bool:
        """Say whether `incoming` may wait, as for a file, for a message that came with these headers.

        An endpoint then calls it, and the other mutators, in a thread.
        """
        _ = headers
        return False


class KeepingMutator(Mutator):
    """A mutator that has values leave with a message, into tables; not for users' own."""

    def bound(self, addresses: Addresses, most_bytes: int) -> Mutator:
        """Return the mutator as it is for those who give tables their names in this way, and take so large messages."""
        raise NotImplementedError

    def keep(self, headers: dict[str, str | None], body: bytes) -> tuple[bytes, tuple[KeptValue, ...]]:
        """Do as `outgoing`, and return what is to leave with the message, too."""
        raise NotImplementedError


def bound_mutators(mutators: Iterable[Mutator], addresses: Addresses, most_bytes: int) -> tuple[Mutator, ...]:
    """Return mutators for those who give tables their names in this way, and take messages of so many bytes."""
    bound = [
        mutator.bound(addresses, most_bytes) if isinstance(mutator, KeepingMutator) else mutator
        for mutator in mutators
    ]
    return tuple(bound)


def put_on(message: OutgoingMessage, mutators: Sequence[Mutator]) -> OutgoingMessage:
    """Return a message as it goes on the wire, changed by the mutators in their order.

    Raises InvalidHeaderError for a header that no receiver could read, ConfigurationError for a body of no bytes.
    """
    if not mutators:
        return message
    headers, body, kept = dict(message.headers), message.body, message.kept
    for mutator in mutators:
        if isinstance(mutator, KeepingMutator):
            body, values = mutator.keep(headers, body)
            kept = (*kept, *values)
        else:
            body = _checked(mutator, mutator.outgoing(headers, body))
    encode_headers({name: headers[name] for name in headers if headers[name] != message.headers.get(name)})
    check_message_id(headers.get(Header.MESSAGE_ID) or "")
    return message._replace(headers=headers, body=body, kept=kept)


def take_off(headers: dict[str, str | None], body: bytes, mutators: Sequence[Mutator]) -> bytes:
    """Change headers, and return a body, as they come off the wire: by the mutators from the last to the first."""
    for mutator in reversed(mutators):
        body = _checked(mutator, mutator.incoming(headers, body))
    return body


def changed_copy(message: OutgoingMessage, mutators: Sequence[Mutator]) -> OutgoingMessage:
    """Return a copy for the error queue or the audit queue, changed by the mutators in their order."""
    if not mutators:
        return message
    headers, body = dict(message.headers), message.body
    for mutator in mutators:
        body = _checked(mutator, mutator.copied(headers, body))
    encode_headers({name: headers[name] for name in headers if headers[name] != message.headers.get(name)})
    return message._replace(headers=headers, body=body)


def with_changes(
    received: Mapping[str, str | None],
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
) -> dict[str, str | None]:
    """Return the headers received, changed as `before` was into `after`."""
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    return {
        **{name: value for name, value in received.items() if name in after or name not in before},
        **changed,
    }


def checked_mutator(mutator: object) -> Mutator:
    """Return a mutator as it is; raises ConfigurationError for what is none, and for methods that are `async def`s."""
    if not isinstance(mutator, Mutator):
        raise ConfigurationError(f"{mutator!r} is no mutator: give an object of a class of rowbus.Mutator.")
    check_function(mutator.leaving, "The mutator's method", "draft")
    for verb in (mutator.outgoing, mutator.incoming, mutator.copied):
        check_function(verb, "The mutator's method", "headers", "body")
    check_function(mutator.blocks, "The mutator's method", "headers")
    return mutator


def _checked(mutator: Mutator, body: object) -> bytes:
    if not isinstance(body, bytes):
        raise ConfigurationError(
            f"The mutator {type(mutator).__qualname__} returned {type(body).__name__}; it must return the body, bytes."
        )
    return body
