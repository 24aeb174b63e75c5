"""Recoverability: the verdict on a message whose processing failed, and the back-off before its delayed retries.

Invariants: a verdict is a pure function of the failure: `decide` does no I/O, logs nothing and asks no clock; who
carries a verdict out has no policy of its own. A delay of `exponential` is a pure function of the retry's number and
the message's id: the same in each process, and after a restart. Source of the defaults and of the two headers:
docs/wire-format.md#retries.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from rowbus.errors import (
    ConfigurationError,
    DestinationRefusedError,
    InvalidTimestampError,
    MalformedHeadersError,
    MessageDeserializationError,
    SagaStateError,
    SagaVersionError,
    UnknownMessageTypeError,
    Unrecoverable,
)
from rowbus.errors.strangers import is_a
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import format_timestamp, parse_timestamp
from rowbus.running.functions import check_function
from rowbus.running.setting_types import check_types, require_type, time_span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.messages.address import QueueAddress

ALWAYS_UNRECOVERABLE: tuple[type[BaseException], ...] = (
    Unrecoverable,
    MessageDeserializationError,
    UnknownMessageTypeError,
    MalformedHeadersError,
    DestinationRefusedError,
)

LONGEST_WAIT: Final = timedelta(hours=1)
"""The time that a message waits for the newer version of its program that wrote its saga: for a rolling upgrade."""
LOOK_AGAIN: Final = timedelta(seconds=10)
"""The time that it waits at once."""

_ALL: Final = 2**32
_COUNT: Final = re.compile(r"[0-9]{1,9}")

Backoff = Callable[[int], timedelta]
"""Returns the delay before a delayed retry: before the first for 1, before the second for 2."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """A back-off that multiplies the delay each time, up to a cap."""

    first: timedelta
    cap: timedelta
    factor: float
    jitter: bool

    def __call__(self, retry: int) -> timedelta:
        """Return the delay before a retry, without jitter."""
        exponent = math.log(self.factor) * (retry - 1)
        most = math.log(self.cap / self.first) if self.cap > self.first else 0.0
        return self.cap if exponent >= most else min(self.cap, self.first * self.factor ** (retry - 1))

    def of_message(self, retry: int, message_id: str) -> timedelta:
        """Return the delay before a message's retry: with jitter between half of it and all of it, by its id."""
        delay = self(retry)
        if not self.jitter:
            return delay
        return delay * (0.5 + zlib.crc32(f"{message_id}/{retry}".encode(errors="replace")) / _ALL / 2)


def exponential(
    first: timedelta | str,
    *,
    cap: timedelta | str = timedelta(hours=1),
    factor: float = 2.0,
    jitter: bool = False,
) -> Exponential:
    """Return a back-off that begins with a delay and multiplies it each time: 1 s, 2 s, 4 s, and never more than `cap`.

    Spans may be text: `exponential("1s", cap="10m")`. With `jitter` each delay is between half of it and all of it, so
    that messages that failed together do not come back together. Raises ConfigurationError.
    """
    require_type("jitter", jitter, bool, "True or False")
    begin, most = time_span(first), time_span(cap)
    if not timedelta() < begin <= most:
        raise ConfigurationError(
            f"A back-off begins with more than nothing and at most its cap, not with {begin} of {most}."
        )
    given = cast("object", factor)
    if not isinstance(given, int | float) or not 1 <= given < math.inf:
        raise ConfigurationError(f"factor is {factor!r}; give a number of at least 1.")
    return Exponential(begin, most, factor, jitter)


def check_backoff(backoff: Backoff, retries: int) -> None:
    """Raise ConfigurationError for what is no function of a number, or returns no delay for the first or last retry."""
    check_function(backoff, "The back-off", "retry")
    for retry in {1, max(retries, 1)}:
        delay = cast("object", backoff(retry))
        if not isinstance(delay, timedelta) or delay < timedelta():
            raise ConfigurationError(
                f"The back-off {backoff!r} returns {delay!r} for retry {retry}; it must return a timedelta, at least 0."
            )


def delay_before(retry: int, backoff: Backoff, message_id: str) -> timedelta:
    """Return how long a message waits before one of its delayed retries."""
    return backoff.of_message(retry, message_id) if isinstance(backoff, Exponential) else backoff(retry)


