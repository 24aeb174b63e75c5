"""The table of an endpoint's rate limits: the operations on it, and the keeper that forgets keys that no message has.

Invariants: each statement is to run in a transaction of its own, so that no lock here lasts as long as a handler; the
keeper waits for no lock, and changes the limit of no key.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowbus.database.backends import bound_table
from rowbus.transport.queues.records.table import OwnTable, RecordKeeper, RecordStatements, run_until_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.transport.limits.decisions import TokenGrant, TokenRequest
    from rowbus.transport.limits.rate import Bucket


class LimitTable(RecordStatements):
    """Statements on the table of an endpoint's tokens."""

    folder = "transport/limits"
    variable = "limits"
    remedy = (
        "the table does not exist; starting an endpoint with a rate limit creates it, as does "
        "`rowbus schema install MODULE:ENDPOINT`."
    )

    def take(self, asked: Sequence[TokenRequest], *, defers: bool) -> Statement[dict[str, TokenGrant]]:
        """Take tokens, as many as there are, and say for each key what was granted; a key without a row is left out.

        `defers` says whether what gets none now is deferred, so that its turn is kept free. Locks the keys' rows, in
        the order of the keys, waiting for other instances that take of them just now.
        """
        raise NotImplementedError

    def begin(self, keys: Iterable[str]) -> Statement[int]:
        """Begin keys that have no row, with all the tokens that they can have. Waits for others who begin the same."""
        raise NotImplementedError

    def give_back(self, unused: Sequence[tuple[Bucket, int]]) -> Statement[int]:
        """Give tokens back that were not used. Locks the keys' rows, waiting as `take`."""
        raise NotImplementedError

    def receive_these(self, queue: QueueAddress, rows: Sequence[MessageRow]) -> Statement[list[MessageRow]]:
        """Take messages that were received and put back a moment ago, in their order; without those that are gone.

        Deletes and so locks them; passes over what others have locked, never waiting.
        """
        raise NotImplementedError

    def sweep(self, batch_size: int) -> Statement[int]:
        """Forget up to so many keys that have had all their tokens for a minute; say how many. Never waits."""
        raise NotImplementedError


def limit_table(address: QueueAddress) -> LimitTable:
    """Return the statements on a table of limits. No I/O."""
    table: LimitTable = bound_table("rowbus.transport.limits", "LimitTable", address)
    return table


def own_limits(address: QueueAddress) -> OwnTable:
    """Return a table of limits as an endpoint has it."""
    return OwnTable(limit_table(address), "the table of rate limits")


BATCH: Final = 1000  # rows deleted in one transaction


class LimitKeeper(RecordKeeper):
    """Keeps one endpoint's table of limits small. For one event loop."""

    what = "idle keys"
    logger = logging.getLogger("rowbus.limits")

    async def forget_on(self, session: AsyncSession) -> int:
        """Forget all idle keys; return how many."""
        return await run_until_none(session, limit_table(self._address).sweep(BATCH))
