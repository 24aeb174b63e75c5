"""Rules for every route: the router says which there are, so a page that is added is looked at, too.

A route of the application is closed to strangers; an action refuses forged forms and viewers; what is stored is shown
as text; a role that may only look sees no button; what is masked is shown nowhere.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Final

import httpx
import pytest
from psycopg.conninfo import conninfo_to_dict
from starlette.applications import Starlette
from starlette.routing import Route

from rowbus.messages.headers import Header
from rowbus.web import OpenIdConnect, Person, Role, WebSettings, application
from rowbus.web.logs import events
from rowbus.web.pages import Page
from rowbus.web.site import Site
from tests.fixtures.command_line import CommandLine
from tests.fixtures.every import every
from tests.web.conftest import BASE
from tests.web.failures import ErrorQueue, text_of
from tests.web.shop import BILLING, DELAYED, HOSTILE, LOG, ROUTING, Shop, assert_is_text

pytestmark = pytest.mark.one_version

NOWHERE: Final = "postgresql://127.0.0.1:1/nowhere"  # nothing is asked of it
SECRET: Final = "4111-1111"
OPENID: Final = OpenIdConnect(issuer="https://a.example", client_id="x", address=BASE, viewers=("*",))
OPEN: Final = {"asset", "enter", "sign_in", "signed_in"}
"""Routes for everybody: assets, and the ways in."""

MEANS_OF_ENTRY: Final = {
    "tickets": WebSettings(),
    "a trusted header": WebSettings(trusted_header="X-Remote-User"),
    "OpenID Connect": WebSettings(openid=OPENID),
}
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

HAS_SHOP = True  # in `database`


def routes_of(app: Starlette) -> list[Route]:
    """Return the routes there are; each must be one that we know how to ask."""
    routes = [route for route in app.routes if isinstance(route, Route)]
    assert len(routes) == len(app.routes)
    return routes


def path_of(route: Route, **values: str) -> str:
    """Return a path that the route answers to."""
    return str(
        route.url_path_for(route.name, **{name: values.get(name, "x") for name in route.param_convertors})
    )


def is_action(route: Route) -> bool:
    return "POST" in (route.methods or ())


@asynccontextmanager
async def asking(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """Give a browser that asks an application."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE) as client:
        try:
            yield client
        finally:
            await app.state.site.close()


def known_as(role: Role, database: str, settings: WebSettings | None = None) -> Starlette:
    """Return the application, for one person who is in."""
    return application(database, settings=settings, who=lambda _request: Person("ada", role))


# ------------------------------------------------------------------------------------------------------------ access


@every("entry", MEANS_OF_ENTRY)
async def test_no_route_answers_a_stranger(entry: str) -> None:
    app = application(NOWHERE, settings=MEANS_OF_ENTRY[entry], announce=lambda _ticket: None)
    closed = [route for route in routes_of(app) if route.name not in OPEN]
    assert len(closed) > 20

    async with asking(app) as client:
        for route in closed:
            for method in METHODS:
                answer = await client.request(method, path_of(route))
                assert answer.status_code in {401, 405}, (route.path, method)
                assert (answer.status_code == 401) == (method in (route.methods or ())), (route.path, method)
        assert not app.state.site.sampler.snapshot.at


async def test_no_action_answers_a_forged_form() -> None:
    app = known_as(Role.OPERATOR, NOWHERE)
    token = app.state.site.seals.token("form", "ada")
    another = app.state.site.seals.token("form", "bob")
    forged: list[tuple[dict[str, str], dict[str, str]]] = [
        ({}, {}),
        ({"csrf": another}, {}),
        ({"csrf": token[:-1]}, {}),
        ({"csrf": token}, {"sec-fetch-site": "cross-site"}),
        ({"csrf": token}, {"sec-fetch-site": "same-site"}),
        ({"csrf": token}, {"origin": "https://evil.example"}),
    ]
    async with asking(app) as client:
        for route in filter(is_action, routes_of(app)):
            for fields, headers in forged:
                form = {**fields, "confirmed": "yes"}
                answer = await client.post(path_of(route), data=form, headers=headers)
                assert (answer.status_code, "does not come from a page" in answer.text) == (403, True), (
                    route.path
                )
            assert (await client.get(path_of(route))).status_code == 405, route.path
        assert not list(app.state.site.operations)


