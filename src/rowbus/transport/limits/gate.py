"""The gate of an endpoint: what its slots ask before a message is handled.

A token is taken in a transaction of its own, on the slot's connection, before the one in which the message is handled:
so no lock on a key lasts as long as a handler, and no second connection is needed. What becomes of that transaction
does not matter: a token that was taken is used up (docs/decisions/0026-tokens-before-the-receive.md).

Invariant: at most one slot of a process waits at the endpoint's own limit, the others wait for their turn behind it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rowbus.transport.limits.decisions import (
    LONGEST,
    LimitedMessage,
    TokenGrant,
    TokenRequest,
    Verdict,
    ask,
    judge,
)
from rowbus.transport.limits.rate import Bucket
from rowbus.transport.limits.table import limit_table

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Runs, Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow

Find = Callable[["Sequence[MessageRow]", "Runs"], Awaitable["list[LimitedMessage[MessageRow]]"]]
"""Returns those of some messages that have limits, with these."""

LONGEST_WAIT: Final = 5.0  # seconds until the endpoint's own limit is looked at again
TRIES: Final = 5  # to find the rows of keys, which a sweep may remove in between


class Gate:
    """The limits of one endpoint in one process. For one event loop."""

    def __init__(
        self,
        address: QueueAddress,
        whole: Bucket | None,
        find: Find | None,
        clock: Callable[[], Statement[datetime]],
    ) -> None:
        """Take the table, the endpoint's own limit, and what finds those of a message. No I/O.

        `clock` asks the database what time it is.
        """
        self.clock = clock
        self._table = limit_table(address)
        self._whole = whole
        self._find = find
        self._turn = asyncio.Lock()
        self._unused: Counter[Bucket] = Counter()

    async def enter(
        self,
        session: AsyncSession,
        most: int,
        pause: Callable[[float], Awaitable[None]],
        ended: Callable[[], bool],
    ) -> int:
        """Wait until a receive may start and say for how many messages; 0 when it `ended` meanwhile.

        In transactions of its own on a session that is in none, and that is in none while it waits.
        """
        await self.settle(session)
        if self._whole is None:
            return most
        async with self._turn:
            while not ended():
                granted = (await self._take(session, [TokenRequest(self._whole, most, 0)], defers=False))[
                    self._whole
                ]
                if granted.waited:
                    return granted.waited
                await pause(min(granted.waited_in, LONGEST_WAIT))
        return 0

    def left(self, unused: int) -> None:
        """Note receives that were granted and found nothing to handle."""
        if self._whole is not None and unused > 0:
            self._unused[self._whole] += unused

    async def limited(self, rows: Sequence[MessageRow], session: Runs) -> list[LimitedMessage[MessageRow]]:
        """Return those of some messages that have limits."""
        return [] if self._find is None else await self._find(rows, session)

    async def judge(
        self, session: AsyncSession, messages: Sequence[LimitedMessage[MessageRow]]
    ) -> Verdict[MessageRow]:
        """Take the tokens of messages, in a transaction of its own; say which of them may be handled now."""
        verdict = judge(messages, await self._take(session, ask(messages), defers=True), LONGEST)
        self._unused.update(verdict.unused)
        return verdict

    def receive_these(self, queue: QueueAddress, rows: Sequence[MessageRow]) -> Statement[list[MessageRow]]:
        """Return what takes these messages of a queue again, without those that are gone."""
        return self._table.receive_these(queue, rows)

    def lost(self, messages: Sequence[LimitedMessage[MessageRow]]) -> None:
        """Note messages that had their tokens and that another receiver has taken meanwhile."""
        for message in messages:
            self._unused.update(message.buckets)

    async def settle(self, session: AsyncSession) -> None:
        """Give tokens back that were not used."""
        if self._unused:
            unused, self._unused = self._unused, Counter()
            await session.run(self._table.give_back(sorted(unused.items())))

    async def _take(
        self, session: AsyncSession, asked: Sequence[TokenRequest], *, defers: bool
    ) -> Mapping[Bucket, TokenGrant]:
        granted: dict[str, TokenGrant] = {}
        missing = asked
        for _ in range(TRIES):
            granted |= await session.run(self._table.take(missing, defers=defers))
            missing = [each for each in asked if each.bucket.key not in granted]
            if not missing:
                break
            await session.run(self._table.begin(each.bucket.key for each in missing))
        late = TokenGrant(0, 0, 1.0, 1.0)
        return {each.bucket: granted.get(each.bucket.key, late) for each in asked}
