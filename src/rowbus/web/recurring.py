"""Recurring messages: when each is sent next and was last; one is sent now.

Invariant: a message is sent by its endpoint alone: here its next tick is only made due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import InvalidAddressError, QueueNotFoundError
from rowbus.transport.queues.catalog.looking import find_tables, look_at_each, refuse_strangers
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.recurring.table import COLUMNS, RECURRING, recurring_table
from rowbus.web.pages import Action, Page, Question, View, change
from rowbus.web.sampling.snapshot import may_delete

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.recurring.table import ScheduleRow
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit


class Schedules(NamedTuple):
    """The recurring messages of an endpoint."""

    address: QueueAddress
    rows: list[ScheduleRow]
    may_change: bool

    @property
    def endpoint(self) -> QueueAddress:
        """The queue of the endpoint."""
        return type(self.address)(self.address.schema, self.address.table.removesuffix(f".{RECURRING}"))


def named_table(
    session: Session, addresses: Addresses, columns: Mapping[str, str], text: str
) -> QueueAddress:
    """Return the table of a name that has these columns; raises QueueNotFoundError, NotLookedAtError."""
    try:
        address = addresses.parse(text)
    except InvalidAddressError:
        address = None
    asked = catalog_of(addresses).find_tables(columns)
    if address is None or asked is None or not address.is_among(session.run(asked)):
        raise QueueNotFoundError(f"There is no such table {text}.", queue=text)
    refuse_strangers(session, address)
    return address


def list_all(session: Session, addresses: Addresses) -> tuple[list[Schedules], dict[QueueAddress, str]]:
    """Return the recurring messages of all endpoints, and the tables that are not read, with the reason."""
    found = find_tables(session, catalog_of(addresses), COLUMNS)
    looked = look_at_each(session, found.tables, lambda address: recurring_table(address).list())
    tables = [
        Schedules(address, rows, may_delete(session, address)) for address, rows in looked.answers.items()
    ]
    return tables, found.left_out | looked.left_out


def hasten(session: Session, addresses: Addresses, text: str, name: str) -> int:
    """Have a recurring message be due now; say 0 if there is none of this name. To be run in a transaction."""
    return session.run(recurring_table(named_table(session, addresses, COLUMNS, text)).hasten(name))


async def _show(visit: Visit) -> Response:
    tables, left_out = await visit.read(list_all, visit.site.addresses)
    return visit.render("recurring.html", tables=tables, left_out=left_out)


async def _ask(visit: Visit) -> Question:
    table, name = visit.form.get("table", ""), visit.form.get("name", "")
    return Question(
        title=f"Send {name} now?",
        text="Its endpoint sends it within half a minute, if it runs, and then goes on by its schedule. One that "
        "starts later than a minute from now counts it as missed.",
        button="Send it now",
        subject=f"{table}: {name}",
    )


async def _hasten(visit: Visit, operation: Operation) -> str:
    table, name = visit.form.get("table", ""), visit.form.get("name", "")

    def tell(count: int) -> str:
        return f"{name} is due now." if count else f"There is no recurring message {name} any more."

    return await change(visit, operation, table, tell, hasten, visit.site.addresses, table, name)


PAGE: Final = Page(
    "Recurring",
    (View("recurring", "/recurring", _show),),
    (Action("recurring.send", "/recurring/send-now", "send a recurring message now", _ask, _hasten),),
)
