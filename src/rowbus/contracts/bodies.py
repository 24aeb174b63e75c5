"""Bodies against what the endpoint of their queue published: which field does not fit.

Invariant: pure; where nobody published that he handles a message, everything fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rowbus.contracts.contract import Action
from rowbus.contracts.fit import misfits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.contracts.contract import Contract, PublishedContract
    from rowbus.contracts.fit import Misfit
    from rowbus.messages.address import QueueAddress


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


def _misfits(contract: Contract, name: str, body: bytes) -> list[Misfit]:
    try:
        return misfits(contract, name, msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf")))
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # a body may be nested without end
        return []


def _handled(contract: Contract, queue: str, types: str) -> str:
    """Return the first of a message's types that the endpoint of a queue handles; empty for none."""
    owners = {party.name for party in contract.parties if party.queue == queue}
    taken = {use.message for use in contract.uses_of_action(Action.HANDLE) if use.endpoint in owners}
    names = (one.partition(",")[0].strip() for one in types.split(";"))
    return next((name for name in names if name in taken), "")
