"""The application: routes made of pages, each behind the same checks.

Invariants: every view and action runs for a known person; every action after its question, with the form's token; no
two routes have the same name or path.
"""

from __future__ import annotations

import getpass
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.datastructures import ImmutableMultiDict
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from rowbus.errors import ConfigurationError, LostPositionError, RowbusError
from rowbus.running.functions import check_function
from rowbus.transport.queues.catalog.looking import NotLookedAtError
from rowbus.web import contracts, delayed, overview, pauses, recurring, sagas, search, subscriptions
from rowbus.web import history as operations
from rowbus.web.assets import asset
from rowbus.web.failed import page as failed
from rowbus.web.guard import Entrance, Guard, TicketCookie, TrustedHeader, Who, outside
from rowbus.web.logs import page as logs
from rowbus.web.metrics import Metrics
from rowbus.web.operations import Operation
from rowbus.web.queues import page as queues
from rowbus.web.settings import WebSettings
from rowbus.web.site import Site
from rowbus.web.visit import CONFIRMED_FIELD, CSRF_FIELD, Visit
from rowbus.web.visitors import Tickets, is_own_form

if TYPE_CHECKING:
    from starlette.requests import Request

    from rowbus.web.openid.signing import SignIn
    from rowbus.web.pages import Action, Page, View
    from rowbus.web.visitors import Person

logger = logging.getLogger("rowbus.web")

PAGES: Final[tuple[Page, ...]] = (
    overview.PAGE,
    queues.PAGE,
    search.PAGE,
    failed.PAGE,
    delayed.PAGE,
    sagas.PAGE,
    recurring.PAGE,
    subscriptions.PAGE,
    contracts.PAGE,
    pauses.PAGE,
    logs.PAGE,
    overview.FINDINGS,
    operations.PAGE,
)


LARGEST_FORM: Final = 8 * 2**20  # bytes; a body that is edited is in a form
MOST_FIELDS: Final = 10_000
TOO_LARGE: Final = f"A form may have {LARGEST_FORM // 2**20} MiB and {MOST_FIELDS:,} fields."
QUICK: Final = 0.5  # seconds that an action's answer waits for its end
NOT_IN: Final = (
    "Open the address that `rowbus web` shows in its terminal or log: its ticket lets this browser in."
)
NOT_SIGNED_IN: Final = (
    "The proxy in front of this page has not said who you are. Sign in there, or open the page through it."
)
FORGED: Final = (
    "This form does not come from a page of yours here, or the page was restarted since. Go back, load it again, and "
    "repeat what you did."
)


def application(
    database: str | None = None,
    *,
    settings: WebSettings | None = None,
    who: Callable[[Request], Person | Awaitable[Person | None] | None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> Starlette:
    """Return the page as an ASGI application, to serve or to mount into another.

    `database` is a connection string, as for every command; not given: ROWBUS_DATABASE, else the embedded server,
    which is started. `who` says who makes a request (None: no one), such as the user signed in to the application that
    this one is mounted into. Without `who`, and without a trusted header or OpenID Connect in the settings, tickets let
    people in: `announce` is called with each ticket, and by default the logger `rowbus.web` shows the path to open.

    It opens connections with the first request and closes each after its use; one task looks at the database every few
    seconds. Where lifespans reach it, its end stops that task; a mounted application is not told, and the task ends
    with the process. For one event loop.
    """
    settings = settings or WebSettings()
    if announce is not None:
        check_function(announce, "announce", "ticket")
    site = Site(database, settings, PAGES)
    tickets = Tickets(announce or _announce)
    cookie = f"rowbus-{site.seals.token('cookie', 'name')[:8]}"
    sign_in = _sign_in(site, who)
    known = _known(site, who, cookie) if sign_in is None else sign_in.who
    uses_tickets = who is None and not settings.trusted_header and sign_in is None
    not_in = NOT_IN if uses_tickets else NOT_SIGNED_IN

    def refused(request: Request) -> Response:
        return outside(site, 401, not_in) if sign_in is None else sign_in.refuse_stranger(request)

    doors = _Doors(site, known, refused)
    routes = [
        Route("/assets/{path}", asset, name="asset"),
        Route("/metrics", Metrics(site, known).answer, name="metrics"),
    ]
    if uses_tickets:
        routes.append(Route("/enter", Entrance(site, tickets, cookie).answer, name="enter"))
        tickets.issue()
    if sign_in is not None:
        routes += [
            *sign_in.routes(),
            Route("/sign-out", doors.leave(sign_in), methods=["POST"], name="sign_out"),
        ]
    for page in PAGES:
        routes += [Route(view.path, doors.view(view), name=view.name) for view in page.views]
        routes += [
            Route(action.path, doors.action(action), methods=["POST"], name=action.name)
            for action in page.actions
        ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, settings=settings)],
        lifespan=_lifespan,
        exception_handlers={404: doors.not_found},
    )
    app.router.redirect_slashes = False  # strangers do not learn which pages there are
    app.state.site = site
    site.routes = app.router
    return app