class FailedAttempt(NamedTuple):
    """A failure as the policy sees it.

    `failures` counts attempts since the message came into this queue, so it begins with 1 again after a delayed retry;
    `now` is the time of day, aware. `retries` are those of the handler that failed, None where it has none of its own.
    """

    error: BaseException
    failures: int
    headers: Mapping[str, str | None]
    now: datetime
    retries: Retries | None = None

    @property
    def delayed_retries(self) -> int:
        """The number of delayed retries that the message has had; 0 if its headers do not say, or make no sense."""
        text = (self.headers.get(Header.RETRIES) or "").strip()
        return int(text) if _COUNT.fullmatch(text) else 0

    @property
    def last_delayed(self) -> datetime | None:
        """When its last delayed retry was asked for; None if its headers do not say, or make no sense."""
        return self._time(Header.RETRIES_TIMESTAMP)

    @property
    def waiting_since(self) -> datetime:
        """Since when it waits for a newer version of its program: now, if its headers do not say."""
        return self._time(Header.WAITING_SINCE) or self.now

    def _time(self, header: str) -> datetime | None:
        if not (text := self.headers.get(header)):
            return None
        try:
            return parse_timestamp(text)
        except InvalidTimestampError:
            return None


@dataclass(frozen=True, slots=True)
class ImmediateRetry:
    """Verdict: process the message again at once."""


@dataclass(frozen=True, slots=True)
class DelayedRetry:
    """Verdict: let go of the message and process a copy of it after a while; less than nothing means at once."""

    delay: timedelta

    is_counted: bool = field(default=True, repr=False)
    """Whether it is one of the message's delayed retries; else the message waits for a newer version of its program."""


@dataclass(frozen=True, slots=True)
class MoveToErrorQueue:
    """Verdict: give up and keep the message, with its story, in an error queue (None: the endpoint's)."""

    queue: QueueAddress | None = None


@dataclass(frozen=True, slots=True)
class Discard:
    """Verdict: give up and let the message go; the reason is logged."""

    reason: str


Verdict = ImmediateRetry | DelayedRetry | MoveToErrorQueue | Discard


class Decision(NamedTuple):
    """The decision about a message after a failed attempt, for those who observe an endpoint.

    One whose row cannot be read has 0 `failures`, and only those headers that could be read.
    """

    attempt: FailedAttempt
    verdict: Verdict


class Throttling(NamedTuple):
    """That an endpoint begins, or ceases, to process its messages one at a time: message after message failed."""

    is_active: bool


Observer = Callable[[Decision | Throttling], None]
"""Is called on the event loop with what becomes of failures; see `Endpoint.observe`."""


