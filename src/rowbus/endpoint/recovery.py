"""Carries out what the recoverability policy decides about failed messages.

Invariant: the policy decides, this only acts; the copy in the error queue leaves with the transaction that consumes
the original, so the message is in exactly one place.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowbus.endpoint.pipeline import FAILURE_DATA
from rowbus.errors import MalformedHeadersError
from rowbus.model.dispatch import Send
from rowbus.model.failure import failed_message, poison_message
from rowbus.model.headers import Header, decode_headers
from rowbus.model.recoverability import Discard, FailedAttempt, ImmediateRetry, MoveToErrorQueue
from rowbus.services.delivery import ErrorResult
from rowbus.settings import TransactionMode

if TYPE_CHECKING:
    from rowbus.model.address import QueueAddress
    from rowbus.model.identity import Identity
    from rowbus.model.message import MessageRow
    from rowbus.model.recoverability import Recoverability, Verdict
    from rowbus.services.delivery import FailedDelivery

logger = logging.getLogger("rowbus.recoverability")


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
    ) -> None:
        """Act for the endpoint that receives from `address`."""
        self._policy = policy
        self._error_queue = error_queue
        self._address = address
        self._identity = identity
        self._mode = mode

    async def on_error(self, failed: FailedDelivery) -> ErrorResult:
        """Ask the policy about a failed message and carry its verdict out."""
        delivery = failed.delivery
        message_id = delivery.headers.get(Header.MESSAGE_ID) or delivery.id
        verdict = self._possible(
            self._policy.decide(FailedAttempt(failed.error, failed.failures, delivery.headers))
        )
        if isinstance(verdict, ImmediateRetry):
            logger.info(
                "Immediate Retry is going to retry message '%s' because of an exception: %r",
                message_id,
                failed.error,
            )
            return ErrorResult.RETRY_REQUIRED
        if isinstance(verdict, Discard):
            logger.info(
                "Discarding message '%s' (%s) because of an exception: %r",
                message_id,
                verdict.reason,
                failed.error,
            )
            return ErrorResult.HANDLED
        self._move(failed, verdict.queue or self._error_queue, message_id)
        return ErrorResult.HANDLED

    def on_poison(self, row: MessageRow, error: BaseException) -> Send:
        """Return the error-queue message for a row that cannot be read, complete enough for ServiceControl."""
        now = datetime.now(UTC)
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
        return Send(self._error_queue, copy)

    def _possible(self, verdict: Verdict) -> Verdict:
        if self._mode is TransactionMode.NONE and isinstance(verdict, ImmediateRetry):
            logger.warning(
                "The policy asks for a retry, which mode NONE cannot give; the message moves to the error queue"
            )
            return MoveToErrorQueue()
        return verdict

    def _move(self, failed: FailedDelivery, queue: QueueAddress, message_id: str) -> None:
        logger.error(
            "Moving message '%s' to the error queue '%s' because processing failed due to an exception:",
            message_id,
            queue,
            exc_info=failed.error,
        )
        delivery = failed.delivery
        copy = failed_message(
            headers={**delivery.headers, Header.MESSAGE_ID: message_id},
            body=delivery.body,
            error=failed.error,
            failed_queue=self._address,
            identity=self._identity,
            now=datetime.now(UTC),
            data=_failure_data(failed, message_id),
        )
        delivery.send(Send(queue, copy))


def _failure_data(failed: FailedDelivery, message_id: str) -> dict[str, str]:
    data = {"Message ID": message_id}
    if failed.delivery.id != message_id:
        data["Transport message ID"] = failed.delivery.id
    noted = failed.delivery.items.get(FAILURE_DATA)
    return {**data, **noted} if isinstance(noted, dict) else data
