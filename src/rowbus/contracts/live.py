"""A contract against a database: what its endpoints published, what others there publish, and messages that wait.

Invariant: reads only; what waits is compared with what the contract's own handlers take.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rowbus.contracts.bodies import find_misfits
from rowbus.contracts.comparison import Break, compare
from rowbus.contracts.conflicts import find_conflicts_with
from rowbus.contracts.contract import PublishedContract
from rowbus.transport.queues.catalog.looking import looking
from rowbus.transport.recoverability.table import error_queue_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.contracts.contract import Contract
    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import PeekedMessage

_NOW: Final = datetime.min.replace(tzinfo=UTC)  # a contract that nobody has published yet has no time


def compare_with_published(new: Contract, published: Sequence[PublishedContract]) -> list[Break]:
    """Return what breaks when programs of `new` take the place of its endpoints, beside those of others. No I/O."""
    names = {party.name for party in new.parties}
    found = [one for each in published if each.endpoint in names for one in compare(each.contract, new)]
    others = [one for one in published if one.endpoint not in names]
    coming = PublishedContract(new.title, "", new, _NOW, _NOW)
    found += [Break(one.message, one.text) for one in find_conflicts_with(coming, others)]
    return list(dict.fromkeys(found))


def compare_with_messages(session: Session, new: Contract, queue: QueueAddress, last: int) -> list[Break]:
    """Return what handlers of `new` would refuse of the last messages of a queue, a line for each kind of misfit.

    In a transaction of its own. Raises QueueNotFoundError, NotLookedAtError, StorageError.
    """
    owners = [
        PublishedContract(
            party.name, "", new._replace(parties=(party._replace(queue=queue.canonical),)), _NOW, _NOW
        )
        for party in new.parties
    ]
    with looking(session, queue):
        rows = list(_last(session, queue, last))
    counted = Counter(
        (kind, told) for kind, row in rows for told in find_misfits(owners, queue, kind, row.body or b"")
    )
    of = f"the last {last:,} messages of {queue}" if last > 1 else f"the last message of {queue}"
    return [Break(kind, f"{count:,} of {of}: {told}") for (kind, told), count in counted.items()]


def _last(session: Session, queue: QueueAddress, last: int) -> Iterator[tuple[str, PeekedMessage]]:
    table = error_queue_table(queue)
    newest = session.run(table.newest()) or 0
    for one in session.run(table.scan(newest - last, newest, last)):
        row = session.run(table.look(one.row_id))
        if row is not None:
            yield one.type, row
