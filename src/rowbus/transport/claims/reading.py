"""Messages as they come off the wire, for those who may wait without holding up a loop: values read by statements.

Invariant: statements run one after the other through the caller's session, and in its transaction, if it is in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.steps import run_steps
from rowbus.messages.mutators import take_off
from rowbus.running.threads import run_in_thread
from rowbus.transport.claims.claim_check import ClaimCheck, has_claims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.steps import Runs
    from rowbus.messages.mutators import Mutator


async def off_the_wire(
    headers: dict[str, str | None], body: bytes, mutators: Sequence[Mutator], session: Runs
) -> bytes:
    """Change headers, and return a body, as they come off the wire: what blocks in a thread, what asks on a session.

    Raises what a mutator raises, and StorageError.
    """
    may_block = any(mutator.blocks(headers) for mutator in mutators)
    for mutator in reversed(mutators):
        if isinstance(mutator, ClaimCheck) and mutator.asks:
            body = await run_steps(session, mutator.reading(headers, body))
        elif may_block:
            body = await run_in_thread(take_off, headers, body, (mutator,))
        else:
            body = take_off(headers, body, (mutator,))
    return body


def takes_time(headers: Mapping[str, str | None], mutators: Sequence[Mutator]) -> bool:
    """Say whether a message that came with these headers waits for something when it comes off the wire."""
    return any(
        mutator.blocks(headers) or (isinstance(mutator, ClaimCheck) and mutator.asks and has_claims(headers))
        for mutator in mutators
    )
