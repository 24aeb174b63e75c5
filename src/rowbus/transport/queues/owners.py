"""Owners of what queues are built upon: a stranger's table, or the function of a trigger, would run with our rights.

An object is looked at after the statements that make it where it is missing, in their transaction: whoever made it
before, or at the same moment, is known by then. On PostgreSQL; elsewhere what is in a schema belongs to its owner.

Invariant: reads catalogues only, and locks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rowbus.database.ownership import Foreign, refusal
from rowbus.database.statements import Statement, load, no_rows, raw_source, scalar
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.catalog.ownership import LIFTED, Ownership

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rowbus.database.statements import Decode, Rows, Steps

T = TypeVar("T")

_FAILING: Final = "Failed to look for objects of others"
_CATALOG: Final = "transport/queues/catalog/sql/postgresql"
_NOTIFY_FUNCTION: Final = "transport/queues/sql/postgresql/create_notify_function.sql"

_GIVE: Final = "see what was made there, and have a superuser drop it or give it to the owner of the queues"
_RENEW: Final = "make it anew: `rowbus queue create QUEUE --notify-trigger`"
_HIDDEN: Final = "row security applies to this role, and hides rows from it without an error"
_GRANT: Final = "revoke that, as `rowbus schema grants --queue QUEUE --send --role ROLE` prints it"


class Fault(NamedTuple):
    """The fault in a table's surroundings, and what to do about it."""

    table: str
    text: str
    advice: str
    is_grave: bool
    """Whether it runs somebody's code with the rights of those who send."""


def refuse_foreign(*addresses: QueueAddress, read: Collection[QueueAddress] = ()) -> Steps[None]:
    """Raise ConfigurationError for tables, and functions of their triggers, of roles that this one cannot trust.

    Also for those to be `read` of which row security may hide rows from this role, without an error. One question.
    """
    asked = dict.fromkeys((*addresses, *read))
    if not (_owned(asked) and (yield from is_shared())):
        return
    found = yield from _find_ownerships(asked)
    foreign = _all_foreign({address: found[address] for address in addresses if address in found})
    if foreign:
        raise ConfigurationError(refusal(foreign, "the queues"))
    hidden = _hidden({address: found[address] for address in read if address in found})
    if hidden:
        raise ConfigurationError(f"{', '.join(hidden)}: {_HIDDEN}. {LIFTED[0].upper()}{LIFTED[1:]}.")


def refuse_foreign_schema(schema: str) -> Steps[None]:
    """Raise ConfigurationError for a schema of a role that this one cannot trust."""
    if not (yield from is_shared()):
        return
    owner: str | None = yield _asked([schema], [""], _schema_owner)
    if owner is not None:
        raise ConfigurationError(refusal([Foreign(f"schema {schema}", owner)], "the queues"))


def is_shared() -> Steps[bool]:
    """Say whether there may be something to refuse: all that is here costs less to look at than what tables use.

    True also where row security hides rows from this role, and where too much is here to look at.
    """
    query = load(f"{_CATALOG}/is_shared.sql", failing="Failed to ask whose the objects of this database are")
    shared: bool = yield Statement(query, {}, scalar)
    return shared


def find_faults(*addresses: QueueAddress) -> Steps[list[Fault]]:
    """Find what is wrong with who owns tables, what their triggers run, and who may choose the places of messages."""
    found = yield from _find_ownerships(addresses)
    hidden = (Fault(table, _HIDDEN, LIFTED, is_grave=True) for table in _hidden(found))
    tables = _owned(addresses)
    if not tables:
        return []
    altered: list[Fault] = yield _altered(tables)
    whole: list[Fault] = yield _whole_inserts(tables)
    return [*map(_fault, _all_foreign(found)), *hidden, *altered, *whole]


