"""Owners of what queues are built upon: a stranger's table, or the function of a trigger, would run with our rights.

An object is looked at after the statements that make it where it is missing, in their transaction: whoever made it
before, or at the same moment, is known by then. On PostgreSQL; elsewhere what is in a schema belongs to its owner.

Invariant: reads catalogues only, and locks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.ownership import Foreign, refusal
from rowbus.database.statements import Statement, load, no_rows, raw_source
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.database.statements import Rows
    from rowbus.database.steps import Steps

_FAILING: Final = "Failed to look for objects of others"
_CATALOG: Final = "transport/queues/catalog/sql/postgresql"
_NOTIFY_FUNCTION: Final = "transport/queues/sql/postgresql/create_notify_function.sql"

_GIVE: Final = "see what was made there, and have a superuser drop it or give it to the owner of the queues"
_RENEW: Final = "make it anew: `rowbus queue create QUEUE --notify-trigger`"
_GRANT: Final = "revoke that, as `rowbus schema grants --queue QUEUE --send --role ROLE` prints it"


class Fault(NamedTuple):
    """What is wrong with a table's surroundings, and what to do about it."""

    table: str
    text: str
    advice: str
    is_grave: bool
    """Whether it runs somebody's code with the rights of those who send."""


def refuse_foreign(*addresses: QueueAddress) -> Steps[None]:
    """Raise ConfigurationError for tables, and functions of their triggers, of roles that this one cannot trust."""
    tables = _owned(addresses)
    found: list[Foreign] = (yield _owners(tables, [])) if tables else []
    if found:
        raise ConfigurationError(refusal(found, "the queues"))


def refuse_foreign_schema(schema: str) -> Steps[None]:
    """Raise ConfigurationError for a schema of a role that this one cannot trust."""
    found: list[Foreign] = yield _owners([], [schema])
    if found:
        raise ConfigurationError(refusal(found, "the queues"))


def find_faults(*addresses: QueueAddress) -> Steps[list[Fault]]:
    """Find what is wrong with who owns tables, what their triggers run, and who may choose the places of messages."""
    tables = _owned(addresses)
    if not tables:
        return []
    foreign: list[Foreign] = yield _owners(tables, [])
    altered: list[Fault] = yield _altered(tables)
    whole: list[Fault] = yield _whole_inserts(tables)
    return [*map(_fault, foreign), *altered, *whole]


def guard(addresses: Iterable[QueueAddress], schemas: Iterable[str] = ()) -> list[Statement[None]]:
    """Refuse the same in a script or a migration, where nobody reads an answer: the statement itself fails."""
    tables = _owned(addresses)
    query, parameters, _ = _owners(tables, [*schemas], fails=True)
    return [Statement(query, parameters, no_rows)] if tables else []


def _owners(tables: list[str], schemas: list[str], *, fails: bool = False) -> Statement[list[Foreign]]:
    query = load("database/sql/postgresql/foreign_tables.sql", failing=_FAILING, prepare=False)
    return Statement(query, {"tables": tables, "schemas": schemas, "fails": fails}, _foreign)


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


def _foreign(rows: Rows, _count: int) -> list[Foreign]:
    return [Foreign(*row[:5]) for row in rows]


def _fault(foreign: Foreign) -> Fault:
    is_function = not foreign.what.startswith("table ")
    return Fault(str(QueueAddress(foreign.schema, foreign.table)), str(foreign), _GIVE, is_grave=is_function)


def _altered_faults(rows: Rows, _count: int) -> list[Fault]:
    text = "its trigger runs {}, which is not as this Rowbus makes it"
    return [Fault(table, text.format(altered), _RENEW, is_grave=True) for table, altered in rows]


def _whole_insert_faults(rows: Rows, _count: int) -> list[Fault]:
    text = "{} may choose the place (seq) of what it sends, and so hold up all others"
    return [Fault(table, text.format(grantee), _GRANT, is_grave=False) for table, grantee in rows]
