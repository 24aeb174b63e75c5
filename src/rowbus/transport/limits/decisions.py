"""The choice of received messages that may be handled now, and when the others come again: rate limits' decisions.

Invariant: pure. A message passes if each of its limits has a token for it; tokens of one that does not are given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from rowbus.transport.limits.rate import Bucket

R = TypeVar("R", bound=Hashable)

LONGEST: Final = 3600.0
"""Seconds for which a message is deferred; then its limit is looked at again."""


class LimitedMessage(NamedTuple, Generic[R]):
    """A message that has limits, in the order in which it was sent; `waited`: it was deferred before."""

    message: R
    buckets: tuple[Bucket, ...]
    waited: bool


class TokenRequest(NamedTuple):
    """The number of tokens asked of a bucket: for messages that were deferred before, and for others."""

    bucket: Bucket
    waited: int
    fresh: int


class TokenGrant(NamedTuple):
    """The number of tokens granted of those asked, and in how many seconds the first of the others is to come again.

    The second of them comes an interval later, and so on.
    """

    waited: int
    fresh: int
    waited_in: float
    fresh_in: float


class Verdict(NamedTuple, Generic[R]):
    """The messages that may be handled now, those deferred for how many seconds, and the tokens that are not needed."""

    passing: tuple[R, ...]
    deferred: Mapping[R, float]
    unused: Mapping[Bucket, int]


def ask(messages: Sequence[LimitedMessage[R]]) -> list[TokenRequest]:
    """Say how many tokens are wanted of each bucket."""
    wanted: dict[Bucket, list[int]] = {}
    for message in messages:
        for bucket in message.buckets:
            wanted.setdefault(bucket, [0, 0])[0 if message.waited else 1] += 1
    return [TokenRequest(bucket, *counts) for bucket, counts in wanted.items()]


def judge(
    messages: Sequence[LimitedMessage[R]], granted: Mapping[Bucket, TokenGrant], longest: float
) -> Verdict[R]:
    """Give the tokens to the messages in their order; none is deferred for more than `longest` seconds."""
    used: Counter[tuple[Bucket, bool]] = Counter()
    unused: Counter[Bucket] = Counter()
    passing: list[R] = []
    deferred: dict[R, float] = {}
    for message in messages:
        held: list[Bucket] = []
        waits: list[float] = []
        for bucket in message.buckets:
            wait = _wait(bucket, granted[bucket], used[bucket, message.waited], waited=message.waited)
            used[bucket, message.waited] += 1
            if wait is None:
                held.append(bucket)
            else:
                waits.append(wait)
        if waits:
            unused.update(held)
            deferred[message.message] = min(max(waits), longest)
        else:
            passing.append(message.message)
    return Verdict(tuple(passing), deferred, unused)


def _wait(bucket: Bucket, granted: TokenGrant, position: int, *, waited: bool) -> float | None:
    """Say how long the message at a position waits for a token; None: it has one."""
    have, first = (granted.waited, granted.waited_in) if waited else (granted.fresh, granted.fresh_in)
    return None if position < have else first + (position - have) * bucket.interval
