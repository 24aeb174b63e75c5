"""A shop's messages, made up but complete: their headers are those that our endpoints write, plus what audits add.

Everything comes from one seed, so that a test can compute by hand what the report must say.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header, Identity, encode_copied_headers
from rowbus.messages.outgoing import Content, Options, Origin, compose
from rowbus.messages.timestamps import format_timestamp
from rowbus.transport.recoverability.failure_headers import failed_message

BEGIN = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
AUDIT = QueueAddress("public", "audit")
ERROR = QueueAddress("public", "error")
PATHS = {
    "Shop.PlaceOrder": ("Sales", 0.03, 0.012),
    "Shop.ChargeCard": ("Billing", 0.2, 0.35),
    "Shop.OrderPlaced": ("Shipping", 0.05, 0.02),
    "Shop.ShipOrder": ("Shipping", 0.08, 0.09),
}
"""For each type its endpoint, and the usual seconds of waiting and of work."""


class Sent(NamedTuple):
    """A row of a queue, as the queue source gives it."""

    queue: str
    id: str
    headers: str


class FailingError(RuntimeError):
    """Error that a handler raises."""


class Shop:
    """Makes messages, one after the other."""

    def __init__(self, seed: int = 4) -> None:
        self.random = random.Random(seed)

    def headers(self, type: str, sent: datetime, **more: str | None) -> dict[str, str | None]:
        """Give the headers of a message that was just sent."""
        outgoing = compose(
            Content(b"{}", "application/json", (type,)),
            intent="Send",
            message_id=str(self._uuid()),
            now=sent,
            origin=Origin(None, None),
            options=Options(),
        )
        return {**outgoing.headers, **more}

    def audited(
        self, type: str, sent: datetime, wait: float, work: float, due: datetime | None = None
    ) -> Sent:
        """Give the copy that an endpoint puts into the audit queue."""
        started = (due or sent) + timedelta(seconds=wait)
        headers = self.headers(type, sent)
        headers |= _identity(PATHS[type][0]).processing_headers()
        headers[Header.PROCESSING_STARTED] = format_timestamp(started)
        headers[Header.PROCESSING_ENDED] = format_timestamp(started + timedelta(seconds=work))
        if due is not None:
            headers[Header.DELIVER_AT] = format_timestamp(due)
        return self.row(AUDIT, headers)

    def failed(self, type: str, sent: datetime, after: float, error: BaseException) -> Sent:
        """Give the copy that an endpoint puts into the error queue."""
        endpoint = PATHS[type][0]
        copy = failed_message(
            headers=self.headers(type, sent),
            body=b"{}",
            error=error,
            failed_queue=QueueAddress("public", endpoint),
            identity=_identity(endpoint),
            now=sent + timedelta(seconds=after),
        )
        return self.row(ERROR, copy.headers)

    def row(self, queue: QueueAddress, headers: Mapping[str, str | None]) -> Sent:
        """Give the row of a queue that holds these headers."""
        return Sent(str(queue), str(self._uuid()), encode_copied_headers(headers))

    def day(self, messages: int) -> Iterator[Sent]:
        """Give a morning's messages: one in forty fails, Billing is slow at nine."""
        for _ in range(messages):
            at = BEGIN + timedelta(seconds=self.random.betavariate(2, 2) * 4 * 3600)
            type = self.random.choice(list(PATHS))
            _, wait, work = PATHS[type]
            slow = 6 if type == "Shop.ChargeCard" and at.hour == 9 else 1
            if self.random.random() < 1 / 40:
                yield self.failed(type, at, self.random.uniform(1, 40), raised(self._failure(type)))
            else:
                yield self.audited(type, at, self._about(wait * slow), self._about(work))

    def _about(self, seconds: float) -> float:
        return seconds * self.random.lognormvariate(0, 0.8)

    def _failure(self, type: str) -> BaseException:
        number = self.random.randrange(10**6)
        if type == "Shop.ChargeCard":
            return TimeoutError(f"The bank did not answer within {self.random.randrange(3, 9)} s")
        return FailingError(f"Order {number} of '{self.random.choice(['alice', 'bob'])}' is not known")

    def _uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)


def raised(error: BaseException) -> BaseException:
    """Give the error with a traceback."""
    try:
        raise error
    except type(error) as caught:
        return caught


def _identity(endpoint: str) -> Identity:
    return Identity(endpoint, f"{endpoint.lower()}-1", "0123456789abcdef0123456789abcdef")
