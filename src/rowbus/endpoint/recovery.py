"""Carries out what the recoverability policy decides about failed messages; refuses policies that cannot be.

Invariant: the policy decides, this only acts; the copy in the error queue leaves with the transaction that consumes
the original, so the message is in exactly one place.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

from rowbus.endpoint.pipeline import HANDLER_FAILURE, is_being_cancelled, subject_of
from rowbus.errors import (
    ConfigurationError,
    CriticalError,
    MalformedHeadersError,
    QueueNotFoundError,
    StorageError,
)
from rowbus.errors.strangers import exc_info_of, is_a, text_of
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import DelayedSend, Send
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.mutators import changed_copy
from rowbus.messages.outgoing import with_new_trace
from rowbus.messages.timestamps import format_time_span, format_timestamp
from rowbus.running.critical import report
from rowbus.running.functions import check_function
from rowbus.running.handling import concerning
from rowbus.running.scope import contained
from rowbus.running.setting_types import require_type
from rowbus.settings import TransactionMode
from rowbus.transport.receiving.delivery import ErrorResult
from rowbus.transport.recoverability.failure_headers import failed_message, poison_message
from rowbus.transport.recoverability.policy import (
    Decision,
    DelayedRetry,
    Discard,
    FailedAttempt,
    ImmediateRetry,
    MoveToErrorQueue,
    Recoverability,
    Retries,
    retry_headers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.endpoint.parts import Parts
    from rowbus.endpoint.pipeline import HandlerFailure
    from rowbus.messages.headers import Identity
    from rowbus.messages.message import MessageRow
    from rowbus.transport.receiving.delivery import FailedDelivery
    from rowbus.transport.recoverability.policy import Observer, Throttling, Verdict

logger = logging.getLogger("rowbus.recoverability")

HOPELESS = MoveToErrorQueue()


def tell(observers: Sequence[Observer], event: Decision | Throttling) -> None:
    """Call each of the observers; what one raises is logged, and changes nothing."""
    for observer in observers:
        try:
            observer(event)
        except Exception:
            logger.exception("An observer failed when it was told of %s", type(event).__name__)


class Recovery:
    """An endpoint's `on_error` and `on_poison` for one of its queues."""

    def __init__(
        self,
        parts: Parts,
        address: QueueAddress,
        identity: Identity,
        observers: Sequence[Observer] = (),
        *,
        keeps_place: bool = False,
    ) -> None:
        """Act for the endpoint when it receives from `address`; `observers` are told what is decided.

        `keeps_place`: whether what is retried later waits where it is, so that nothing of its key comes before it.
        """
        self._parts = parts
        self._address = address
        self._identity = identity
        self._observers = observers
        self._keeps_place = keeps_place
        self._is_none = parts.settings.transaction_mode is TransactionMode.NONE
        self._can_delay = parts.can_delay and not self._is_none

    async def on_error(self, failed: FailedDelivery) -> ErrorResult:
        """Ask the policy about a failed message and carry its verdict out."""
        failure = _handler_failure(failed)
        subject = subject_of(failed.delivery, "" if failure is None else failure.handler.name)
        with concerning(subject):
            attempt, verdict = decision = self._decide(
                failed, None if failure is None else failure.handler.retries
            )
            result = self._carry_out(failed, subject.description(), attempt, verdict)
            tell(self._observers, decision)
            if is_a(attempt.error, CriticalError):
                report(self._parts.on_critical_error, text_of(attempt.error), attempt.error)
            return result

    def _decide(self, failed: FailedDelivery, retries: Retries | None) -> Decision:
        delivery = failed.delivery
        delivery.headers[Header.MESSAGE_ID] = delivery.headers.get(Header.MESSAGE_ID) or delivery.id
        attempt = FailedAttempt(failed.error, failed.failures, delivery.headers, datetime.now(UTC), retries)
        if delivery.forward_to is not None and isinstance(failed.error, QueueNotFoundError):
            return Decision(attempt, HOPELESS)  # its next queue is missing (SqlServer#947)
        try:
            return Decision(attempt, self._possible(self._parts.policy.decide(attempt)))
        except StorageError:
            raise
        except BaseException as error:  # noqa: BLE001 - a policy is the user's, and may raise anything
            name = attempt.headers[Header.MESSAGE_ID]
            text = (
                f"The recoverability policy failed for message {name}: its retries are counted as by default"
            )
            report(self._parts.on_critical_error, text, error, logger)
            return Decision(attempt, self._possible(Recoverability.decide(self._parts.policy, attempt)))

    def _carry_out(
        self, failed: FailedDelivery, name: str, attempt: FailedAttempt, verdict: Verdict
    ) -> ErrorResult:
        if isinstance(verdict, ImmediateRetry):
            text = "Immediate Retry is going to retry message %s because of an exception: %r"
            logger.info(text, name, attempt.error)
            return ErrorResult.RETRY_REQUIRED
        if isinstance(verdict, DelayedRetry):
            self._delay(failed, name, attempt, verdict)
        elif isinstance(verdict, MoveToErrorQueue):
            self._move(failed, name, attempt, verdict.queue or self._parts.error_queue)
        else:
            text = "Discarding message %s (%s) because of an exception: %r"
            logger.info(text, name, verdict.reason, attempt.error)
        return ErrorResult.HANDLED

    def on_poison(self, row: MessageRow, error: BaseException) -> Send:
        """Return the error-queue message for a row that cannot be read, complete enough for ServiceControl."""
        now, headers = datetime.now(UTC), dict[str, str | None]()
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
        send = Send(self._parts.error_queue, contained(partial(changed_copy, copy, self._parts.mutators)))
        tell(self._observers, Decision(FailedAttempt(error, 0, headers, now), MoveToErrorQueue()))
        return send

    def _possible(self, verdict: Verdict) -> Verdict:
        """Return a verdict, or what the endpoint can do instead; raises ConfigurationError for what is no verdict."""
        given: object = verdict
        is_one = isinstance(given, ImmediateRetry | Discard)
        if isinstance(given, DelayedRetry):
            is_one = isinstance(cast("object", given.delay), timedelta)
        elif isinstance(given, MoveToErrorQueue):
            is_one = isinstance(cast("object", given.queue), QueueAddress | None)
        if not is_one:
            raise ConfigurationError(
                f"The policy's verdict is {given!r}; give rowbus.MoveToErrorQueue(), or another."
            )
        if isinstance(verdict, ImmediateRetry) and self._is_none:
            logger.warning(
                "The policy asks for a retry, which mode NONE cannot give; the message moves to the error queue"
            )
            return MoveToErrorQueue()
        if isinstance(verdict, DelayedRetry) and not self._can_delay:
            logger.warning(
                "The policy asks for a delayed retry, which %s cannot give; the message moves to the error queue",
                "mode NONE" if self._is_none else "an endpoint without delayed delivery",
            )
            return MoveToErrorQueue()
        return verdict

    def _delay(
        self, failed: FailedDelivery, name: str, attempt: FailedAttempt, verdict: DelayedRetry
    ) -> None:
        """Have a copy come back to this queue later; it carries the count, and does not expire."""
        logger.warning(
            "Delayed Retry will reschedule message %s after a delay of %s because of an exception: %r",
            name,
            format_time_span(verdict.delay),
            failed.error,
        )
        headers = _retried_later(attempt, verdict)
        if self._keeps_place and failed.delivery.forward_to is None:
            headers[Header.NOT_BEFORE] = _deliver_at(attempt.now, verdict.delay)
            failed.delivery.postponement = encode_copied_headers(headers), verdict.delay.total_seconds()
            return
        copy = OutgoingMessage(headers, failed.delivery.body)
        failed.delivery.send(DelayedSend(failed.delivery.destination, copy, verdict.delay))

    def _move(self, failed: FailedDelivery, name: str, attempt: FailedAttempt, queue: QueueAddress) -> None:
        logger.error(
            "Moving message %s to the error queue '%s' because processing failed due to an exception:",
            name,
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
        failed.delivery.send(Send(queue, changed_copy(copy, self._parts.mutators)))


def _handler_failure(failed: FailedDelivery) -> HandlerFailure | None:
    """Return what the pipeline noted of the handler that failed; None where none was called."""
    return cast("HandlerFailure | None", failed.delivery.items.get(HANDLER_FAILURE))


def _retried_later(attempt: FailedAttempt, verdict: DelayedRetry) -> dict[str, str | None]:
    """Return the headers of a delayed retry; as in .NET, DeliverAt is that of the message's first delay."""
    headers = with_new_trace(retry_headers(attempt, is_counted=verdict.is_counted))
    headers[Header.DELIVER_AT] = headers.get(Header.DELIVER_AT) or _deliver_at(attempt.now, verdict.delay)
    return headers


def _deliver_at(now: datetime, delay: timedelta) -> str | None:
    try:
        return format_timestamp(now + delay)
    except OverflowError:  # a policy's own delay may end after the year 9999
        return None


def _failure_data(failed: FailedDelivery) -> dict[str, str]:
    message_id = failed.delivery.message_id
    data = {"Message ID": message_id}
    if failed.delivery.id != message_id:
        data["Transport message ID"] = failed.delivery.id
    if (failure := _handler_failure(failed)) is not None:
        data |= failure.data()
    return {**data, "Pipeline canceled": str(is_being_cancelled())}


def default_policy(mode: TransactionMode, *, can_delay: bool) -> Recoverability:
    """Return the default policy without what the endpoint cannot do."""
    is_none = mode is TransactionMode.NONE
    return Recoverability(immediate=0 if is_none else 5, delayed=3 if can_delay and not is_none else 0)


def require_policy(given: Recoverability) -> Recoverability:
    """Refuse what is no policy."""
    require_type(
        "recoverability", given, Recoverability, "rowbus.Recoverability(…), or a class derived from it"
    )
    check_function(given.decide, "The policy's method", "attempt")
    return given


def require_possible(asked: Recoverability | Retries, mode: TransactionMode, *, can_delay: bool) -> None:
    """Refuse retries that the endpoint cannot give."""
    name = "Retries" if isinstance(asked, Retries) else "Recoverability"
    if mode is TransactionMode.NONE and (asked.immediate > 0 or asked.delayed > 0):
        raise ConfigurationError(
            f"Mode NONE cannot retry, the message is gone: use {name}(immediate=0, delayed=0)."
        )
    if asked.delayed > 0 and not can_delay:
        raise ConfigurationError(
            f"Without delayed delivery there are no delayed retries: use {name}(delayed=0, …)."
        )
