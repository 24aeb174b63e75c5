"""The page, asked without a network, and let in by a ticket as a browser is."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import httpx
import pytest

from rowbus.web import application
from rowbus.web.settings import WebSettings
from rowbus.web.site import Site
from tests.fixtures.database import new_database
from tests.fixtures.log import Templates, copy_of
from tests.web.shop import make_shop

BASE = "http://127.0.0.1:8642"


@asynccontextmanager
async def browser(
    database: str, settings: WebSettings | None = None, *, enter: bool = True
) -> AsyncIterator[httpx.AsyncClient]:
    """Give a browser; one that is let in, unless told otherwise. `client.tickets` has the tickets announced."""
    tickets: list[str] = []
    app = application(database, settings=settings, announce=tickets.append)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        client.tickets = tickets  # type: ignore[attr-defined] # a note of ours
        client.site = app.state.site  # type: ignore[attr-defined] # as above
        try:
            if enter:
                answer = await client.get("/enter", params={"ticket": tickets[-1]})
                assert answer.status_code == 200
            yield client
        finally:
            await app.state.site.close()


@pytest.fixture
def database(request: pytest.FixtureRequest, postgres_server: str, templates: Templates) -> Iterator[str]:
    """Give the DSN of a database of this test's own: with a shop, where its module says `HAS_SHOP = True`, or empty."""
    if getattr(request.module, "HAS_SHOP", False):
        place = copy_of(postgres_server, templates.made(postgres_server, "shop", make_shop))
    else:
        place = new_database(postgres_server)
    with place as dsn:
        yield dsn


@pytest.fixture
def empty_database(postgres_server: str) -> Iterator[str]:
    with new_database(postgres_server) as dsn:
        yield dsn


@pytest.fixture
async def page(database: str) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(database) as client:
        yield client


async def confirm(
    client: httpx.AsyncClient, path: str, form: Mapping[str, str | list[str]], *, expect: int = 200
) -> httpx.Response:
    """Do an action as a browser does: ask, answer its question, and return the page of the operation, ended."""
    asked = await client.post(path, data={"csrf": token_of(client), **form})
    assert asked.status_code == expect, asked.text
    if expect != 200:
        return asked
    fields = _fields(asked.text)
    assert fields["confirmed"] == ["yes"]
    done = await client.post(path, data=fields)
    assert done.status_code == 303, done.text
    await client.site.operations.settle(30)  # type: ignore[attr-defined] # a note of ours
    return await client.get(done.headers["location"])


def key_of(client: httpx.AsyncClient) -> str:
    """Return what a browser's CSRF tokens are bound to."""
    return next(iter(client.cookies.values())).rpartition(".")[0]


def token_of(client: httpx.AsyncClient) -> str:
    """Return the token that a browser's forms send."""
    token: str = client.site.seals.token("form", key_of(client))  # type: ignore[attr-defined] # a note of ours
    return token


def _fields(text: str) -> dict[str, str | list[str]]:
    """Return the hidden fields of a page's forms."""
    found: dict[str, str | list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', text):
        previous = found.setdefault(name, [])
        assert isinstance(previous, list)
        previous.append(html.unescape(value))
    return found


def site_of(client: httpx.AsyncClient) -> Site:
    """Return the site that a browser of ours looks at."""
    site: Site = client.site  # type: ignore[attr-defined] # a note of ours
    return site