def guard(addresses: Iterable[QueueAddress], schemas: Iterable[str] = ()) -> list[Statement[None]]:
    """Refuse in a script or a migration, where nobody reads an answer: the statement itself fails.

    It trusts fewer roles, so that people can read it: none that this one is a member of.
    """
    tables = _owned(addresses)
    query = load(f"{_CATALOG}/refuse_foreign.sql", failing=_FAILING, prepare=False)
    return [Statement(query, {"tables": tables, "schemas": [*schemas]}, no_rows)] if tables else []


def find_owners(
    addresses: Iterable[QueueAddress], beside: QueueAddress | None = None
) -> Statement[Mapping[QueueAddress, Ownership]]:
    """Find the owners of tables, but for missing ones; this role trusts the owner of the queue `beside`, too.

    Reads nothing of theirs, and waits for nobody.
    """
    named = list(addresses)
    return _asked([one.schema for one in named], [one.table for one in named], _ownerships, beside)


def _asked(
    schemas: list[str], tables: list[str], decode: Decode[T], beside: QueueAddress | None = None
) -> Statement[T]:
    query = load(f"{_CATALOG}/owners.sql", failing="Failed to ask whose tables these are")
    trusted = {
        "beside_schema": None if beside is None else beside.schema,
        "beside_table": None if beside is None else beside.table,
    }
    return Statement(query, {"schemas": schemas, "tables": tables, **trusted}, decode)


def _altered(tables: list[str]) -> Statement[list[Fault]]:
    query = load(f"{_CATALOG}/find_altered.sql", failing=_FAILING, prepare=False)
    _, body, _ = raw_source(_NOTIFY_FUNCTION).split("$function$")
    return Statement(query, {"tables": tables, "body": body}, _altered_faults)


def _whole_inserts(tables: list[str]) -> Statement[list[Fault]]:
    query = load(f"{_CATALOG}/find_whole_inserts.sql", failing=_FAILING, prepare=False)
    return Statement(query, {"tables": tables}, _whole_insert_faults)


def _owned(addresses: Iterable[QueueAddress]) -> list[str]:
    """Return the names of tables that have owners of their own."""
    return [str(address) for address in addresses if address.backend == QueueAddress.backend]


def _find_ownerships(addresses: Iterable[QueueAddress]) -> Steps[Mapping[QueueAddress, Ownership]]:
    asked = [address for address in addresses if address.backend == QueueAddress.backend]
    return (yield find_owners(asked)) if asked else {}


def _all_foreign(found: Mapping[QueueAddress, Ownership]) -> list[Foreign]:
    """Return tables, and what they run, of roles that this one cannot trust; where they are, it trusts the schema's."""
    return [foreign for address, whose in found.items() for foreign in _foreign(str(address), whose)]


def _hidden(found: Mapping[QueueAddress, Ownership]) -> list[str]:
    return [str(address) for address, whose in found.items() if whose.is_policed]


def _foreign(table: str, whose: Ownership) -> Iterator[Foreign]:
    parts = ((whose.what, whose.owner), *zip(whose.things, whose.owners, strict=True))
    for what, owner in parts:
        if owner not in {None, whose.schema_owner}:
            yield Foreign(what, str(owner), table=table)


def _ownerships(rows: Rows, _count: int) -> dict[QueueAddress, Ownership]:
    return {
        QueueAddress(schema, name): Ownership(*facts) for schema, name, *facts in rows if name is not None
    }


def _schema_owner(rows: Rows, _count: int) -> str | None:
    return Ownership(*rows[0][2:]).schema_owner if rows else None


def _fault(foreign: Foreign) -> Fault:
    is_run = not foreign.what.startswith("table ")
    return Fault(foreign.table, str(foreign), _GIVE, is_grave=is_run)


def _altered_faults(rows: Rows, _count: int) -> list[Fault]:
    text = "its trigger runs {}, which is not as this Rowbus makes it"
    return [Fault(table, text.format(altered), _RENEW, is_grave=True) for table, altered in rows]


def _whole_insert_faults(rows: Rows, _count: int) -> list[Fault]:
    text = "{} may choose the place (seq) of what it sends, and so hold up all others"
    return [Fault(table, text.format(grantee), _GRANT, is_grave=False) for table, grantee in rows]
