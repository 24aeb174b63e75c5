"""Looks through an error queue, sends messages back to where they failed, or discards them.

Invariant: a retry or discard is one transaction, for all its messages: a message is in one place at any time. Messages
in flight are passed over, and what arrives meanwhile is left for the next time. ServiceControl's acknowledgements,
which wait there for it, are never touched.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.backends import borrow
from rowbus.database.statements import run_steps_now
from rowbus.errors import QueueNotFoundError, StorageError
from rowbus.messages.headers import decode_headers, encode_copied_headers
from rowbus.messages.message import OutgoingMessage, new_message_id
from rowbus.running.bounded import Bounded
from rowbus.settings import AllowedDestinations
from rowbus.transport.queues.destination_rule import ANY_QUEUE, Standing, destination_rule, find_standings
from rowbus.transport.queues.table import queue_table
from rowbus.transport.recoverability import failed_message
from rowbus.transport.recoverability.failed_message import attempts_header, failed_before
from rowbus.transport.recoverability.table import BEFORE_ALL, error_queue_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rowbus.database.sessions import Session
    from rowbus.errors import RowbusError
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import PeekedMessage
    from rowbus.settings import Allowed
    from rowbus.transport.queues.destination_rule import DestinationRule
    from rowbus.transport.queues.table import MovedMessage
    from rowbus.transport.recoverability.failed_message import FailedMessage, Selection
    from rowbus.transport.recoverability.table import Keep

PAGE = 100  # messages looked at, and moved, by one statement

IN_HAND = (
    "in somebody's hands: try again; what is no longer there was sent back or discarded meanwhile (the page's "
    "Operations say by whom)"
)
UNREADABLE = "headers that cannot be read"
NOWHERE = "no queue named where they failed (--to gives one)"
OTHER = "for other reasons like these"
REMEDY = "--allow or --to-any-queue allows more"
MOST_REASONS = 50  # that are counted by themselves
LONGEST_REASON = 200  # characters of what a queue said that refused a message
ITSELF = "failed in the error queue itself (--to gives another queue)"


class Result(NamedTuple):
    """The outcome: how many messages for each queue they went to, and how many stayed, for each reason."""

    moved: Counter[QueueAddress]
    stayed: Counter[str]
    retried: int = 0
    """The number of discarded messages that ServiceControl had sent back, and so waits for."""


class ErrorQueue:
    """One error queue, seen through a session."""

    def __init__(
        self, session: Session, address: QueueAddress, *, person: str = "", keep: Keep | None = None
    ) -> None:
        """Look at a queue. No I/O.

        What is sent back tells that `person` did it, if that is said; what is discarded goes to `keep`, if that is.
        """
        self._session = session
        self._address = address
        self._person = person
        self._keep = keep
        self._table = error_queue_table(address)
        self.acknowledgements = 0
        """The number of acknowledgements for ServiceControl that the last look has passed over so far."""

    def find(self, selection: Selection) -> Iterator[FailedMessage]:
        """Give the messages meant, the oldest first. Raises QueueNotFoundError, StorageError."""
        for page in self._pages(selection):
            yield from page

    def look(self, failed: FailedMessage) -> PeekedMessage | None:
        """Return the whole row of a message, None if it is gone."""
        return self._session.run(self._table.look(failed.row_id))

    def retry(
        self,
        selection: Selection,
        to: QueueAddress | None = None,
        *,
        allowed: Allowed = AllowedDestinations.SAME_SCHEMA,
    ) -> Result:
        """Send the messages meant back to where they failed, or to another queue, in one transaction.

        They leave without the story of their failure and wake their receivers. Where they failed a header says, which
        who may insert into the error queue can write: those that failed elsewhere than is `allowed` stay, by default
        elsewhere than in the error queue's schema; so do those whose queue is unknown, missing or no queue, or refuses
        them, each with its reason. Bodies do not leave the database. Raises QueueNotFoundError (the error queue is
        missing), InvalidAddressError, StorageError; then nothing has been moved.
        """
        moving = _Moving(
            self._session, self._address, to, destination_rule(allowed, self._address), self._person
        )
        with self._session.transaction():
            for page in self._pages(selection):
                moving.move(page)
        return moving.result

    def discard(self, selection: Selection, *, resolve: bool = False) -> Result:
        """Delete the messages meant, in one transaction. Raises QueueNotFoundError, StorageError.

        `resolve`: tell ServiceControl, by acknowledgements in this queue, that failures are over whose messages it had
        sent back: it would wait for what became of them.
        """
        count = asked = retried = 0
        with self._session.transaction():
            for page in self._pages(selection):
                of_ours = [failed.row_id for failed in page if not failed.retry_id]
                count += self._delete(of_ours)
                retried += sum(self._end(failed, resolve=resolve) for failed in page if failed.retry_id)
                asked += len(page)
        moved = count + retried
        return Result(Counter({self._address: moved}), +Counter({IN_HAND: asked - moved}), retried)

    def _delete(self, row_ids: list[str]) -> int:
        if not row_ids:
            return 0
        if self._keep is None:
            return self._session.run(self._table.discard(row_ids))
        return self._session.run(self._keep.take(self._address, row_ids))

    def _end(self, failed: FailedMessage, *, resolve: bool) -> int:
        """Delete a message that ServiceControl had sent back, and tell it so if it is to be told."""
        found = self._delete([failed.row_id])
        if found and resolve:
            told = failed_message.acknowledgement(failed.retry_id, new_message_id(), datetime.now(UTC))
            self._session.run(queue_table(self._address).send(told, notify=True))
        return found

    def retry_some(
        self,
        messages: Sequence[FailedMessage],
        to: QueueAddress | None = None,
        *,
        allowed: Allowed = AllowedDestinations.SAME_SCHEMA,
    ) -> Result:
        """As `retry`, for messages that were found before; those that are gone since are counted with those in flight.

        One transaction; within the caller's, a savepoint.
        """
        moving = _Moving(
            self._session, self._address, to, destination_rule(allowed, self._address), self._person
        )
        with self._session.transaction():
            moving.move([failed for failed in messages if not failed.is_acknowledgement])
        return moving.result

    def discard_some(self, messages: Sequence[FailedMessage]) -> Result:
        """As `discard`, for messages that were found before."""
        row_ids = [failed.row_id for failed in messages if not failed.is_acknowledgement]
        count = self._delete(row_ids)
        return Result(+Counter({self._address: count}), +Counter({IN_HAND: len(row_ids) - count}))

    def retry_edited(
        self,
        failed: FailedMessage,
        body: bytes,
        own: Mapping[str, str],
        *,
        allowed: Allowed = AllowedDestinations.SAME_SCHEMA,
    ) -> Result:
        """Send a new message made of a failed one to where that failed, in place of it, in one transaction.

        It has another id and body, `own` in place of all headers of the application's, and names the failure that it
        was made of. What keeps a message from being sent back keeps this one, too. Raises as `retry`, and
        InvalidHeaderError.
        """
        moving = _Moving(
            self._session, self._address, None, destination_rule(allowed, self._address), self._person
        )
        with self._session.transaction():
            moving.replace(failed, body, own)
        return moving.result

    def _pages(self, selection: Selection) -> Iterator[list[FailedMessage]]:
        """Give the messages meant, page by page, up to the newest there is now."""
        self.acknowledgements = 0
        newest, after = self._session.run(self._table.newest()), BEFORE_ALL
        while newest is not None and after < newest:
            seen = self._session.run(self._table.scan(after, newest, PAGE))
            if not seen:
                return
            after = seen[-1].seq
            failures = [failed for failed in seen if not failed.is_acknowledgement]
            self.acknowledgements += len(seen) - len(failures)
            if meant := [failed for failed in failures if selection.fits(failed)]:
                yield meant


def error_queue_on(connection: object, address: QueueAddress) -> ErrorQueue:
    """Look through an error queue on the user's own synchronous connection, in its transaction if one is open.

    Raises ConfigurationError for what is no connection. No I/O.
    """
    return ErrorQueue(borrow(connection).session(), address)


class _Moving:
    """One retry: where each message goes, and what came of it."""

    def __init__(
        self,
        session: Session,
        error_queue: QueueAddress,
        to: QueueAddress | None,
        rule: DestinationRule,
        person: str,
    ) -> None:
        self._session = session
        self._error_queue = error_queue
        self._to = to
        self._person = person
        self._rule = ANY_QUEUE if to is not None else rule
        self._table = error_queue_table(error_queue)
        self._moves = queue_table(error_queue)
        self._found: dict[QueueAddress, Standing] = Bounded()
        self.result = Result(Counter(), Counter())

    def move(self, page: list[FailedMessage]) -> None:
        """Move what can be moved of a page."""
        by_queue: dict[QueueAddress, list[str]] = {}
        for failed in page:
            destination = self._to or failed.failed_queue
            if reason := self._reason_to_stay(failed, destination):
                self._stay(reason)
            elif destination is not None:
                by_queue.setdefault(destination, []).append(failed.row_id)
        for destination, row_ids in by_queue.items():
            self._move_to(destination, row_ids)

    def replace(self, failed: FailedMessage, body: bytes, own: Mapping[str, str]) -> None:
        """Send an edited message in place of a failed one, if that could be sent back."""
        destination = failed.failed_queue
        if reason := self._reason_to_stay(failed, destination):
            self._stay(reason)
            return
        found = self._session.run(self._table.headers([failed.row_id]))
        if destination is None or not found or not self._session.run(self._table.discard([failed.row_id])):
            self._stay(IN_HAND)
            return
        before = decode_headers(found[0].headers)
        headers = failed_message.edited_headers(before, own) | _told(before, self._person)
        self._session.run(queue_table(destination).send(OutgoingMessage(headers, body), notify=True))
        self.result.moved[destination] += 1

    def _stay(self, reason: str, count: int = 1) -> None:
        """Count messages that stay; beyond so many reasons, of which strangers may make any number, for another."""
        stayed = self.result.stayed
        stayed[reason if reason in stayed or len(stayed) < MOST_REASONS else OTHER] += count

    def _reason_to_stay(self, failed: FailedMessage, destination: QueueAddress | None) -> str | None:
        if not failed.is_readable:
            return UNREADABLE
        if destination is None:
            return NOWHERE
        if destination == self._error_queue:
            return ITSELF
        if not self._rule.allows(destination):
            return f"failed in {destination}, and only {self._rule.allowed} are allowed ({REMEDY})"
        standing = self._standing(destination)
        if standing.reason is None:
            return f"failed in {destination}, which does not exist"
        return f"failed in {destination}: {standing.reason}" if standing.reason else None

    def _standing(self, address: QueueAddress) -> Standing:
        """Say whether an address is that of a queue, which it stays; the database is asked once."""
        if address not in self._found:
            is_named = address == self._to or self._rule.names(address)
            named = [address] if is_named else []
            asked = find_standings([address], self._error_queue, named, keeps=True)
            self._found[address] = (
                run_steps_now(self._session, asked)[address] if address.can_exist else Standing(None)
            )
        return self._found[address]

    def _move_to(self, destination: QueueAddress, row_ids: list[str]) -> None:
        """Move messages together, or each by itself when the queue refuses them: what cannot go, stays."""
        found = self._session.run(self._table.headers(row_ids))
        messages = [message._replace(headers=_retried(message.headers, self._person)) for message in found]
        moved, refused = self._try_to_move(destination, messages), 0
        if moved is None:
            each = [self._move_one(destination, message) for message in messages]
            moved, refused = sum(one or 0 for one in each), each.count(None)
        if moved:
            self.result.moved[destination] += moved
        if in_hand := len(row_ids) - moved - refused:
            self._stay(IN_HAND, in_hand)

    def _try_to_move(self, destination: QueueAddress, messages: list[MovedMessage]) -> int | None:
        """Move messages and return how many; None, and nothing is done, when the queue refuses one of them."""
        try:
            return self._move_all(destination, messages)
        except (QueueNotFoundError, StorageError) as error:
            _raise_outage(error)
            return None

    def _move_one(self, destination: QueueAddress, message: MovedMessage) -> int | None:
        """Move one message and return how many that was; None, counted with the reason, when the queue refuses it."""
        try:
            return self._move_all(destination, [message])
        except (QueueNotFoundError, StorageError) as error:
            _raise_outage(error)
            self._stay(f"{destination} refuses it: {_first_line(error)}")
            return None

    def _move_all(self, destination: QueueAddress, messages: list[MovedMessage]) -> int:
        if not messages:
            return 0
        with self._session.transaction():
            statements = self._moves.move(messages, destination, notify=True)
            return sum(self._session.run(statement) for statement in statements)


def _raise_outage(error: RowbusError) -> None:
    """Raise an error that is no message's fault: then nothing is moved at all."""
    if isinstance(error, StorageError) and error.transient:
        raise error


def _retried(headers: str, person: str) -> str:
    """Return the header text of a message as it was before it failed; it tells who sent it back, if that is known."""
    before = decode_headers(headers)
    return encode_copied_headers(failed_message.retried_headers(before) | _told(before, person))


def _told(headers: Mapping[str, str | None], person: str) -> dict[str, str | None]:
    """Return what a message that is sent back tells of its failure."""
    if not person:
        return {}
    then = f"sent back by {person} at {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return attempts_header(headers, failed_before(headers, then))


def _first_line(error: BaseException) -> str:
    line = str(error).partition("\n")[0]
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}…"
