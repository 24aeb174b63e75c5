"""Admissions, and what is refused before any page runs."""

from __future__ import annotations

import logging

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from rowbus.web import Person, Role, application
from rowbus.web.asgi import LARGEST_FORM, MOST_FIELDS
from rowbus.web.operations import Operation
from rowbus.web.settings import WebSettings
from tests.fixtures.every import every
from tests.web.conftest import BASE, browser, confirm, key_of

pytestmark = pytest.mark.one_version

PROXIED = WebSettings(trusted_header="X-Remote-User", operators=("ada",))


async def test_nothing_is_shown_without_a_ticket(database: str) -> None:
    async with browser(database, enter=False) as client:
        pages = [view.path for page in client.site.pages for view in page.views]  # type: ignore[attr-defined] # ours
        actions = [action.path for page in client.site.pages for action in page.actions]  # type: ignore[attr-defined] # ours
        for path in (*pages, "/nothing", "/doctor/"):
            answer = await client.get(path)
            assert answer.status_code == 401, path
            assert "ticket" in answer.text
            assert database not in answer.text
        for path in actions:
            assert (await client.post(path)).status_code == 401, path


async def test_a_ticket_lets_one_browser_in(database: str) -> None:
    async with browser(database, enter=False) as client:
        first = client.tickets[-1]  # type: ignore[attr-defined] # conftest's
        assert (await client.get("/enter", params={"ticket": "guessed"})).status_code == 403
        assert (await client.get("/enter", params={"ticket": "gu\u00e9ssed"})).status_code == 403

        entered = await client.get("/enter", params={"ticket": first})

        cookie = entered.headers["set-cookie"].lower()
        assert entered.status_code == 200
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await client.get("/")).status_code == 200
        client.cookies.clear()
        assert (await client.get("/enter", params={"ticket": first})).status_code == 403
        assert client.tickets[-1] != first  # type: ignore[attr-defined] # conftest's


async def test_a_cookie_that_was_not_sealed_here_is_worth_nothing(database: str) -> None:
    async with browser(database) as client:
        name, value = next(iter(client.cookies.items()))
        client.cookies.clear()
        for forged in (value[:-1] + ("0" if value[-1] != "0" else "1"), "", ".", key_of_text(value), "a.b"):
            assert (await client.get("/", headers={"cookie": f"{name}={forged}"})).status_code == 401
        assert (await client.get("/", headers={"cookie": f"{name}={value}"})).status_code == 200


def key_of_text(sealed: str) -> str:
    return sealed.rpartition(".")[0]


@every("host", ["evil.example", "evil.example:8642", "127.0.0.1.evil.example", "", "@127.0.0.1"])
async def test_another_host_is_refused(page: httpx.AsyncClient, host: str) -> None:
    for path in ("/", "/enter?ticket=x", "/assets/rowbus.css"):
        assert (await page.get(path, headers={"host": host})).status_code == 421


@every("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8642"])
async def test_loopback_is_not(page: httpx.AsyncClient, host: str) -> None:
    assert (await page.get("/assets/rowbus.css", headers={"host": host})).status_code == 200


async def test_every_answer_forbids_frames_and_inline_scripts(page: httpx.AsyncClient) -> None:
    for path in ("/", "/nothing", "/enter", "/assets/rowbus.js"):
        answer = await page.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert " style=" not in answer.text
        assert "<script>" not in answer.text
    assert (await page.get("/")).headers["cache-control"] == "no-store"


async def test_an_action_needs_the_token_of_its_form(page: httpx.AsyncClient) -> None:
    operation = running(page)
    path = f"/operations/{operation.id}/stop"
    own = page.site.seals.token("form", key_of(page))  # type: ignore[attr-defined] # conftest's

    for forged in ("", "0" * 64, page.site.seals.token("form", "another")):  # type: ignore[attr-defined] # conftest's
        answer = await page.post(path, data={"csrf": forged, "confirmed": "yes"})
        assert answer.status_code == 403
        assert not operation.stopping
    for told in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
    ):
        answer = await page.post(path, data={"csrf": own, "confirmed": "yes"}, headers=told)
        assert answer.status_code == 403
        assert not operation.stopping
    assert (await page.get(path)).status_code == 405