def _announce(ticket: str) -> None:
    logger.warning("One browser enters Rowbus web by its path /enter?ticket=%s", ticket)


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncGenerator[None]:
    yield
    await cast("Site", app.state.site).close()


def _sign_in(site: Site, who: object) -> SignIn | None:
    if site.settings.openid is None:
        return None
    if who is not None:
        raise ConfigurationError("Either `who` says who is there, or OpenID Connect: take one out.")
    from rowbus.web.openid.signing import SignIn  # noqa: PLC0415 - Authlib is another extra's

    return SignIn(site, site.settings.openid)


def _known(
    site: Site, who: Callable[[Request], Person | Awaitable[Person | None] | None] | None, cookie: str
) -> Who:
    if who is not None:

        async def asked(request: Request) -> Person | None:
            found = who(request)
            return await found if inspect.isawaitable(found) else found

        return asked
    if site.settings.trusted_header:
        return TrustedHeader(site.settings)
    return TicketCookie(site.seals, cookie, f"{getpass.getuser()}, by ticket")


class _Doors:
    """Makes routes of views and actions."""

    def __init__(self, site: Site, who: Who, stranger: Callable[[Request], Response]) -> None:
        self._site = site
        self._who = who
        self._stranger = stranger

    def view(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a view."""

        async def show(request: Request) -> Response:
            visit = await self._visit(request, view.name)
            return self._stranger(request) if visit is None else await _shown(visit, view.show)

        return show

    def action(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of an action."""

        async def act(visit: Visit) -> Response:
            if not visit.may_operate:
                return visit.refuse("Not done", "You may look here, and change nothing: your role is viewer.")
            return await _shown(visit, lambda visit: _act(visit, action))

        return self._posted(action.name, act)

    def leave(self, sign_in: SignIn) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint that signs out."""
        return self._posted("sign_out", lambda visit: sign_in.leave(visit.request))

    def _posted(
        self, name: str, do: Callable[[Visit], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint for forms of our own pages, from people who are in."""

        async def post(request: Request) -> Response:
            person = await self._who(request)
            if person is None:
                return self._stranger(request)
            form = await _form(request)
            if form is None:
                return outside(self._site, 413, TOO_LARGE)
            visit = await self._enter(request, person, name, form)
            if not is_own_form(request.headers) or not _has_token(visit):
                return visit.refuse("Not done", FORGED)
            return await do(visit)

        return post

    async def not_found(self, request: Request, _error: Exception) -> Response:
        """Answer for a path that is none."""
        visit = await self._visit(request, "")
        if visit is None:
            return self._stranger(request)
        return visit.missing("There is no such page. The navigation shows those there are.")

    async def _visit(self, request: Request, name: str) -> Visit | None:
        person = await self._who(request)
        return None if person is None else await self._enter(request, person, name)

    async def _enter(
        self, request: Request, person: Person, name: str, form: ImmutableMultiDict[str, str] | None = None
    ) -> Visit:
        await self._site.sampler.start()
        return Visit(self._site, request, person, name, form)


async def _shown(visit: Visit, show: Callable[[Visit], Awaitable[Response]]) -> Response:
    """Answer with a page; an error of ours is one, too, and says what to do."""
    try:
        return await show(visit)
    except RowbusError as error:
        return visit.refuse("That did not work", str(error), status=_status_of(error))


def _status_of(error: RowbusError) -> int:
    """Return 400 for what the visitor can mend, 403 for a table that is not read, else 503."""
    if isinstance(error, NotLookedAtError):
        return 403
    return 400 if isinstance(error, ConfigurationError | LostPositionError) else 503


async def _act(visit: Visit, action: Action) -> Response:
    question = await action.ask(visit)
    if visit.form.get(CONFIRMED_FIELD) != "yes":
        fields = [
            (name, value)
            for name, value in visit.form.multi_items()
            if name not in {CSRF_FIELD, CONFIRMED_FIELD}
        ]
        return visit.render("confirm.html", action=action, question=question, fields=fields)
    page = visit.page
    back = question.back or visit.url("overview" if page is None else page.home)
    operation = Operation(visit.person.name, action.what, question.subject, back)

    async def work(operation: Operation) -> str:
        try:
            return await action.do(visit, operation)
        finally:
            visit.site.sampler.hasten()

    visit.site.operations.start(operation, work)
    await visit.site.operations.settle(QUICK)
    return visit.redirect("operation", identity=operation.id)


def _has_token(visit: Visit) -> bool:
    return visit.site.seals.fits(
        "form", visit.person.key or visit.person.name, visit.form.get(CSRF_FIELD) or ""
    )


async def _form(request: Request) -> ImmutableMultiDict[str, str] | None:
    """Read a form as browsers send it by default; None for one that is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            return None
    try:
        text = body.decode("utf-8", "replace")
        return ImmutableMultiDict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        return None
