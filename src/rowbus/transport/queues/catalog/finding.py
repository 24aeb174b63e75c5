"""Tables found by their shape, and which of them are read.

Invariant: of a table whose owner is not trusted nothing is read but what the catalogue says of it; the others are told
of, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.transport.queues.catalog.looking import ask_about

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.catalog.ownership import Ownership
    from rowbus.transport.queues.catalog.table import Catalog
    from rowbus.transport.queues.diagnosis import Storage
    from rowbus.transport.queues.shape import QueueShape


class FoundTables(NamedTuple):
    """Tables that are read, and those that are not, with the reason."""

    tables: list[QueueAddress]
    left_out: dict[QueueAddress, str]


def sort_out(session: Session, catalog: Catalog, addresses: Iterable[QueueAddress]) -> FoundTables:
    """Tell the tables that are read from those of strangers."""
    found = list(addresses)
    left_out = _strangers(session, catalog, found)
    return FoundTables([address for address in found if address not in left_out], left_out)


def find_tables(session: Session, catalog: Catalog, columns: Mapping[str, str]) -> FoundTables:
    """Find the tables that have these columns and no other, by their types; tell those of strangers from them."""
    asked = catalog.find_tables(columns)
    return FoundTables([], {}) if asked is None else sort_out(session, catalog, session.run(asked))


def find_queues(session: Session, catalog: Catalog, named: Iterable[QueueAddress] = ()) -> list[QueueShape]:
    """Describe every table that is a queue or nearly one, and all those named that exist; raises StorageError."""
    shapes = session.run(catalog.find_queues(named))
    strangers = _strangers(session, catalog, [shape.address for shape in shapes])
    told = [_told(shape, strangers.get(shape.address, "")) for shape in shapes]
    return _positioned(session, catalog, told)


def find_storages(
    session: Session, catalog: Catalog, addresses: Iterable[QueueAddress]
) -> tuple[list[Storage], list[QueueAddress]]:
    """Say what tables that are read occupy, and which of them are locked."""
    answers, locked = ask_about(session, catalog, list(addresses), catalog.queue_storage)
    return [storage for answer in answers for storage in answer], locked


def _strangers(
    session: Session, catalog: Catalog, addresses: Sequence[QueueAddress]
) -> dict[QueueAddress, str]:
    asked = catalog.owners(addresses) if addresses else None
    found: Mapping[QueueAddress, Ownership] = {} if asked is None else session.run(asked)
    return {address: whose.reason for address, whose in found.items() if whose.reason}


def _told(shape: QueueShape, reason: str) -> QueueShape:
    return shape._replace(readable=shape.readable and not reason, left_out=reason)


def _positioned(session: Session, catalog: Catalog, shapes: list[QueueShape]) -> list[QueueShape]:
    """Say where the sequences stand, but for those that somebody alters."""
    asked = [shape for shape in shapes if shape.sequence is not None and not shape.left_out]
    answers, _locked = ask_about(session, catalog, asked, catalog.positions)
    positions = {address: at for answer in answers for address, at in answer.items()}
    return [_at(shape, positions) for shape in shapes]


def _at(shape: QueueShape, positions: Mapping[QueueAddress, int | None]) -> QueueShape:
    if shape.sequence is None or shape.address not in positions:
        return shape
    return shape._replace(sequence=shape.sequence._replace(position=positions[shape.address]))
