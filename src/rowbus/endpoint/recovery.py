"""Carries out what the recoverability policy decides about failed messages.

Invariant: the policy decides, this only acts; the copy in the error queue leaves with the transaction that consumes
the original, so the message is in exactly one place.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from rowbus.endpoint.pipeline import FAILURE_DATA, is_being_cancelled, subject_of
from rowbus.errors import MalformedHeadersError, QueueNotFoundError
from rowbus.errors.exception_facts import exc_info_of
from rowbus.messages.dispatch import DelayedSend, Send
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.mutators import changed_copy
from rowbus.messages.timestamps import format_time_span, format_timestamp
from rowbus.messages.tracing import with_new_trace
from rowbus.running.handling import concerning
from rowbus.settings import TransactionMode
from rowbus.transport.receiving.delivery import ErrorResult
from rowbus.transport.recoverability.attempts import attempts_header, failed_now
from rowbus.transport.recoverability.failure_headers import failed_message, poison_message
from rowbus.transport.recoverability.policy import (
    DelayedRetry,
    FailedAttempt,
    ImmediateRetry,
    MoveToErrorQueue,
    retry_headers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.identity import Identity
    from rowbus.messages.message import MessageRow
    from rowbus.messages.mutators import Mutator
    from rowbus.transport.receiving.delivery import FailedDelivery
    from rowbus.transport.recoverability.attempts import PastAttempt
    from rowbus.transport.recoverability.policy import Recoverability, Verdict

logger = logging.getLogger("rowbus.recoverability")

HOPELESS = MoveToErrorQueue()


def _now() -> datetime:
    return datetime.now(UTC)


class Recovery:
    """An endpoint's `on_error` and `on_poison`."""

    def __init__(
        self,
        policy: Recoverability,
        *,
        error_queue: QueueAddress,
        address: QueueAddress,
        identity: Identity,
        mode: TransactionMode,
        can_delay: bool = False,
        mutators: Sequence[Mutator] = (),
        now: Callable[[], datetime] = _now,
    ) -> None:
        """Act for the endpoint that receives from `address`; `can_delay`: whether it can send for later.

        `mutators` change the copies that it makes for error queues.
        """
        self._policy = policy
        self._error_queue = error_queue
        self._address = address
        self._identity = identity
        self._mode = mode
        self._can_delay = can_delay and mode is not TransactionMode.NONE
        self._mutators = mutators
        self._now = now

    async def on_error(self, failed: FailedDelivery) -> ErrorResult:
        """Ask the policy about a failed message and carry its verdict out."""
        noted = cast("Mapping[str, str]", failed.delivery.items.get(FAILURE_DATA) or {})
        handler = noted.get("Handler type", "")
        with concerning(subject_of(failed.delivery, handler)):
            return self._recover(failed)

    def _recover(self, failed: FailedDelivery) -> ErrorResult:
        delivery = failed.delivery
        delivery.headers[Header.MESSAGE_ID] = delivery.headers.get(Header.MESSAGE_ID) or delivery.id
        attempt = FailedAttempt(failed.error, failed.failures, delivery.headers, self._now())
        verdict = HOPELESS if _is_hopeless(failed) else self._possible(self._policy.decide(attempt))
        if isinstance(verdict, ImmediateRetry):
            self._announce_retry(attempt)
            return ErrorResult.RETRY_REQUIRED
        if isinstance(verdict, DelayedRetry):
            self._delay(failed, attempt, verdict)
        elif isinstance(verdict, MoveToErrorQueue):
            self._move(failed, attempt, verdict.queue or self._error_queue)
        else:
            self._announce_discard(attempt, verdict.reason)
        return ErrorResult.HANDLED

    def on_poison(self, row: MessageRow, error: BaseException) -> Send:
        """Return the error-queue message for a row that cannot be read, complete enough for ServiceControl."""
        now = self._now()
        try:
            headers = decode_headers(row.headers)
        except MalformedHeadersError:
            copy = poison_message(row, error, failed_queue=self._address, identity=self._identity, now=now)
        else:
            headers[Header.MESSAGE_ID] = headers.get(Header.MESSAGE_ID) or row.id
            copy = failed_message(
                headers=headers,
                body=row.body or b"",
                error=error,
                failed_queue=self._address,
                identity=self._identity,
                now=now,
            )
        return Send(self._error_queue, changed_copy(copy, self._mutators))

    def _possible(self, verdict: Verdict) -> Verdict:
        if isinstance(verdict, ImmediateRetry) and self._mode is TransactionMode.NONE:
            logger.warning(
                "The policy asks for a retry, which mode NONE cannot give; the message moves to the error queue"
            )
            return MoveToErrorQueue()
        if isinstance(verdict, DelayedRetry) and not self._can_delay:
            logger.warning(
                "The policy asks for a delayed retry, which %s cannot give; the message moves to the error queue",
                "mode NONE" if self._mode is TransactionMode.NONE else "an endpoint without delayed delivery",
            )
            return MoveToErrorQueue()
        return verdict

    @staticmethod
    def _announce_retry(attempt: FailedAttempt) -> None:
        logger.info(
            "Immediate Retry is going to retry message '%s' because of an exception: %r",
            attempt.headers[Header.MESSAGE_ID],
            attempt.error,
        )

    @staticmethod
    def _announce_discard(attempt: FailedAttempt, reason: str) -> None:
        logger.info(
            "Discarding message '%s' (%s) because of an exception: %r",
            attempt.headers[Header.MESSAGE_ID],
            reason,
            attempt.error,
        )

    def _delay(self, failed: FailedDelivery, attempt: FailedAttempt, verdict: DelayedRetry) -> None:
        """Have a copy come back to this queue later; it carries the count, and does not expire."""
        logger.warning(
            "Delayed Retry will reschedule message '%s' after a delay of %s because of an exception: %r",
            attempt.headers[Header.MESSAGE_ID],
            format_time_span(verdict.delay),
            failed.error,
        )
        copy = OutgoingMessage(_retried_later(attempt, verdict, self._identity), failed.delivery.body)
        failed.delivery.send(DelayedSend(failed.delivery.destination, copy, verdict.delay))

    def _move(self, failed: FailedDelivery, attempt: FailedAttempt, queue: QueueAddress) -> None:
        logger.error(
            "Moving message '%s' to the error queue '%s' because processing failed due to an exception:",
            attempt.headers[Header.MESSAGE_ID],
            queue,
            exc_info=exc_info_of(failed.error),
        )
        copy = failed_message(
            headers=attempt.headers,
            body=failed.delivery.body,
            error=failed.error,
            failed_queue=failed.delivery.destination,
            identity=self._identity,
            now=attempt.now,
            data=_failure_data(failed),
        )
        failed.delivery.send(Send(queue, changed_copy(copy, self._mutators)))


