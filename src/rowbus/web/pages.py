"""Parts of a page: views that look, actions that ask before they change something, in one transaction.

docs/architecture/web.md shows how to add one.

Invariants: an action does nothing for a viewer, without the CSRF token, or before its question was answered; nothing is
changed before it is noted; the change and what is noted of it commit together, or not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec

from rowbus.errors import RowbusError
from rowbus.web.operations import Note, State, begin, end, note

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit


class View(NamedTuple):
    """Something to look at, a GET route. `visit.url(name)` knows it by its name; `path` is as Starlette has it."""

    name: str
    path: str
    show: Callable[[Visit], Awaitable[Response]]


class Question(NamedTuple):
    """The question of an action before it does anything: one that says how many messages of which queue.

    `subject` is what the operations log says it was done to. `details` are more lines; `button` is what the button
    says. A grave one (it cannot be undone) looks so.
    """

    title: str
    text: str
    button: str
    subject: str
    details: tuple[str, ...] = ()
    grave: bool = False
    back: str = ""
    """Where "cancel", and the operation's page in the end, lead to; not given: to the page's first view."""
    difference: str = ""
    """The changes of a text, line by line."""


class Action(NamedTuple):
    """Something to do: a POST route.

    `ask` reads the form (`visit.form`) and returns the question; its fields are sent again with the answer. `do` gets
    the same form and does it, in a task of its own: it reports to the operation, looks whether it is to stop, and
    returns a sentence on what came of it.
    """

    name: str
    path: str
    what: str
    ask: Callable[[Visit], Awaitable[Question]]
    do: Callable[[Visit, Operation], Awaitable[str]]


@dataclass(frozen=True)
class Page:
    """A page of the navigation: its title, its views (the first is where the navigation leads), and its actions."""

    title: str
    views: tuple[View, ...]
    actions: tuple[Action, ...] = ()
    in_navigation: bool = True

    @property
    def home(self) -> str:
        """The name of its first view."""
        return self.views[0].name

    def holds(self, name: str) -> bool:
        """Say whether a view or action of this name is the page's."""
        return name in {one.name for one in self.views} | {one.name for one in self.actions}


P = ParamSpec("P")


async def change(
    visit: Visit,
    operation: Operation,
    where: str,
    tell: Callable[[int], str],
    work: Callable[Concatenate[Session, P], int],
    *arguments: P.args,
    **named: P.kwargs,
) -> str:
    """Call `work(session, …)` in a transaction of its own; return what `tell` says of how many it changed, and where.

    Raises what it raises. A database without a log of operations has it in the log of the process alone.
    """

    def run(session: Session) -> str:
        table = begin(session, visit.site.addresses, operation, Note(where, None))
        try:
            with session.transaction():
                count = work(session, *arguments, **named)
                note(session, table, operation, count, 0)
        except RowbusError as error:
            end(session, table, operation, State.FAILED, str(error))
            raise
        operation.advance(count)
        end(session, table, operation, State.DONE, tell(count))
        return tell(count)

    return await visit.write(run)
