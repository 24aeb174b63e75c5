"""Bodies against what the endpoint of their queue published: which field does not fit, and which is lacking.

Invariant: pure; where nobody published that he handles a message, everything fits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

import msgspec

from rowbus.contracts.contract import Action
from rowbus.contracts.examples import complete, example
from rowbus.contracts.fit import misfits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.contracts.contract import Contract, PublishedContract
    from rowbus.contracts.fit import Misfit
    from rowbus.messages.address import QueueAddress

_KEEPING: Final = msgspec.json.Decoder(float_hook=Decimal)
_WRITING: Final = msgspec.json.Encoder(decimal_format="number")  # 1.10 stays so
_NO_JSON: Final = (msgspec.DecodeError, UnicodeError, RecursionError)  # a body may be nested without end


def find_misfits(
    found: Iterable[PublishedContract], queue: QueueAddress, types: str, body: bytes
) -> list[str]:
    """Return what in a JSON body does not fit, a clause each: `Sales takes another: `amount` is required`.

    `types` are the message's, as its header has them; the first that a handler of the queue takes counts. What is no
    JSON has no misfits.
    """
    told: dict[str, None] = {}
    for one in found:
        name = _handled(one.contract, queue.canonical, types)
        if name and (faults := _misfits(one.contract, name, body)):
            told.setdefault(f"{one.endpoint} takes another: {'; '.join(map(str, faults))}")
    return list(told)


def find_example(found: Iterable[PublishedContract], queue: QueueAddress, types: str) -> bytes:
    """Return a JSON body that a handler of the queue takes, a field a line; nothing if no endpoint published one."""
    for one in found:
        if name := _handled(one.contract, queue.canonical, types):
            return written(example(one.contract, name))
    return b""


def completed(found: Iterable[PublishedContract], queue: QueueAddress, types: str, body: bytes) -> bytes:
    """Return a JSON body with the fields that a handler of the queue requires; as it is, if it lacks none."""
    for one in found:
        if name := _handled(one.contract, queue.canonical, types):
            try:
                value = _KEEPING.decode(_without_mark(body))
            except _NO_JSON:
                return body
            whole = complete(one.contract, name, value)
            return body if whole == value else written(whole)
    return body


def taken_by(found: Iterable[PublishedContract], queue: QueueAddress) -> list[str]:
    """Return the names of the messages that a queue's endpoint handles, as far as it published them, sorted."""
    return sorted({name for one in found for name in _taken(one.contract, queue.canonical)})


def written(value: object) -> bytes:
    """Return a value as JSON, a field a line."""
    return msgspec.json.format(_WRITING.encode(value), indent=2)


def _without_mark(body: bytes) -> bytes:
    return body.removeprefix(b"\xef\xbb\xbf")


def _misfits(contract: Contract, name: str, body: bytes) -> list[Misfit]:
    try:
        return misfits(contract, name, msgspec.json.decode(_without_mark(body)))
    except _NO_JSON:
        return []


def _handled(contract: Contract, queue: str, types: str) -> str:
    """Return the first of a message's types that the endpoint of a queue handles; empty for none."""
    taken = _taken(contract, queue)
    names = (one.partition(",")[0].strip() for one in types.split(";"))
    return next((name for name in names if name in taken), "")


def _taken(contract: Contract, queue: str) -> set[str]:
    owners = {party.name for party in contract.parties if party.queue == queue}
    return {use.message for use in contract.uses_of_action(Action.HANDLE) if use.endpoint in owners}