@dataclass(frozen=True, slots=True)
class Retries:
    """The number and times of retries of failed messages: of one handler, in place of the endpoint's.

    `@endpoint.handler(retries=rowbus.Retries(5, backoff=rowbus.exponential("1s", cap="10m", jitter=True)))`.
    """

    delayed: int = 3
    """Retries after a delay, the first argument. Defaults to 3."""

    backoff: Backoff = exponential("10s")  # noqa: RUF009 - frozen
    """The delay before each of them, by its number from 1. Defaults to 10 s, 20 s, 40 s … up to an hour."""

    immediate: int = 0
    """Retries at once after each failure, before the message waits. Defaults to none."""

    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    """Exceptions that are retried. Defaults to all."""

    give_up_on: tuple[type[BaseException], ...] = ()
    """Exceptions that are not retried, though `retry_on` has them."""

    time_limit: timedelta = timedelta(hours=24)
    """A message that fails later than this after its last delayed retry was asked for gets no further one.
    Defaults to 24 hours."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_types(self)
        for name in ("immediate", "delayed"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be at least 0.")
        for name in ("retry_on", "give_up_on"):
            _check_exceptions(name, getattr(self, name))
        check_backoff(self.backoff, self.delayed)
        longest = self.backoff(self.delayed - 1) if self.delayed > 1 else timedelta()
        if longest > self.time_limit:  # the last one is followed by no other
            raise ConfigurationError(
                f"A message would wait {longest} for a delayed retry, longer than time_limit ({self.time_limit}), "
                "and get no further one: raise time_limit, or make delays shorter or fewer."
            )

    def decide(self, attempt: FailedAttempt) -> Verdict:
        """Say what becomes of a message after a failed attempt."""
        if not is_a(attempt.error, self.retry_on) or is_a(attempt.error, self.give_up_on):
            return MoveToErrorQueue()
        if attempt.failures <= self.immediate:
            return ImmediateRetry()
        if attempt.delayed_retries < self.delayed and self._is_in_time(attempt):
            message_id = attempt.headers.get(Header.MESSAGE_ID) or ""
            return DelayedRetry(delay_before(attempt.delayed_retries + 1, self.backoff, message_id))
        return MoveToErrorQueue()

    def _is_in_time(self, attempt: FailedAttempt) -> bool:
        last = attempt.last_delayed
        return last is None or attempt.now - last <= self.time_limit


@dataclass(frozen=True, slots=True)
class Recoverability:
    """The default policy: immediate retries, then delayed ones, each with its immediate retries, then the error queue.

    By default 6 attempts at once, and 6 more after 10, 20 and 30 s each: 24. Subclass it and override `decide` for a
    policy of your own.
    """

    immediate: int = 5
    """Retries at once after the first failure. Defaults to 5, so 6 attempts."""

    unrecoverable: tuple[type[BaseException], ...] = ()
    """Exceptions never retried, beside `Unrecoverable`, and messages and sagas that cannot be read."""

    delayed: int = 3
    """Retries after a delay, once the immediate ones are used up. Defaults to 3."""

    increase: timedelta = timedelta(seconds=10)
    """The delay of the first delayed retry, and how much longer each further one waits. Defaults to 10 s."""

    backoff: Backoff | None = None
    """The delay before each delayed retry, in place of `increase`: a function of its number, from 1, such as
    `rowbus.exponential("1s", cap="10m")`."""

    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    """Exceptions that are retried, but for those that are `unrecoverable`. Defaults to all."""

    time_limit: timedelta = timedelta(hours=24)
    """A message that fails later than this after its last delayed retry was asked for gets no further one.
    Defaults to 24 hours."""

    _retries: Retries = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_types(self)
        if self.increase < timedelta():
            raise ConfigurationError(f"increase is {self.increase}; it must not be negative.")
        retries = Retries(
            self.delayed,
            self.backoff or self.increase.__mul__,
            self.immediate,
            self.retry_on,
            self.unrecoverable,
            self.time_limit,
        )
        object.__setattr__(self, "_retries", retries)

    def decide(self, attempt: FailedAttempt) -> Verdict:
        """Say what becomes of a message after a failed attempt."""
        if is_a(attempt.error, (*ALWAYS_UNRECOVERABLE, *self.unrecoverable)):
            return MoveToErrorQueue()
        if is_a(attempt.error, SagaVersionError):
            return _until_newer(attempt)
        if is_a(attempt.error, SagaStateError):
            return MoveToErrorQueue()
        return (attempt.retries or self._retries).decide(attempt)


def retry_headers(attempt: FailedAttempt, *, is_counted: bool = True) -> dict[str, str | None]:
    """Return the headers of the copy that is a delayed retry: the message's own, and which retry it is, since when.

    One that is not counted says since when it waits. None says when it expires: a retry does not.
    """
    kept = {name: value for name, value in attempt.headers.items() if name != Header.EXPIRES}
    if not is_counted:
        return {**kept, Header.WAITING_SINCE: format_timestamp(attempt.waiting_since)}
    return {
        **kept,
        Header.RETRIES: str(attempt.delayed_retries + 1),
        Header.RETRIES_TIMESTAMP: format_timestamp(attempt.now),
    }


def _check_exceptions(name: str, given: object) -> None:
    kinds = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (None,)
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in kinds):
        raise ConfigurationError(f"{name} is {given!r}; give a tuple of exception classes.")


def _until_newer(attempt: FailedAttempt) -> Verdict:
    """Have a message wait until a newer version of its program takes it, for so long as an upgrade may take."""
    if attempt.now - attempt.waiting_since < LONGEST_WAIT:
        return DelayedRetry(LOOK_AGAIN, is_counted=False)
    return MoveToErrorQueue()