async def test_an_action_asks_and_is_noted(page: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rowbus.web")
    operation = running(page)

    token = page.site.seals.token("form", key_of(page))  # type: ignore[attr-defined] # conftest's
    asked = await page.post(f"/operations/{operation.id}/stop", data={"csrf": token})
    assert "Stop this operation?" in asked.text
    assert not operation.stopping
    shown = await confirm(page, f"/operations/{operation.id}/stop", {})

    assert vars(operation)["stopping"]
    assert "It ends after the part" in shown.text
    assert any("began: stop an operation" in line for line in caplog.messages)
    assert any("ended: stop an operation" in line for line in caplog.messages)
    assert "stop an operation" in (await page.get("/operations")).text


def running(client: httpx.AsyncClient) -> Operation:
    """Note an operation that runs, as an action does, without any work."""
    operation = Operation("ada", "retry messages", "a queue", "/")
    client.site.operations._kept[operation.id] = operation  # type: ignore[attr-defined] # conftest's
    return operation


async def test_a_form_has_a_limit(page: httpx.AsyncClient) -> None:
    for form in (b"x" * (LARGEST_FORM + 1), b"x=1&" * (MOST_FIELDS + 1)):
        assert (await page.post("/operations/1/stop", content=form)).status_code == 413


async def test_the_form_of_a_stranger_is_not_read(database: str) -> None:
    async with browser(database, enter=False) as client:
        answer = await client.post("/operations/1/stop", content=b"x" * (LARGEST_FORM + 1))
    assert answer.status_code == 401


async def test_the_cookie_of_a_ticket_has_an_end(database: str) -> None:
    async with browser(database) as client:
        name = next(iter(client.cookies))
        seals = client.site.seals  # type: ignore[attr-defined] # conftest's
        client.cookies.clear()
        for key, status in ((f"a.{2**40}", 200), ("a.1", 401), ("a", 401)):
            answer = await client.get("/", headers={"cookie": f"{name}={seals.sealed('cookie', key)}"})
            assert answer.status_code == status


async def test_nobody_acts_on_a_page_to_look_at(database: str) -> None:
    async with browser(database, WebSettings(read_only=True)) as client:
        operation = running(client)
        answer = await confirm(client, f"/operations/{operation.id}/stop", {}, expect=403)

        assert "viewer" in answer.text
        assert not operation.stopping
        assert ">Stop<" not in (await client.get(f"/operations/{operation.id}")).text


async def test_a_proxy_says_who_is_there(database: str) -> None:
    app = application(database, settings=PROXIED)
    try:
        async with client_of(app, "127.0.0.1") as proxy:
            assert (await proxy.get("/")).status_code == 401
            assert (await proxy.get("/enter?ticket=x")).status_code == 401
            ada = (await proxy.get("/", headers={"x-remote-user": "ada"})).text
            bob = (await proxy.get("/", headers={"x-remote-user": "<b>bob"})).text
            twice = await proxy.get("/", headers=[("x-remote-user", "bob"), ("x-remote-user", "ada")])
        assert "ada" in ada
        assert "operator" in ada
        assert "&lt;b&gt;bob" in bob
        assert 'class="tag">viewer' in bob
        assert twice.status_code == 401
        async with client_of(app, "10.1.2.3") as stranger:
            assert (await stranger.get("/", headers={"x-remote-user": "ada"})).status_code == 401
    finally:
        await app.state.site.close()


def client_of(app: Starlette, address: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app, client=(address, 1)), base_url=BASE)


async def test_it_is_mounted_where_others_sign_in(database: str) -> None:
    def who(request: Request) -> Person | None:
        name = request.headers.get("x-session")
        return Person(name, Role.VIEWER) if name else None

    page = application(database, settings=WebSettings(hosts=("*",)), who=who)
    app = Starlette(routes=[Mount("/ops/rowbus", page)])
    try:
        async with client_of(app, "10.1.2.3") as client:
            assert (await client.get("/ops/rowbus/")).status_code == 401
            shown = await client.get("/ops/rowbus/", headers={"x-session": "eve"})
            assert shown.status_code == 200
            assert 'href="/ops/rowbus/operations"' in shown.text
            assert 'href="/ops/rowbus/assets/rowbus.css?v=' in shown.text
            assert (await client.get("/ops/rowbus/assets/rowbus.css")).status_code == 200
    finally:
        await page.state.site.close()
