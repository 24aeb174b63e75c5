"""The default policy: immediate retries, then delayed ones, then the error queue; some failures go there at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.errors import (
    ConfigurationError,
    MalformedHeadersError,
    MessageDeserializationError,
    MessageSerializationError,
    SagaStateError,
    SagaVersionError,
    StorageError,
    UnknownMessageTypeError,
    Unrecoverable,
)
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import format_timestamp
from rowbus.transport.recoverability.policy import (
    DelayedRetry,
    Discard,
    FailedAttempt,
    ImmediateRetry,
    MoveToErrorQueue,
    Recoverability,
    Retries,
    Verdict,
    exponential,
    retry_headers,
)
from tests.fixtures.every import every

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def verdicts(policy: Recoverability, error: BaseException, attempts: int) -> list[Verdict]:
    return [policy.decide(FailedAttempt(error, failures, {}, NOW)) for failures in range(1, attempts + 1)]


def delayed(error: BaseException, times: object, *, ago: timedelta | None = None) -> FailedAttempt:
    """Give the attempt of a message that has had so many delayed retries, the last so long ago."""
    headers: dict[str, str | None] = {Header.RETRIES: str(times)}
    if ago is not None:
        headers[Header.RETRIES_TIMESTAMP] = format_timestamp(NOW - ago)
    return FailedAttempt(error, 6, headers, NOW)


def attempts_of_a_hopeless_message(policy: Recoverability) -> tuple[int, list[timedelta]]:
    """Count the attempts until a policy gives a message up, and note the delays between them."""
    headers: dict[str, str | None] = {}
    attempts, failures, now, delays = 0, 0, NOW, list[timedelta]()
    while True:
        attempts, failures = attempts + 1, failures + 1
        attempt = FailedAttempt(ValueError(), failures, headers, now)
        verdict = policy.decide(attempt)
        if isinstance(verdict, DelayedRetry):
            delays.append(verdict.delay)
            headers, failures, now = retry_headers(attempt), 0, now + verdict.delay
        elif not isinstance(verdict, ImmediateRetry):
            return attempts, delays


def test_by_default_a_message_has_six_attempts_before_it_waits() -> None:
    decided = verdicts(Recoverability(), ValueError("no"), 7)

    assert decided == [ImmediateRetry()] * 5 + [DelayedRetry(timedelta(seconds=10))] * 2


def test_by_default_a_message_has_24_attempts_with_10_20_and_30_s_between_them() -> None:
    attempts, delays = attempts_of_a_hopeless_message(Recoverability())

    assert attempts == 24
    assert delays == [timedelta(seconds=10), timedelta(seconds=20), timedelta(seconds=30)]


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 3_000))
def test_whatever_the_numbers_are_there_are_as_many_attempts_as_they_say(
    immediate: int, retries: int, seconds: int
) -> None:
    policy = Recoverability(immediate=immediate, delayed=retries, increase=timedelta(seconds=seconds))

    attempts, delays = attempts_of_a_hopeless_message(policy)

    assert attempts == (immediate + 1) * (retries + 1)
    assert delays == [timedelta(seconds=seconds * n) for n in range(1, retries + 1)]


def test_without_retries_the_first_failure_moves_the_message() -> None:
    assert verdicts(Recoverability(immediate=0, delayed=0), ValueError("no"), 1) == [MoveToErrorQueue()]


def test_without_immediate_retries_the_first_failure_makes_the_message_wait() -> None:
    decided = verdicts(Recoverability(immediate=0), ValueError("no"), 1)

    assert decided == [DelayedRetry(timedelta(seconds=10))]


# ---------------------------------------------------------------------------------------------------- delayed retries


@every(
    "ago, verdict",
    [
        (timedelta(hours=24), DelayedRetry(timedelta(seconds=20))),
        (timedelta(hours=24, microseconds=1), MoveToErrorQueue()),
        (timedelta(seconds=-5), DelayedRetry(timedelta(seconds=20))),
        (None, DelayedRetry(timedelta(seconds=20))),
    ],
)
def test_24_hours_after_the_last_delayed_retry_there_is_no_further_one(
    ago: timedelta | None, verdict: Verdict
) -> None:
    assert Recoverability().decide(delayed(ValueError(), 1, ago=ago)) == verdict


def test_the_time_limit_does_not_touch_immediate_retries() -> None:
    attempt = delayed(ValueError(), 1, ago=timedelta(days=9))._replace(failures=5)

    assert Recoverability().decide(attempt) == ImmediateRetry()


@every("text", ["", "  ", "many", "-1", "1.5", "٣", "9" * 5000, "+1", "1e3"])
def test_a_count_that_makes_no_sense_is_none(text: str) -> None:
    attempt = delayed(ValueError(), text)

    assert attempt.delayed_retries == 0
    assert Recoverability().decide(attempt) == DelayedRetry(timedelta(seconds=10))


@every("text", ["", "yesterday", "2026-02-30 00:00:00:000000 Z"])
def test_a_timestamp_that_makes_no_sense_is_ignored(text: str) -> None:
    headers = {Header.RETRIES: "1", Header.RETRIES_TIMESTAMP: text}

    decided = Recoverability().decide(FailedAttempt(ValueError(), 6, headers, NOW))

    assert decided == DelayedRetry(timedelta(seconds=20))


def test_more_retries_than_the_policy_knows_of_are_enough() -> None:
    assert Recoverability().decide(delayed(ValueError(), 999_999_999)) == MoveToErrorQueue()


def test_a_delayed_retry_says_which_it_is_and_since_when_and_keeps_the_other_headers() -> None:
    headers = {
        Header.MESSAGE_ID: "7",
        Header.RETRIES: "1",
        Header.RETRIES_TIMESTAMP: "long ago",
        Header.EXPIRES: "which a retry does not",
        "null": None,
    }

    copied = retry_headers(FailedAttempt(ValueError(), 6, headers, NOW))

    assert copied == {
        Header.MESSAGE_ID: "7",
        Header.RETRIES: "2",
        Header.RETRIES_TIMESTAMP: "2026-05-01 12:00:00:000000 Z",
        "null": None,
    }
    assert headers[Header.RETRIES] == "1"


def test_delays_that_would_use_up_the_time_limit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="raise time_limit"):
        Recoverability(delayed=3, increase=timedelta(hours=13))

    Recoverability(delayed=3, increase=timedelta(hours=12))
    Recoverability(delayed=1, increase=timedelta(days=30))
    Recoverability(delayed=3, increase=timedelta(hours=13), time_limit=timedelta(hours=26))


# ------------------------------------------------------------------------------------------------------ unrecoverable


@every(
    "error",
    [
        Unrecoverable("hopeless"),
        MessageDeserializationError("not JSON", type_name="Order"),
        UnknownMessageTypeError("what is it", types=("Order",)),
        MalformedHeadersError("not headers", text="", reason="empty"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_no_retry_can_help_is_never_retried(error: BaseException) -> None:
    assert verdicts(Recoverability(immediate=1000), error, 1) == [MoveToErrorQueue()]


def test_subclasses_of_unrecoverable_are_unrecoverable() -> None:
    class CardStolenError(Unrecoverable):
        pass

    assert verdicts(Recoverability(), CardStolenError("call the police"), 1) == [MoveToErrorQueue()]


def test_exceptions_of_the_users_choice_are_never_retried() -> None:
    policy = Recoverability(unrecoverable=(LookupError,))

    assert verdicts(policy, KeyError("a"), 1) == [MoveToErrorQueue()]
    assert verdicts(policy, ValueError("a"), 1) == [ImmediateRetry()]


@every(
    "error",
    [
        StorageError("full", sqlstate="53100", transient=False),
        MessageSerializationError("no JSON", type_name="x"),
    ],
)
def test_other_errors_of_ours_are_retried_like_anybodys(error: BaseException) -> None:
    assert verdicts(Recoverability(), error, 1) == [ImmediateRetry()]


@every(
    "waited, verdict",
    [
        (None, DelayedRetry(timedelta(seconds=10), is_counted=False)),
        (timedelta(minutes=59), DelayedRetry(timedelta(seconds=10), is_counted=False)),
        (timedelta(hours=1), MoveToErrorQueue()),
    ],
)
def test_a_message_waits_an_hour_for_the_version_that_wrote_its_saga_and_keeps_its_retries(
    waited: timedelta | None, verdict: Verdict
) -> None:
    since = None if waited is None else format_timestamp(NOW - waited)
    headers = {Header.RETRIES: "2", Header.WAITING_SINCE: since}
    attempt = FailedAttempt(SagaVersionError("newer"), 1, headers, NOW)

    assert Recoverability(immediate=0, delayed=0).decide(attempt) == verdict
    assert Recoverability(unrecoverable=(SagaVersionError,)).decide(attempt) == MoveToErrorQueue()
    unreadable = FailedAttempt(SagaStateError("no JSON"), 1, headers, NOW)
    assert Recoverability().decide(unreadable) == MoveToErrorQueue()
    assert retry_headers(attempt, is_counted=False) == {
        Header.RETRIES: "2",
        Header.WAITING_SINCE: since or format_timestamp(NOW),
    }


def test_a_negative_number_of_retries_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="immediate is -1; it must be at least 0"):
        Recoverability(immediate=-1)
    with pytest.raises(ConfigurationError, match="delayed is -1; it must be at least 0"):
        Recoverability(delayed=-1)
    with pytest.raises(ConfigurationError, match=r"increase is .*; it must not be negative"):
        Recoverability(increase=timedelta(seconds=-1))


def test_a_policy_of_ones_own_overrides_decide_and_sees_the_headers() -> None:
    class DropHeartbeats(Recoverability):
        def decide(self, attempt: FailedAttempt) -> Verdict:
            return Discard("a heartbeat") if attempt.headers.get("heartbeat") else super().decide(attempt)

    policy = DropHeartbeats(immediate=0, delayed=0)

    assert policy.decide(FailedAttempt(ValueError(), 1, {"heartbeat": "1"}, NOW)) == Discard("a heartbeat")
    assert policy.decide(FailedAttempt(ValueError(), 1, {}, NOW)) == MoveToErrorQueue()


def test_verdicts_are_values() -> None:
    address = QueueAddress("public", "graveyard")

    assert MoveToErrorQueue(address) == MoveToErrorQueue(QueueAddress("public", "graveyard"))
    assert MoveToErrorQueue(address) != MoveToErrorQueue()
    assert len({ImmediateRetry(), ImmediateRetry(), Discard("a"), Discard("a")}) == 2
    assert DelayedRetry(timedelta(seconds=1)) == DelayedRetry(timedelta(milliseconds=1000))


SECOND = timedelta(seconds=1)


def test_a_backoff_takes_the_place_of_the_increase() -> None:
    policy = Recoverability(immediate=0, delayed=5, backoff=exponential("1s", cap="5s"))

    _, delays = attempts_of_a_hopeless_message(policy)
    assert delays == [1 * SECOND, 2 * SECOND, 4 * SECOND, 5 * SECOND, 5 * SECOND]


def test_jitter_is_between_half_a_delay_and_all_of_it_and_the_same_in_each_process() -> None:
    backoff = exponential(SECOND, jitter=True)
    delays = [backoff.of_message(1, f"message {number}") for number in range(200)]

    assert delays == [backoff.of_message(1, f"message {number}") for number in range(200)]
    assert SECOND / 2 <= min(delays) < 0.6 * SECOND
    assert 0.9 * SECOND < max(delays) <= SECOND
    decided = Retries(1, backoff=backoff).decide(
        FailedAttempt(ValueError(), 1, {Header.MESSAGE_ID: "message 7"}, NOW)
    )
    assert decided == DelayedRetry(delays[7])


def test_only_some_exceptions_are_retried_and_the_retries_of_a_handler_win() -> None:
    some = Retries(immediate=1, retry_on=(OSError,), give_up_on=(FileNotFoundError,))
    for policy in (Recoverability(retry_on=(OSError,), unrecoverable=(FileNotFoundError,)), Recoverability()):
        kinds = {
            kind: policy.decide(FailedAttempt(kind(), 1, {}, NOW, some))
            for kind in (OSError, TimeoutError, FileNotFoundError, ValueError)
        }
        assert [kind for kind, verdict in kinds.items() if verdict == ImmediateRetry()] == [
            OSError,
            TimeoutError,
        ]
    hopeless = FailedAttempt(ValueError(), 1, {}, NOW, Retries(immediate=9))
    assert Recoverability(unrecoverable=(ValueError,)).decide(hopeless) == MoveToErrorQueue()


@every(
    "make",
    [
        lambda: exponential("soon"),
        lambda: exponential("0s"),
        lambda: exponential("2h"),
        lambda: exponential("1s", factor=0.5),
        lambda: Retries(-1),
        lambda: Retries(backoff=lambda _retry: 5),  # type: ignore[arg-type, return-value]  # the mistake
        lambda: Retries(backoff=timedelta(seconds=5)),  # type: ignore[arg-type]  # the mistake
        lambda: Retries(3, backoff=[timedelta(), timedelta(), timedelta(), None].__getitem__),  # type: ignore[arg-type]  # as above
        lambda: Retries(retry_on=(int,)),  # type: ignore[arg-type]  # as above
        lambda: exponential("1s", factor="2"),  # type: ignore[arg-type]  # as above
        lambda: Retries(3, backoff=lambda _retry: timedelta(days=2)),
        lambda: Retries(retry_on=ValueError),  # type: ignore[arg-type]  # the mistake
        lambda: Recoverability(backoff="1s"),  # type: ignore[arg-type]  # the mistake
        lambda: Recoverability(retry_on=(3,)),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_what_is_no_rule_for_retries_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"back-off|span of time|factor|at least 0|time_limit|a tuple of"
    ):
        make()


@given(st.floats(0.001, 1e6), st.floats(1, 50), st.integers(1, 10**6))
def test_a_delay_never_shrinks_nor_passes_its_cap(first: float, factor: float, retry: int) -> None:
    backoff = exponential(timedelta(seconds=first), cap=timedelta(seconds=1e6), factor=factor)
    assert timedelta(seconds=first) <= backoff(retry) <= backoff(retry + 1) <= timedelta(seconds=1e6)