@every("role, settings", [(Role.VIEWER, WebSettings()), (Role.OPERATOR, WebSettings(read_only=True))])
async def test_no_action_answers_a_viewer(role: Role, settings: WebSettings) -> None:
    app = known_as(role, NOWHERE, settings)
    form = {"csrf": app.state.site.seals.token("form", "ada"), "confirmed": "yes"}
    async with asking(app) as client:
        for route in filter(is_action, routes_of(app)):
            answer = await client.post(path_of(route), data=form)
            assert (answer.status_code, "your role is viewer" in answer.text) == (403, True), route.path
        assert not list(app.state.site.operations)


# ------------------------------------------------------------------------------------------------- what pages show


@pytest.fixture
def shop(database: str, rowbus: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Give a shop in which every text is hostile, and every content has a secret."""
    monkeypatch.setattr(events, "following", partial(events.following, period=0.05, longest=0.5))
    shop = Shop(database)
    assert rowbus("queue", "create", "error", "audit", "<script>alert(1)</script>").returncode == 0
    body = json.dumps({"card": SECRET, "text": HOSTILE}).encode()
    more = {Header.CONVERSATION_ID: "C1", HOSTILE: HOSTILE}
    failures = ErrorQueue(database)
    failures.add(HOSTILE, exception=HOSTILE, reason=HOSTILE, type=HOSTILE, body=body, more=more)
    failures.add("other", type="Shop.Other", body=f"<card>{SECRET}</card>".encode(), more=more)
    failures.add("done", to="audit", queue=None, type=HOSTILE, body=body, more=more)
    failures.connection.close()
    shop.delay(timedelta(hours=1), HOSTILE, kind=HOSTILE, body=body, headers={HOSTILE: HOSTILE})
    shop.subscribe(HOSTILE, BILLING, HOSTILE)
    shop.ask("select pgq.register_consumer(%s, %s)", LOG, HOSTILE)
    shop.append((HOSTILE, body.decode()), ("I:id", f"card={SECRET}"))
    shop.give_up(HOSTILE, HOSTILE)
    shop.append((HOSTILE, body.decode()))
    return shop


def places(shop: Shop) -> dict[str, list[dict[str, str]]]:
    """Return what addresses of routes have beside, or in, their paths; those that are not here have nothing."""
    ((failed,), (other,)) = shop.ask("select id::text from error order by seq")
    ((waiting,),) = shop.ask(f"select id::text from {DELAYED}")
    ((letter,),) = shop.ask("select dl_id from pgq.dead_letter")
    log, table = {"log": LOG}, {"table": str(DELAYED)}
    consumer = {**log, "consumer": HOSTILE}
    return {
        "asset": [{"path": "rowbus.css"}],
        "failed": [
            {},
            {"text": "script"},
            {"by": "type"},
            {"by": "endpoint"},
            {"type": HOSTILE},
            {"text": "card"},
        ],
        "queue": [
            {"name": name}
            for name in ('"public"."error"', '"public"."audit"', HOSTILE.partition(chr(0x202E))[0])
        ],
        "queue.message": [{"name": '"public"."error"', "row": str(failed)}],
        "endpoint": [{"name": '"public"."audit"'}],
        "failed.message": [{"row": str(failed)}, {"row": str(other)}],
        "failed.edit": [{"row": str(failed)}, {"row": str(other)}],
        "delayed.table": [table, {**table, "text": "script"}],
        "delayed.message": [{**table, "row": str(waiting)}],
        "search": [{"text": "script"}],
        "sagas.table": [{"table": "x"}],
        "logs.log": [log],
        "logs.tail": [log],
        "logs.stream": [{**log, "after": "0"}],
        "logs.rewind": [consumer, {**consumer, "to": "start"}],
        "logs.dead": [consumer],
        "logs.letter": [{**consumer, "letter": str(letter)}],
    }


async def every_page(
    client: httpx.AsyncClient, app: Starlette, shop: Shop
) -> dict[str, list[httpx.Response]]:
    """Return what every GET route answers, by its name."""
    await settle(client, app.state.site)
    known, found = places(shop), dict[str, list[httpx.Response]]()
    for route in routes_of(app):
        if is_action(route):
            continue
        for values in known.get(route.name, [{}]):
            query = {name: text for name, text in values.items() if name not in route.param_convertors}
            answer = await client.get(path_of(route, **values), params=query or None)
            is_refused = answer.status_code == 503 and "permission denied" in answer.text
            assert answer.status_code < 500 or is_refused, (route.path, text_of(answer.text))
            found.setdefault(route.name, []).append(answer)
    return found


async def settle(client: httpx.AsyncClient, site: Site) -> None:
    """Have the page know what there is, and what its role may do with it."""
    await client.get("/")
    await client.get("/failed")
    async with asyncio.timeout(60):
        while not any(queue.address.table == "error" for queue in site.sampler.snapshot.queues):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.05)


def buttons(answer: httpx.Response) -> list[str]:
    """Return the actions that a page offers, by their paths."""
    posts = re.findall(r'<form method="post" action="([^"?]*)', answer.text)
    return [*posts, *re.findall(r'formaction="([^"?]*)', answer.text)]


MUST_SHOW: Final = {
    "failed",
    "failed.message",
    "delayed.message",
    "subscriptions",
    "logs.log",
    "logs.tail",
    "logs.dead",
    "logs.letter",
}
"""Pages that show hostile texts for certain: without them the test would show nothing."""


async def test_every_page_shows_what_is_stored_as_text(shop: Shop) -> None:
    app = known_as(Role.OPERATOR, shop.dsn, WebSettings(period=0.05))
    async with asking(app) as client:
        found = await every_page(client, app, shop)

    for scraped in found.pop(
        "metrics"
    ):  # by Prometheus, where names are what they are; to a browser it is no markup
        assert scraped.headers["content-type"].startswith("text/plain")
        assert scraped.headers["x-content-type-options"] == "nosniff"
    for answers in found.values():
        for answer in answers:
            assert_is_text(answer)
    for name in MUST_SHOW:
        assert any("&lt;script&gt;alert" in answer.text for answer in found[name]), name
    assert any(buttons(answer) for answers in found.values() for answer in answers)


async def test_a_role_that_may_only_look_sees_no_button(shop: Shop, rowbus: CommandLine) -> None:
    with shop.viewing(DELAYED, ROUTING) as dsn:
        viewer = str(conninfo_to_dict(dsn)["user"])
        names = [part for name in ("error", "audit", "Sales", "Billing") for part in ("--queue", name)]
        printed = rowbus("schema", "grants", "--role", viewer, "--view", "--web", *names)
        assert printed.returncode == 0, printed.stderr
        shop.ask(printed.stdout)
        shop.ask(f"grant usage on schema pgq to {viewer}")
        shop.ask(f"grant select on all tables in schema pgq to {viewer}")
        app = known_as(Role.OPERATOR, dsn, WebSettings(period=0.05))
        async with asking(app) as client:
            found = await every_page(client, app, shop)

    assert {
        name: buttons(answer) for name, answers in found.items() for answer in answers if buttons(answer)
    } == {}
    assert any("Shop.Other" in answer.text for answer in found["failed"])


async def test_what_is_masked_is_on_no_page(shop: Shop) -> None:
    open_app = known_as(Role.OPERATOR, shop.dsn, WebSettings(period=0.05))
    async with asking(open_app) as client:
        found = await every_page(client, open_app, shop)
    bare = {name for name, answers in found.items() if any(SECRET in answer.text for answer in answers)}
    assert {
        "failed.message",
        "failed.edit",
        "delayed.message",
        "logs.tail",
        "logs.stream",
        "logs.dead",
        "logs.letter",
    } <= bare

    app = known_as(Role.OPERATOR, shop.dsn, WebSettings(period=0.05, mask=("$.card",)))
    async with asking(app) as client:
        found = await every_page(client, app, shop)
        searched = await client.get("/failed", params={"text": SECRET})

    assert {
        name for name, answers in found.items() if any(SECRET in unescape(a.text) for a in answers)
    } == set()
    assert "Shop.Other" not in searched.text


def test_every_page_of_the_navigation_has_routes() -> None:
    app = known_as(Role.VIEWER, NOWHERE)
    names = {route.name for route in routes_of(app)}
    pages: tuple[Page, ...] = app.state.site.pages
    assert {view.name for page in pages for view in page.views} <= names
    assert {action.name for page in pages for action in page.actions} <= names
