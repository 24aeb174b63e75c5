"""One request, as pages see it: who asks, what was sent, the database, and how to answer.

Invariant: pages reach the database through `read` and `write` alone, each in a thread, on a session of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import urlencode

from anyio.to_thread import run_sync
from starlette.responses import HTMLResponse, RedirectResponse

if TYPE_CHECKING:
    from starlette.datastructures import ImmutableMultiDict
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.web.pages import Page
    from rowbus.web.sampling.snapshot import Snapshot
    from rowbus.web.site import Site
    from rowbus.web.visitors import Person

P = ParamSpec("P")
T = TypeVar("T")

CSRF_FIELD = "csrf"
CONFIRMED_FIELD = "confirmed"


class ThreadedPage(HTMLResponse):
    """A page that is written in a thread when it is sent: a long one holds up nobody else."""

    def __init__(self, write: Callable[[], str], status: int) -> None:
        """Take what writes the page. No I/O."""
        super().__init__(status_code=status)
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the page, and send it."""
        self.body = self.render(await run_sync(self._write))
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


class Visit:
    """A request with everything a page needs; templates have it as `visit`."""

    def __init__(
        self,
        site: Site,
        request: Request,
        person: Person,
        name: str,
        form: ImmutableMultiDict[str, str] | None = None,
    ) -> None:
        """Take the request, who makes it, and the name of its route; `form` is what a POST brought. No I/O."""
        self.site = site
        self.request = request
        self.person = person
        self.name = name
        self._form = form

    # ------------------------------------------------------------------------------------------------ what was sent

    @property
    def query(self) -> ImmutableMultiDict[str, str]:
        """The parameters of the address."""
        return self.request.query_params

    @property
    def form(self) -> ImmutableMultiDict[str, str]:
        """The fields of a POST, also several of a name; empty for a GET."""
        from starlette.datastructures import ImmutableMultiDict as Fields  # noqa: PLC0415 - for types above

        return Fields() if self._form is None else self._form

    @property
    def path(self) -> Mapping[str, str]:
        """The parameters of the route's path."""
        return self.request.path_params

    # ------------------------------------------------------------------------------------------------- who may what

    @property
    def may_operate(self) -> bool:
        """Whether the person may act at all: pages show no button otherwise."""
        return self.person.is_operator and not self.site.settings.read_only

    def may_change(self, *addresses: QueueAddress) -> bool:
        """Whether, beside that, the database's role may delete from these queues; all of them."""
        return self.may_operate and self.snapshot.may_change(addresses)

    @cached_property
    def csrf(self) -> str:
        """The token that every form of this person's sends back, in the field `csrf`."""
        return self.site.seals.token("form", self.person.key or self.person.name)

    # ------------------------------------------------------------------------------------------------- the database

    @property
    def snapshot(self) -> Snapshot:
        """The figures of the last look at the database: at most some seconds old, and at no cost."""
        return self.site.sampler.snapshot

    async def read(
        self,
        work: Callable[Concatenate[Session, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call `work(session, …)` in a thread, on a session that only reads; raises what it raises.

        The session is in autocommit mode, and no function that others put on the search path runs in it.
        """
        return await self.site.read(work, *arguments, **named)

    async def write(
        self,
        work: Callable[Concatenate[Session, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Do the same on a session that may change something; for the `do` of an action."""
        return await self.site.write(work, *arguments, **named)

    # ---------------------------------------------------------------------------------------------------- the answer

    def url(self, name: str, /, query: Mapping[str, object] | None = None, **path: object) -> str:
        """Return the address of a view or action, also below the path that the application is mounted at.

        What is None or empty in `query` is left out.
        """
        root = self.request.scope.get("root_path", "")
        address = f"{root}{self.site.routes.url_path_for(name, **path)}"
        given = [
            (key, str(item))
            for key, value in (query or {}).items()
            for item in (cast("Iterable[object]", value) if isinstance(value, list | tuple) else [value])
            if item not in {None, ""}
        ]
        return f"{address}?{urlencode(given)}" if given else address

    def has(self, name: str) -> bool:
        """Say whether there is a page with a view or action of this name, to lead to."""
        return any(page.holds(name) for page in self.site.pages)

    def asset(self, name: str) -> str:
        """Return the address of a file of `assets`, which changes when the file does."""
        return self.url("asset", {"v": self.site.version}, path=name)

    def render(self, template: str, /, *, status: int = 200, **values: object) -> Response:
        """Answer with a template, filled in a thread; it has `visit` and these values."""
        found = self.site.templates.get_template(template)
        return ThreadedPage(partial(found.render, visit=self, **values), status)

    def redirect(self, name: str, /, query: Mapping[str, object] | None = None, **path: object) -> Response:
        """Answer that the browser go to a view, by GET."""
        return RedirectResponse(self.url(name, query, **path), status_code=303)

    def refuse(self, title: str, text: str, *, status: int = 403) -> Response:
        """Answer with a page that says why not, and what to do."""
        return self.render("refused.html", status=status, title=title, text=text)

    def missing(self, text: str) -> Response:
        """Answer that what was asked for is not, or no longer, there."""
        return self.refuse("Not there", text, status=404)

    @property
    def page(self) -> Page | None:
        """The page of the navigation that the route belongs to."""
        return next((page for page in self.site.pages if page.holds(self.name)), None)
