"""`rowbus errors`: the messages that endpoints have given up on, shown, put back and discarded.

Invariant: `retry` and `discard` say which messages they mean, are one transaction each, and only `discard` takes
messages away: it asks first, and `undiscard` brings them back for a week.
"""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime
from itertools import islice
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.errors import listing as error_listing
from rowbus.cli.options import (
    Database,
    Json,
    Schema,
    Verbose,
    addresses_in,
    noting,
    open_database,
    queue_addresses,
    queue_names,
)
from rowbus.cli.output import complain, say, show_json, show_table, show_text
from rowbus.contracts.published import find_published
from rowbus.messages.timestamps import with_zone
from rowbus.settings import AllowedDestinations
from rowbus.transport.operations.discarded.table import (
    begin_to_keep,
    bring_back,
    find_discarded,
    find_obstacle,
)
from rowbus.transport.recoverability.error_queue import ErrorQueue, Result
from rowbus.transport.recoverability.failed_message import ALL, Selection, group

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress

app = typer.Typer(
    help="Look through an error queue, and put its messages back.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TIME_HELP = "a time such as 2026-05-01T12:00 (UTC unless it says another zone)"


def moment(text: str) -> datetime:
    """Read a point in time as people type it."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not {TIME_HELP}.") from None
    return with_zone(time)


Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="Ids of messages, or of their rows.", show_default=False),
]
Exceptions = Annotated[
    list[str] | None,
    typer.Option("--exception", metavar="NAME", help="Those with this exception, in full or its last part."),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="NAME", help="Those of this message type, in full or its last part."),
]
FailedIn = Annotated[
    str | None,
    typer.Option(
        "--failed-in", metavar="QUEUE", help="Those that failed in this queue.", autocompletion=queue_names
    ),
]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--since", metavar="TIME", parser=moment, help=f"Those that failed at or after {TIME_HELP}."
    ),
]
Until = Annotated[
    datetime | None, typer.Option("--until", metavar="TIME", parser=moment, help="Those that failed before.")
]
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]
ErrorQueueName = Annotated[
    str,
    typer.Option(
        "--error-queue", metavar="QUEUE", help="The error queue to look through.", autocompletion=queue_names
    ),
]


def _selection(  # noqa: PLR0917 - in the order of the options
    ids: list[str] | None,
    exceptions: list[str] | None,
    types: list[str] | None,
    failed_in: QueueAddress | None,
    since: datetime | None,
    until: datetime | None,
) -> Selection:
    return Selection(
        frozenset(ids or ()), frozenset(exceptions or ()), frozenset(types or ()), failed_in, since, until
    )


def _addresses(
    error_queue: str, other: str | None, names: Addresses
) -> tuple[QueueAddress, QueueAddress | None]:
    first, *second = queue_addresses(filter(None, (error_queue, other)), names)
    return first, second[0] if second else None


# -------------------------------------------------------------------------------------------------------------- list


@app.command("list")
def list_(  # noqa: PLR0913 - an option is a parameter
    *,
    each: Annotated[bool, typer.Option("--each", help="List the messages, not groups of them.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Most messages with --each.")] = 20,
    exceptions: Exceptions = None,
    types: Types = None,
    failed_in: FailedIn = None,
    since: Since = None,
    until: Until = None,
    error_queue: ErrorQueueName = "error",
    schema: Schema = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Count the messages of the error queue by exception, message type and the queue where they failed.

    With --each the messages themselves, the oldest first. Exit code 1: there is none.
    """
    address, failed_queue = _addresses(error_queue, failed_in, addresses_in(database, schema))
    selection = _selection(None, exceptions, types, failed_queue, since, until)
    with open_database(database).session() as session:
        errors = ErrorQueue(session, address)
        found = errors.find(selection)
        listing = (
            error_listing.Each(list(islice(found, limit))) if each else error_listing.Groups(group(found))
        )
    if as_json:
        show_json(listing.as_json())
    elif listing.rows():
        show_table(listing.columns, listing.rows())
    _note_acknowledgements(errors)
    if not listing.rows():
        _complain_of_none(errors, address, selection)


# -------------------------------------------------------------------------------------------------------------- show


@app.command()
def show(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Id of a message, or of its row.")],
    *,
    error_queue: ErrorQueueName = "error",
    schema: Schema = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Show all that is known of a failed message: its stack trace, its headers and its body.

    Exit code 1: there is no such message.
    """
    names = addresses_in(database, schema)
    address, _ = _addresses(error_queue, None, names)
    selection = Selection(frozenset((message_id,)))
    with open_database(database).session() as session:
        errors = ErrorQueue(session, address)
        rows = [(failed, row) for failed in errors.find(selection) if (row := errors.look(failed))]
        published = find_published(session, names) if rows else []
    found = [(failed, row, error_listing.misfits_of(published, failed, row)) for failed, row in rows]
    if as_json:
        show_json([error_listing.whole_json(*one) for one in found])
    elif found:
        show_text("\n\n".join(error_listing.in_full(*one) for one in found))
    if not found:
        _complain_of_none(errors, address, selection)


# ------------------------------------------------------------------------------------------------------------- retry


def _refuse_yes(given: bool) -> bool:
    if given:
        raise typer.BadParameter(
            "retry asks no question, so there is none to answer: leave -y out. To put all messages back, give --all.",
            param_hint="-y",
        )
    return given


NoQuestion = Annotated[bool, typer.Option("--yes", "-y", hidden=True, callback=_refuse_yes)]


@app.command()
def retry(  # noqa: PLR0913 - an option is a parameter
    ids: Ids = None,
    *,
    exceptions: Exceptions = None,
    types: Types = None,
    failed_in: FailedIn = None,
    since: Since = None,
    until: Until = None,
    everything: Everything = False,
    to: Annotated[
        str | None, typer.Option("--to", metavar="QUEUE", help="Send them here, not where they failed.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="QUEUE",
            help="Send to this queue only; may be given again. * as the table of an address: all of its schema.",
        ),
    ] = None,
    to_any_queue: Annotated[
        bool, typer.Option("--to-any-queue", help="Send to any queue that a message says it failed in.")
    ] = False,
    error_queue: ErrorQueueName = "error",
    schema: Schema = None,
    as_json: Json = False,
    _yes: NoQuestion = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Send messages back to the queues where they failed, in one transaction, with their retries counted anew.

    Puts back the messages that fit all the options. A message's headers name the queue where it failed, and every role
    that may insert into the error queue can write them: so only queues of the error queue's schema get messages, unless
    --allow or --to-any-queue says otherwise. Messages for other queues, for a queue that is unknown, missing, no queue
    or refuses them, and messages in flight stay and are counted. Exit code 1: nothing went back.
    """
    names = addresses_in(database, schema)
    address, failed_queue = _addresses(error_queue, failed_in, names)
    selection = _selection(ids, exceptions, types, failed_queue, since, until)
    _refuse_nothing(selection, everything=everything)
    destination = queue_addresses([to], names)[0] if to else None
    allowed = _allowed(allow, to_any_queue=to_any_queue)
    if destination == address:
        raise typer.BadParameter("that is where they are.", param_hint="--to")
    with (
        open_database(database).session() as session,
        noting(session, names, "retry", address, str(selection)) as note,
        session.transaction(),
    ):
        errors = ErrorQueue(session, address, person=note.person)
        result = errors.retry(selection, destination, allowed=allowed)
        note(result.moved.total(), result.stayed.total())
    _report(result, "Sent {count} back to {queue}.", "retried", as_json=as_json)
    _complain_of_stayed(errors, result, address, selection)


# ----------------------------------------------------------------------------------------------------------- discard


@app.command()
def discard(  # noqa: PLR0913 - an option is a parameter
    ids: Ids = None,
    *,
    exceptions: Exceptions = None,
    types: Types = None,
    failed_in: FailedIn = None,
    since: Since = None,
    until: Until = None,
    everything: Everything = False,
    resolve: Annotated[
        bool,
        typer.Option("--resolve", help="Tell ServiceControl that the failures it had retried are over."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    for_good: Annotated[
        bool, typer.Option("--for-good", help="Discard also where the role may keep nothing for a week.")
    ] = False,
    error_queue: ErrorQueueName = "error",
    schema: Schema = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Take messages out of the error queue, in one transaction; `undiscard` brings them back for a week.

    Those that fit all the options are meant. Asks first; without a terminal, --yes must be given. Exit code 1:
    nothing was discarded. On SQL Server, and where the role may not keep them, they are gone for good: then it says so
    before it asks, and names the grant; --yes alone does not do that on PostgreSQL, --for-good beside it does.
    """
    names = addresses_in(database, schema)
    address, failed_queue = _addresses(error_queue, failed_in, names)
    selection = _selection(ids, exceptions, types, failed_queue, since, until)
    _refuse_nothing(selection, everything=everything)
    location = open_database(database)
    with location.session() as session:
        kept = _can_be_kept(session, names, refuses=yes and not for_good)
        if not yes:
            where = location.name if kept else f"{location.name} for good"
            _confirm(ErrorQueue(session, address), selection, address, where, resolve=resolve)
        keep = begin_to_keep(session, names, token_hex(8)) if kept else None
        identity = keep.operation if keep is not None else ""
        errors = ErrorQueue(session, address, keep=keep)
        act = (names, "discard", address, str(selection), identity)
        with noting(session, *act) as note, session.transaction():
            result = errors.discard(selection, resolve=resolve)
            note(result.moved.total(), result.stayed.total())
    _report(result, "Discarded {count} of {queue}.", "discarded", as_json=as_json)
    if result.retried:
        complain(_told_of_retried(result.retried, resolve=resolve))
    _complain_of_stayed(errors, result, address, selection)


@app.command()
def undiscard(
    operation: Annotated[
        str | None,
        typer.Argument(metavar="OPERATION", help="What discarded them.  [default: the latest]"),
    ] = None,
    *,
    error_queue: ErrorQueueName = "error",
    schema: Schema = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Bring back into the error queue what the latest discard of the last week took out of it, or another one.

    Exit code 1: there is none.
    """
    names = addresses_in(database, schema)
    address, _ = _addresses(error_queue, None, names)
    with open_database(database).session() as session:
        found = [one for one in find_discarded(session, names) if one.queue == str(address)]
        meant = [one for one in found if operation in {None, one.operation}][:1]
        result = Result(Counter(), Counter())
        for one in meant:
            with (
                noting(session, names, "undo a discard", address, one.operation) as note,
                session.transaction(),
            ):
                result.moved[address] += bring_back(session, names, one)
                note(result.moved.total())
    _report(result, "Brought {count} back to {queue}.", "returned", as_json=as_json)
    if not meant:
        complain(f"Nothing that was discarded of {address} in the last week can be brought back.")
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------------------------------- parts


def _can_be_kept(session: Session, names: Addresses, *, refuses: bool) -> bool:
    """Return whether discarded messages can be kept for a week; print the missing right, or raise BadParameter."""
    if names.backend != "postgresql":
        return False
    obstacle = find_obstacle(session, names)
    if obstacle and refuses:
        raise typer.BadParameter(
            f"nothing was discarded, for it would be gone for good: {obstacle} Or give --for-good, too.",
            param_hint="--yes",
        )
    if obstacle:
        complain(f"What is discarded is gone for good: {obstacle}")
    return not obstacle


def _refuse_nothing(selection: Selection, *, everything: bool) -> None:
    if selection == ALL and not everything:
        raise typer.BadParameter(
            "say which: ids, --exception, --type, --failed-in, --since, --until, or --all."
        )
    if selection != ALL and everything:
        raise typer.BadParameter("means all of them; leave out the other options.", param_hint="--all")


def _allowed(queues: list[str] | None, *, to_any_queue: bool) -> AllowedDestinations | tuple[str, ...]:
    if queues and to_any_queue:
        raise typer.BadParameter("allows every queue; leave --allow out.", param_hint="--to-any-queue")
    if to_any_queue:
        return AllowedDestinations.ANY_QUEUE
    return tuple(queues) if queues else AllowedDestinations.SAME_SCHEMA


def _confirm(
    errors: ErrorQueue, selection: Selection, address: QueueAddress, where: str, *, resolve: bool
) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on; add --yes.", param_hint="--yes")
    known = [bool(failed.retry_id) for failed in errors.find(selection)]
    if any(known):
        complain(_told_of_retried(sum(known), resolve=resolve))
    typer.confirm(f"Delete {_messages(len(known))} of {address} in {where}?", abort=True, err=True)


def _told_of_retried(count: int, *, resolve: bool) -> str:
    effect = (
        "is told that they are over"
        if resolve
        else 'goes on showing them as "retry issued" without --resolve'
    )
    return f"{_messages(count)} had been retried by ServiceControl, which {effect}"


def _report(result: Result, sentence: str, key: str, *, as_json: bool) -> None:
    if as_json:
        show_json({key: _plain(result.moved), "stayed": _plain(result.stayed)})
        return
    for queue, count in result.moved.items():
        if count:
            say(sentence.format(count=_messages(count), queue=queue))


def _complain_of_stayed(
    errors: ErrorQueue, result: Result, address: QueueAddress, selection: Selection
) -> None:
    _note_acknowledgements(errors)
    for reason, count in result.stayed.items():
        complain(f"{_messages(count)} stayed in {address}: {reason}")
    if not result.moved.total():
        if not result.stayed:
            _complain_of_none(errors, address, selection)
        raise typer.Exit(1)


def _note_acknowledgements(errors: ErrorQueue) -> None:
    if count := errors.acknowledgements:
        complain(f"left out: {count} of ServiceControl's acknowledgements, which it takes from this queue")


def _complain_of_none(errors: ErrorQueue, address: QueueAddress, selection: Selection) -> None:
    if selection != ALL:
        complain(f"{address} has no such message")
    else:
        complain(f"{address} has no failed message" if errors.acknowledgements else f"{address} is empty")
    raise typer.Exit(1)


def _plain(counts: Counter[QueueAddress] | Counter[str]) -> dict[str, int]:
    return {str(name): count for name, count in counts.items()}


def _messages(count: int) -> str:
    return f"{count} message" if count == 1 else f"{count} messages"
