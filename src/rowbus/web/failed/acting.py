"""Sends failed messages back, or discards them, batch by batch in the background.

Invariant: a batch and its note are one transaction. Between two batches no session is held, and a wish to stop is
heard.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from anyio.to_thread import run_sync

from rowbus.errors import ConfigurationError
from rowbus.transport.operations import table as trail
from rowbus.transport.operations.discarded.table import find_obstacle
from rowbus.transport.queues.catalog.looking import refuse_strangers
from rowbus.transport.recoverability.error_queue import ErrorQueue, Result
from rowbus.transport.recoverability.failures.index import holding
from rowbus.web.failed.indexes import FIELDS, FailureQuery, allowed, asked, indexes
from rowbus.web.history import latest
from rowbus.web.operations import Note, State, begin, end, note, start_to_keep
from rowbus.web.pages import Question
from rowbus.web.showing import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.operations.discarded.table import Keep
    from rowbus.transport.operations.table import OperationsTable
    from rowbus.transport.recoverability.failed_message import FailedMessage
    from rowbus.transport.recoverability.failures.index import Failure, FailureIndex
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

    Act = Callable[[ErrorQueue, Sequence[FailedMessage]], Result]

BATCH: Final = 200
MOST_TOLD: Final = 8  # queues or reasons that are told one by one
NOTHING: Final = "Tick the messages that you mean, or search for them; nothing was meant here."


class FormSelection(NamedTuple):
    """The messages of a form: those ticked, or all that its search finds, the oldest first."""

    wanted: FailureQuery
    known: FailureIndex
    failures: list[Failure]

    @property
    def text(self) -> str:
        """The text that each must hold, which only the database can tell."""
        return self.wanted.search.text

    @property
    def _kind(self) -> str:
        """The group, by what it has in common."""
        if not (self.wanted.fields.get("group") and self.failures):
            return ""
        kind = self.failures[0].kind
        return (
            f"of {kind.type or 'no type'}: {kind.exception or 'no exception'}, failed in {kind.failed_queue}"
        )

    @property
    def subject(self) -> str:
        """The selection, for people."""
        fields = {**self.wanted.fields, "group": self._kind}
        said = [f"{name} {value}" for name in FIELDS if (value := fields.get(name))]
        if ticked := self.wanted.fields.get("ticked"):
            said = [ticked]
        return f"{self.wanted.queue}: {', '.join(said) or 'all'}"


async def meant(visit: Visit) -> FormSelection:
    """Find what a form means. Raises ConfigurationError for one that means nothing."""
    form = {name: value for name, value in visit.form.items() if name != "row"}
    rows = frozenset(visit.form.getlist("row"))
    if form.get("which") == "ticked":
        if not rows:
            raise ConfigurationError(NOTHING)
        form = {"queue": form.get("queue", ""), "ticked": plural(len(rows), "message")}
    wanted = asked(form, visit.site.addresses)
    index = await indexes(visit.site).fresh(visit, wanted.queue)
    failures = await run_sync(_meant, index, wanted, rows if "ticked" in form else None)
    return FormSelection(wanted, index, failures)


def _meant(index: FailureIndex, wanted: FailureQuery, rows: frozenset[str] | None) -> list[Failure]:
    failures = (
        wanted.search.among(index.failures)
        if rows is None
        else (failure for failure in index.failures if failure.failed.row_id in rows)
    )
    return list(failures)[::-1]


# ------------------------------------------------------------------------------------------------------ the question


async def ask_to_retry(visit: Visit) -> Question:
    """Ask whether messages are to go back: how many, and where to."""
    found = await meant(visit)
    return Question(
        title=f"Send {_how_many(found)} back?",
        text=f"Each goes from {found.wanted.queue} to the queue in which it failed, without the story of its failure, "
        "and is processed anew.",
        button="Send them back" if len(found.failures) != 1 else "Send it back",
        subject=found.subject,
        details=(*await _others(visit, found), *_destinations(found.failures), *_notes(found)),
        back=back(visit, found.wanted),
    )


async def ask_to_discard(visit: Visit) -> Question:
    """Ask whether messages are to be deleted. Raises ConfigurationError where they cannot be kept for a week."""
    if obstacle := await visit.read(find_obstacle, visit.site.addresses):
        raise ConfigurationError(f"Nothing was discarded: {obstacle}")
    found = await meant(visit)
    return Question(
        title=f"Discard {_how_many(found)}?",
        text=f"They leave {found.wanted.queue}. For a week, the page of this operation brings them back.",
        button="Discard",
        subject=found.subject,
        details=(*await _others(visit, found), *_kinds(found.failures), *_notes(found)),
        back=back(visit, found.wanted),
    )


def back(visit: Visit, wanted: FailureQuery) -> str:
    """Return the address of the list that the form came from."""
    return visit.url("failed", wanted.query)


def _how_many(found: FormSelection) -> str:
    many = plural(len(found.failures), "message")
    return f"those of {many} that hold {found.text!r}" if found.text else many


def _notes(found: FormSelection) -> list[str]:
    if found.known.unread:
        return [f"The queue is being read: {found.known.unread:,} older messages are left out."]
    return []


async def _others(visit: Visit, found: FormSelection) -> list[str]:
    """Tell who does something to the same messages now."""
    rows = await visit.read(latest, visit.site.addresses)
    return [
        f"{row.person} began this at {row.began:%H:%M:%S} UTC, and it runs: {row.action}, {row.done:,} done."
        for row in rows
        if row.is_running and row.subject == found.subject
    ]


def _destinations(failures: Sequence[Failure]) -> list[str]:
    queues = Counter(str(failure.kind.failed_queue or "") for failure in failures)
    return _told(
        (
            f"{plural(count, 'message')} to {name}"
            if name
            else f"{plural(count, 'message')} without a queue: they stay"
        )
        for name, count in queues.most_common()
    )


def _kinds(failures: Sequence[Failure]) -> list[str]:
    kinds = Counter((failure.kind.exception, failure.kind.type) for failure in failures)
    return _told(
        f"{count:,} of {type_name}: {exception}" for (exception, type_name), count in kinds.most_common()
    )


def _told(lines: Iterable[str]) -> list[str]:
    told = list(lines)
    return told if len(told) <= MOST_TOLD else [*told[:MOST_TOLD], f"and {len(told) - MOST_TOLD:,} more"]


# ----------------------------------------------------------------------------------------------------------- the work


async def retry(visit: Visit, operation: Operation) -> str:
    """Send messages back, batch by batch."""
    return await _carry_out(
        visit, operation, lambda errors, messages: errors.retry_some(messages), "sent back", keep=None
    )


async def discard(visit: Visit, operation: Operation) -> str:
    """Discard messages, batch by batch."""
    keep = await visit.write(start_to_keep, visit.site.addresses, operation)
    return await _carry_out(
        visit, operation, lambda errors, messages: errors.discard_some(messages), "discarded", keep=keep
    )


async def _carry_out(visit: Visit, operation: Operation, act: Act, verb: str, *, keep: Keep | None) -> str:
    found = await meant(visit)
    operation.advance(0, total=len(found.failures))
    table = await visit.write(
        begin, visit.site.addresses, operation, Note(str(found.wanted.queue), operation.total)
    )
    errors = partial(ErrorQueue, person=operation.who, keep=keep)
    total = Result(Counter(), Counter())
    state, text = State.FAILED, "it failed"
    try:
        for start in range(0, len(found.failures), BATCH):
            if operation.stopping:
                break
            batch = found.failures[start : start + BATCH]
            paths = visit.site.settings.mask
            result = await visit.write(_act, table, operation, found, batch, act, errors, paths)
            total.moved.update(result.moved)
            total.stayed.update(result.stayed)
            moved = result.moved.total()
            operation.advance(moved, stayed=len(batch) - moved)
        state = State.STOPPED if operation.stopping else State.DONE
        text = _told_result(total, verb, await visit.write(trail.beside, table, operation.id))
    finally:
        await visit.write(end, table, operation, state, text)
    return text


def _act(  # noqa: PLR0917 - called through a thread
    session: Session,
    table: OperationsTable | None,
    operation: Operation,
    found: FormSelection,
    batch: list[Failure],
    act: Act,
    errors: Callable[[Session, QueueAddress], ErrorQueue],
    paths: Sequence[str],
) -> Result:
    refuse_strangers(session, found.wanted.queue)
    holds = holding(session, found.known, batch, found.text)
    failures = allowed(session, found.wanted.queue, holds, found.text, paths)
    with session.transaction():
        messages = [failure.failed for failure in failures]
        result = (
            act(errors(session, found.wanted.queue), messages) if messages else Result(Counter(), Counter())
        )
        note(session, table, operation, result.moved.total(), result.stayed.total())
    return result


def _told_result(total: Result, verb: str, beside: Sequence[str]) -> str:
    moved = [f"{plural(count, 'message')} {verb}: {queue}" for queue, count in total.moved.most_common()]
    stayed = [f"{plural(count, 'message')} stayed: {reason}" for reason, count in total.stayed.most_common()]
    return "\n".join(_told([*(moved or [f"No message was {verb}."]), *stayed, *beside]))
