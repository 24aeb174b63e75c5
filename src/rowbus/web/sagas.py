"""Sagas: those that go on, one with its state and what it did, and an end for one that hangs.

Invariants: a page of sagas has `ON_A_PAGE`, a history its latest `MOST_LINES`; states are masked before anything else
is made of them; a saga is ended under its lock, in one transaction with the timeouts that it waits for.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.errors import QueueNotFoundError, StorageError
from rowbus.sagas.history.table import history_table
from rowbus.sagas.resending import end
from rowbus.sagas.table import COLUMNS, saga_table
from rowbus.settings import NativeDelayedDelivery
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.catalog.looking import NotLookedAtError, find_tables, is_there, look, looking
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.web.contents import mask, text_content
from rowbus.web.pages import Action, Page, Question, View, change
from rowbus.web.recurring import named_table
from rowbus.web.sampling.snapshot import may_delete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.sagas.history.table import Line
    from rowbus.sagas.table import KeptSaga
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

ON_A_PAGE: Final = 50
MOST_LINES: Final = 200
GONE: Final = "There is no such saga: it has completed, or the address is wrong."


class Change(NamedTuple):
    """A member of a saga's state before and after a message, as JSON; empty: it was not there."""

    name: str
    before: str
    after: str


class HistoryLine(NamedTuple):
    """A line of a saga's history, and what it changed."""

    line: Line
    changes: list[Change]


class SagaView(NamedTuple):
    """The sagas of a key, its history, and whether the role may end a saga; `why_not`: no history could be read."""

    sagas: list[KeptSaga]
    history: list[HistoryLine]
    may_change: bool
    why_not: str = ""


def changes(line: Line, paths: Sequence[str]) -> list[Change]:
    """Return which members of its state a message changed; what is masked has changed only where it came or went."""
    before, after = (_members(text, paths) for text in (line.transition.before, line.transition.after))
    names = dict.fromkeys([*before, *after])
    return [
        Change(name, before.get(name, ""), after.get(name, ""))
        for name in names
        if before.get(name) != after.get(name)
    ]


def _members(text: str | None, paths: Sequence[str]) -> dict[str, str]:
    state: Any = json.loads(mask(text or "{}", paths))
    return {name: json.dumps(value, ensure_ascii=False) for name, value in state.items()}


def page_of(session: Session, addresses: Addresses, name: str, after: str, beginning: str) -> list[KeptSaga]:
    """Return a page of sagas, and one more if there are more, in the order of the texts that find them."""
    address = named_table(session, addresses, COLUMNS, name)
    return look(session, address, saga_table(address).page(ON_A_PAGE + 1, after=after, beginning=beginning))


def show_one(session: Session, addresses: Addresses, name: str, key: str, paths: Sequence[str]) -> SagaView:
    """Return what is known of the saga of an id, or found by a text."""
    address = named_table(session, addresses, COLUMNS, name)
    with looking(session, address):
        found = session.run(saga_table(address).look(key))
    history, why_not = _history(session, address.satellite("History"), key)
    told = [HistoryLine(line, changes(line, paths)) for line in history[-MOST_LINES:]]
    return SagaView(found, told, may_delete(session, address), why_not)


def _history(session: Session, address: QueueAddress, key: str) -> tuple[list[Line], str]:
    try:
        return look(session, address, history_table(address).read(key)), ""
    except QueueNotFoundError:
        return [], "Its class keeps no history: declare the saga with history=True."
    except (NotLookedAtError, StorageError) as error:
        return [], str(error)


def end_one(session: Session, addresses: Addresses, name: str, saga_id: str) -> int:
    """End a saga; say 0 if it has completed. To be run in a transaction. Raises NotLookedAtError."""
    address = named_table(session, addresses, COLUMNS, name)
    endpoint = address.table.rpartition(".")[0]
    delayed = delayed_table(replace(address, table=f"{endpoint}.{NativeDelayedDelivery().table_suffix}"))
    is_there(session, delayed)
    return end(session, saga_table(address), delayed, saga_id)


def _clean(visit: Visit, name: str) -> str:
    """Return a parameter of the address without what no text in the database holds."""
    return visit.query.get(name, "").replace("\0", "").strip()


async def _tables(visit: Visit) -> Response:
    found = await visit.read(find_tables, catalog_of(visit.site.addresses), COLUMNS)
    return visit.render("sagas/tables.html", found=found)


async def _table(visit: Visit) -> Response:
    name, after, key = visit.query.get("table", ""), _clean(visit, "after"), _clean(visit, "key")
    try:
        found = await visit.read(page_of, visit.site.addresses, name, after, key)
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    more = len(found) > ON_A_PAGE
    return visit.render("sagas/table.html", name=name, key=key, sagas=found[:ON_A_PAGE], more=more)


async def _saga(visit: Visit) -> Response:
    name, key, paths = visit.query.get("table", ""), _clean(visit, "key"), visit.site.settings.mask
    try:
        shown = await visit.read(show_one, visit.site.addresses, name, key, paths)
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    if not shown.sagas and not shown.history:
        return visit.missing(GONE)
    states = [text_content(kept.row.state, paths) for kept in shown.sagas]
    return visit.render("sagas/saga.html", name=name, key=key, shown=shown, states=states)


async def _ask(visit: Visit) -> Question:
    name, saga_id = visit.form.get("table", ""), visit.form.get("id", "")
    shown = await visit.read(show_one, visit.site.addresses, name, saga_id, visit.site.settings.mask)
    if not shown.sagas:
        raise QueueNotFoundError(GONE, queue=name)
    row = shown.sagas[0].row
    return Question(
        title=f"End the saga {row.correlation}?",
        text="Its state and the timeouts that it waits for are deleted. What it did stays done, and messages that come "
        "for it find none.",
        button="End it",
        subject=f"{name}: {row.correlation}",
        grave=True,
        back=visit.url("sagas.table", {"table": name}),
    )


async def _end(visit: Visit, operation: Operation) -> str:
    name, saga_id = visit.form.get("table", ""), visit.form.get("id", "")

    def tell(count: int) -> str:
        return "The saga is ended." if count else "It has just completed by itself."

    return await change(visit, operation, name, tell, end_one, visit.site.addresses, name, saga_id)


PAGE: Final = Page(
    "Sagas",
    (
        View("sagas", "/sagas", _tables),
        View("sagas.table", "/sagas/table", _table),
        View("sagas.saga", "/sagas/saga", _saga),
    ),
    (Action("sagas.end", "/sagas/end", "end a saga", _ask, _end),),
)
