"""The default policy: five immediate retries, then the error queue; some failures go there at once."""

from __future__ import annotations

import pytest

from rowbus.errors import (
    ConfigurationError,
    MalformedHeadersError,
    MessageDeserializationError,
    MessageSerializationError,
    StorageError,
    UnknownMessageTypeError,
    Unrecoverable,
)
from rowbus.model.address import QueueAddress
from rowbus.model.recoverability import (
    Discard,
    FailedAttempt,
    ImmediateRetry,
    MoveToErrorQueue,
    Recoverability,
    Verdict,
)


def verdicts(policy: Recoverability, error: BaseException, attempts: int) -> list[Verdict]:
    return [policy.decide(FailedAttempt(error, failures, {})) for failures in range(1, attempts + 1)]


def test_by_default_a_message_has_six_attempts_before_the_error_queue() -> None:
    decided = verdicts(Recoverability(), ValueError("no"), 7)

    assert decided == [ImmediateRetry()] * 5 + [MoveToErrorQueue()] * 2


def test_without_retries_the_first_failure_moves_the_message() -> None:
    assert verdicts(Recoverability(immediate=0), ValueError("no"), 1) == [MoveToErrorQueue()]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "error",
    [
        StorageError("full", sqlstate="53100", transient=False),
        MessageSerializationError("no JSON", type_name="x"),
    ],
)
def test_other_errors_of_ours_are_retried_like_anybodys(error: BaseException) -> None:
    assert verdicts(Recoverability(), error, 1) == [ImmediateRetry()]


def test_a_negative_number_of_retries_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="immediate is -1; it must be at least 0"):
        Recoverability(immediate=-1)


def test_a_policy_of_ones_own_overrides_decide_and_sees_the_headers() -> None:
    class DropHeartbeats(Recoverability):
        def decide(self, attempt: FailedAttempt) -> Verdict:
            return Discard("a heartbeat") if attempt.headers.get("heartbeat") else super().decide(attempt)

    policy = DropHeartbeats(immediate=0)

    assert policy.decide(FailedAttempt(ValueError(), 1, {"heartbeat": "1"})) == Discard("a heartbeat")
    assert policy.decide(FailedAttempt(ValueError(), 1, {})) == MoveToErrorQueue()


def test_verdicts_are_values() -> None:
    address = QueueAddress("public", "graveyard")

    assert MoveToErrorQueue(address) == MoveToErrorQueue(QueueAddress("public", "graveyard"))
    assert MoveToErrorQueue(address) != MoveToErrorQueue()
    assert len({ImmediateRetry(), ImmediateRetry(), Discard("a"), Discard("a")}) == 2