def _is_hopeless(failed: FailedDelivery) -> bool:
    """Say whether a delayed message was to be sent on to a queue that does not exist (SqlServer#947)."""
    return failed.delivery.forward_to is not None and isinstance(failed.error, QueueNotFoundError)


def _retried_later(
    attempt: FailedAttempt, verdict: DelayedRetry, identity: Identity
) -> dict[str, str | None]:
    """Return the headers of a delayed retry; as in .NET, DeliverAt is that of the message's first delay."""
    headers = with_new_trace(retry_headers(attempt, is_counted=verdict.is_counted))
    if verdict.is_counted:
        headers |= attempts_header(headers, _told(attempt, verdict, identity))
    headers[Header.DELIVER_AT] = headers.get(Header.DELIVER_AT) or _deliver_at(attempt.now, verdict.delay)
    return headers


def _told(attempt: FailedAttempt, verdict: DelayedRetry, identity: Identity) -> PastAttempt:
    """Return what the retry's headers tell of the attempt."""
    place = f"{identity.endpoint} on {identity.host_name}, process {os.getpid()}"
    then = f"tried again after {format_time_span(verdict.delay)}"
    return failed_now(attempt.error, attempt.now, place=place, tries=attempt.failures, then=then)


def _deliver_at(now: datetime, delay: timedelta) -> str | None:
    try:
        return format_timestamp(now + delay)
    except OverflowError:  # a policy's own delay may end after the year 9999
        return None


def _failure_data(failed: FailedDelivery) -> dict[str, str]:
    message_id = failed.delivery.headers[Header.MESSAGE_ID] or failed.delivery.id
    data = {"Message ID": message_id}
    if failed.delivery.id != message_id:
        data["Transport message ID"] = failed.delivery.id
    noted = failed.delivery.items.get(FAILURE_DATA)
    if isinstance(noted, dict):
        data |= noted
    return {**data, "Pipeline canceled": str(is_being_cancelled())}
