"""People sign in with the account of their company: at a real provider, and with every proof spoiled."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from rowbus.errors import ConfigurationError
from rowbus.web import OpenIdConnect, Person, application
from rowbus.web.openid import signing
from rowbus.web.openid.settings import name_of
from rowbus.web.settings import WebSettings
from rowbus.web.visitors import Seals
from tests.fixtures.command_line import CommandLine
from tests.fixtures.every import every
from tests.web.conftest import BASE
from tests.web.provider import CLIENT, SECRET, ProviderOfTests, key_of, serving

pytestmark = pytest.mark.one_version

NOWHERE = "postgresql://127.0.0.1:1/nowhere"  # for those who are not let in: nothing is asked of it
HOSTILE = "<b>ada</b>\u202e\x1b[31m"


@pytest.fixture
def provider() -> Iterator[ProviderOfTests]:
    with serving() as provider:
        yield provider


def settings_of(provider: ProviderOfTests) -> OpenIdConnect:
    return OpenIdConnect(
        issuer=provider.issuer,
        client_id=CLIENT,
        secret=SECRET,
        address=BASE,
        operators=("ops",),
        viewers=("staff",),
    )


@asynccontextmanager
async def browser(database: str, openid: OpenIdConnect) -> AsyncIterator[httpx.AsyncClient]:
    """Give a browser: the page is asked without a network, the provider by one; it keeps cookies and follows."""
    app = application(database, settings=WebSettings(openid=openid))
    site = Starlette(routes=[Mount(openid.path.rstrip("/"), app)])
    page = {openid.address.removesuffix(openid.path.rstrip("/")): httpx.ASGITransport(app=site)}
    async with httpx.AsyncClient(mounts=page, base_url=openid.address, follow_redirects=True) as client:
        try:
            yield client
        finally:
            await app.state.site.close()


async def sign_in(client: httpx.AsyncClient, wanted: str = "/") -> httpx.Response:
    return await client.get("/sign-in", params={"next": wanted})


async def stop_before_the_end(client: httpx.AsyncClient) -> str:
    """Sign in as far as the provider leads back, and return where to."""
    begun = await client.get("/sign-in", follow_redirects=False)
    led = await client.get(begun.headers["location"], follow_redirects=False)
    return str(led.headers["location"])


async def is_in(client: httpx.AsyncClient) -> bool:
    return (await client.get("/")).status_code == 200


# ------------------------------------------------------------------------------------------------------- in and out


async def test_one_signs_in_and_goes_where_one_wanted_to(database: str, provider: ProviderOfTests) -> None:
    async with browser(database, settings_of(provider)) as client:
        outside = await client.get("/operations?queue=Sales")
        assert outside.status_code == 401
        assert 'href="/sign-in?next=%2Foperations%3Fqueue%3DSales"' in outside.text

        shown = await sign_in(client, "/operations?queue=Sales")

        assert shown.status_code == 200
        assert (shown.url.path, shown.url.query) == ("/operations", b"queue=Sales")
        assert ">ada (7)</span>" in shown.text
        assert 'class="tag">operator' in shown.text
        (asked,) = provider.asked
        assert asked["redirect_uri"] == f"{BASE}/signed-in"
        assert {"openid", "profile", "email"} == set(asked["scope"].split())
        assert len(asked["nonce"]) >= 20
        assert len(asked["state"]) >= 20


async def test_one_signs_out_and_a_copy_of_the_cookie_is_worth_nothing(
    database: str, provider: ProviderOfTests
) -> None:
    async with browser(database, settings_of(provider)) as client:
        shown = await sign_in(client)
        token = shown.text.partition('name="csrf" value="')[2].partition('"')[0]
        kept = httpx.Cookies(client.cookies)

        assert (await client.post("/sign-out", data={"csrf": "forged"})).status_code == 403
        assert (await client.get("/sign-out")).status_code == 405
        assert await is_in(client)
        out = await client.post("/sign-out", data={"csrf": token})

        assert out.status_code == 200
        assert "Signed out" in out.text
        assert f'href="{provider.issuer}/end"' in out.text
        assert not client.cookies
        assert not await is_in(client)
        client.cookies = kept
        assert not await is_in(client)


def test_voided_cookies_are_kept_in_one_list_until_they_are_too_old(provider: ProviderOfTests) -> None:
    """The list of them was copied whole each time that somebody signed in or out."""
    now = [0.0]
    cookie = signing.SealedCookie(Seals(), "session", settings_of(provider), 60, lambda: now[0])
    void, first = cookie._spent, void_one(cookie)
    now[0] = 30.0
    second = void_one(cookie)
    assert (cookie._spent is void, [*void]) == (True, [first, second])
    now[0] = 61.0
    third = void_one(cookie)
    assert (cookie._spent is void, [*void]) == (True, [second, third])


def void_one(cookie: signing.SealedCookie) -> str:
    """Give somebody a cookie, and void it; return its id."""
    answer = Response()
    cookie.give(answer, {})
    text = answer.headers["set-cookie"].partition(";")[0]
    slip = cookie.take(Request({"type": "http", "headers": [(b"cookie", text.encode())]}))
    assert slip is not None
    return slip.id


@every(
    "claims, name",
    [
        ({"preferred_username": "ada", "sub": "7"}, "ada (7)"),
        ({"preferred_username": "ada (7)", "sub": "8"}, "ada (7) (8)"),
        ({"preferred_username": " ", "email": "ada@a.example", "sub": "7"}, "ada@a.example (7)"),
        ({"sub": "7"}, "7"),
        ({"preferred_username": "x" * 900, "sub": "7"}, f"{'x' * 200} (7)"),
    ],
)
def test_people_are_noted_with_what_the_provider_calls_them(claims: dict[str, str], name: str) -> None:
    assert name_of(claims) == name


async def test_cookies_are_for_our_page_alone(provider: ProviderOfTests) -> None:
    secure = replace(settings_of(provider), address="https://queues.example.com/ops")
    async with browser(NOWHERE, secure) as client:
        begun = await client.get("/sign-in", follow_redirects=False)
        led = await client.get(begun.headers["location"], follow_redirects=False)
        ended = await client.get(led.headers["location"], follow_redirects=False)
        assert ended.status_code == 303
        assert ended.headers["location"] == "https://queues.example.com/ops/"
        assert led.headers["location"].startswith("https://queues.example.com/ops/signed-in?")
        (pending,), (session, _forgotten) = (
            [line.lower() for line in answer.headers.get_list("set-cookie")] for answer in (begun, ended)
        )
    for line in (pending, session):
        assert line.startswith("__secure-rowbus-")
        assert {"httponly", "secure", "samesite=lax", "path=/ops/"} <= set(line.split("; "))
    at_root = replace(secure, address="https://queues.example.com")
    async with browser(NOWHERE, at_root) as client:
        assert (
            (await client.get("/sign-in", follow_redirects=False)).headers["set-cookie"].startswith("__Host-")
        )


async def test_the_groups_say_what_one_may_do(database: str, provider: ProviderOfTests) -> None:
    provider.claims["groups"] = ["staff", "others"]
    async with browser(database, settings_of(provider)) as client:
        shown = await sign_in(client)
        assert 'class="tag">viewer' in shown.text
        token = shown.text.partition('name="csrf" value="')[2].partition('"')[0]
        refused = await client.post("/operations/1/stop", data={"csrf": token, "confirmed": "yes"})
        assert refused.status_code == 403
        assert "your role is viewer" in refused.text


@every("groups", [[], ["other"], "opsx", {"ops": 1}, [["ops"]], None, ["*"], "*"])
async def test_who_has_no_role_is_not_let_in(provider: ProviderOfTests, groups: object) -> None:
    provider.claims |= {"groups": groups, "preferred_username": HOSTILE}
    async with browser(NOWHERE, settings_of(provider)) as client:
        refused = await sign_in(client)

        assert refused.status_code == 403
        assert "none of your groups has a role" in refused.text
        assert "&lt;b&gt;ada" in refused.text
        assert not {"\u202e", "\x1b"} & set(refused.text)
        assert not await is_in(client)


async def test_groups_may_be_further_down_or_told_apart(database: str, provider: ProviderOfTests) -> None:
    del provider.claims["groups"]
    provider.userinfo = {"sub": "7", "realm_access": {"roles": ["ops"]}}
    openid = replace(settings_of(provider), claim="realm_access.roles")
    async with browser(database, openid) as client:
        assert 'class="tag">operator' in (await sign_in(client)).text

    provider.userinfo["sub"] = "8"
    async with browser(database, openid) as client:
        assert (await sign_in(client)).status_code == 403
        assert not await is_in(client)


async def test_a_public_client_has_pkce_alone(database: str, provider: ProviderOfTests) -> None:
    provider.secret = ""
    async with browser(database, replace(settings_of(provider), secret="", operators=("*",))) as client:
        assert (await sign_in(client)).status_code == 200


async def test_a_session_ends_after_a_working_day(
    provider: ProviderOfTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "SESSION", 0)
    async with browser(NOWHERE, settings_of(provider)) as client:
        answer = await sign_in(client)
        assert answer.status_code == 401
        assert "Sign in" in answer.text


async def test_another_key_is_fetched_when_the_provider_changes_its_own(
    database: str, provider: ProviderOfTests
) -> None:
    async with browser(database, settings_of(provider)) as client:
        assert (await sign_in(client)).status_code == 200
        client.cookies.clear()
        provider.key = key_of("the provider's next", "second")
        assert (await sign_in(client)).status_code == 200


# ---------------------------------------------------------------------------------------------------- what is refused


def unsigned(claims: dict[str, Any], algorithm: str = "none") -> str:
    parts = ({"alg": algorithm, "kid": "first"}, claims)
    return ".".join([*(_encoded(json.dumps(part).encode()) for part in parts), ""])


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def by_another_key(provider: ProviderOfTests, claims: dict[str, Any]) -> str:
    return provider.signed(claims, key_of("a stranger's", "first"))


def by_the_public_key(provider: ProviderOfTests, claims: dict[str, Any]) -> str:
    """Sign with what everybody knows: a check that takes the algorithm from the token takes it for the secret."""
    signed = unsigned(claims, "HS256").removesuffix(".")
    digest = hmac.new(provider.key.as_pem(private=False), signed.encode(), "sha256").digest()
    return f"{signed}.{_encoded(digest)}"


def without(claims: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in claims.items() if key != name}


SPOILED: dict[str, Callable[[ProviderOfTests, dict[str, Any]], str]] = {
    "another nonce": lambda p, c: p.signed(c | {"nonce": "another"}),
    "no nonce": lambda p, c: p.signed(without(c, "nonce")),
    "another audience": lambda p, c: p.signed(c | {"aud": "another"}),
    "another audience for us": lambda p, c: p.signed(c | {"aud": "another", "azp": CLIENT}),
    "no audience": lambda p, c: p.signed(without(c, "aud")),
    "for somebody else": lambda p, c: p.signed(c | {"aud": [CLIENT, "another"], "azp": "another"}),
    "another issuer": lambda p, c: p.signed(c | {"iss": "https://evil.example"}),
    "expired": lambda p, c: p.signed(c | {"exp": time.time() - 120, "iat": time.time() - 500}),
    "no end": lambda p, c: p.signed(without(c, "exp")),
    "issued in the future": lambda p, c: p.signed(c | {"iat": time.time() + 500}),
    "nobody": lambda p, c: p.signed(without(c, "sub")),
    "another key": by_another_key,
    "the public key as a secret": by_the_public_key,
    "no signature": lambda _, c: unsigned(c),
    "a signature left out": lambda _, c: unsigned(c, "RS256"),
    "a payload changed": lambda p, c: ".".join([*_parts(p, c)]),
    "no token": lambda _, __: "",
}


def _parts(provider: ProviderOfTests, claims: dict[str, Any]) -> list[str]:
    """Return the parts of a token, with the payload of another."""
    head, _, signature = provider.signed(claims | {"groups": []}).split(".")
    return [head, provider.signed(claims).split(".")[1], signature]


@every("spoiled", SPOILED)
async def test_a_token_that_proves_nothing_lets_nobody_in(provider: ProviderOfTests, spoiled: str) -> None:
    provider.sign = lambda claims: SPOILED[spoiled](provider, claims)
    async with browser(NOWHERE, settings_of(provider)) as client:
        refused = await sign_in(client)

        assert refused.status_code == 403, refused.text
        assert "does not prove who you are" in refused.text
        assert ">Sign in again<" in refused.text
        assert not await is_in(client)


async def test_a_sign_in_is_finished_once_in_its_own_browser(
    database: str, provider: ProviderOfTests
) -> None:
    async with browser(database, settings_of(provider)) as client:
        back = await stop_before_the_end(client)
        kept = httpx.Cookies(client.cookies)
        client.cookies.clear()
        assert (await client.get(back)).status_code == 403  # another browser
        client.cookies = httpx.Cookies(kept)
        for forged in ({"state": "another"}, {"state": ""}, {"iss": "https://evil.example"}):
            address = httpx.URL(back).copy_merge_params(forged)
            refused = await client.get(address)
            assert refused.status_code == 403
            client.cookies = httpx.Cookies(kept)
        assert not await is_in(client)

    async with browser(database, settings_of(provider)) as client:
        back = await stop_before_the_end(client)
        kept = httpx.Cookies(client.cookies)
        assert (await client.get(back)).status_code == 200
        client.cookies = kept
        replayed = await client.get(back)
        assert replayed.status_code == 403
        assert "was used" in replayed.text
        assert not await is_in(client)


async def test_a_sign_in_takes_ten_minutes_at_most(
    provider: ProviderOfTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "UNDER_WAY", 0)
    async with browser(NOWHERE, settings_of(provider)) as client:
        assert "took too long" in (await sign_in(client)).text


@every("error, told", [("access_denied", "did not let you in"), ("<b>x", "does not prove")])
async def test_what_an_address_says_is_not_said_by_us(
    provider: ProviderOfTests, error: str, told: str
) -> None:
    async with browser(NOWHERE, settings_of(provider)) as client:
        back = httpx.URL(await stop_before_the_end(client)).copy_merge_params(
            {"error": error, "error_description": "Call 555-0100"}
        )
        refused = await client.get(back)
        assert refused.status_code == 403
        assert told in refused.text
        assert "555" not in refused.text
        assert "<b>" not in refused.text


@every(
    "wanted",
    ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "x", "/" * 2000],
)
async def test_nobody_is_led_elsewhere(provider: ProviderOfTests, wanted: str) -> None:
    async with browser(NOWHERE, settings_of(provider)) as client:
        begun = await client.get("/sign-in", params={"next": wanted}, follow_redirects=False)
        led = await client.get(begun.headers["location"], follow_redirects=False)
        ended = await client.get(led.headers["location"], follow_redirects=False)
        assert ended.headers["location"] == f"{BASE}/"


async def test_a_provider_that_is_away_or_another_is_said(database: str, provider: ProviderOfTests) -> None:
    async with browser(database, settings_of(provider)) as client:
        provider.described = {"issuer": "https://evil.example"}
        away = await sign_in(client)
        assert away.status_code == 503
        assert "provider" in away.text
        provider.described = {}
        assert (await sign_in(client)).status_code == 200
    gone = replace(settings_of(provider), issuer="http://127.0.0.1:1")
    async with browser(database, gone) as client:
        assert (await sign_in(client)).status_code == 503


async def test_without_the_secret_of_the_client_nobody_comes_in(provider: ProviderOfTests) -> None:
    async with browser(NOWHERE, replace(settings_of(provider), secret="guessed")) as client:
        assert (await sign_in(client)).status_code == 403


# --------------------------------------------------------------------------------------------------------- settings


@every(
    "changed",
    [
        {"issuer": "http://login.example.com"},
        {"issuer": "https://login.example.com?x=1"},
        {"issuer": "login.example.com"},
        {"address": "http://queues.example.com"},
        {"client_id": ""},
        {"scopes": ("profile",)},
        {"operators": (), "viewers": ()},
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, Any]) -> None:
    good = OpenIdConnect(
        issuer="https://a.example", client_id="x", address="https://b.example", viewers=("*",)
    )
    with pytest.raises(ConfigurationError):
        replace(good, **changed)
    with pytest.raises(ConfigurationError, match="trusted header"):
        WebSettings(openid=good, trusted_header="X-Remote-User")

    def who(_request: Request) -> Person | None:
        return None

    with pytest.raises(ConfigurationError, match="who"):
        application("postgresql://nowhere", settings=WebSettings(openid=good), who=who)


def test_a_secret_is_not_shown() -> None:
    good = OpenIdConnect(
        issuer="https://a.example",
        client_id="x",
        address="https://b.example",
        viewers=("*",),
        secret="s3cret",
    )
    assert "s3cret" not in repr(WebSettings(openid=good))


# -------------------------------------------------------------------------------------------------------- the command


def test_the_command_signs_people_in(rowbus: CommandLine, provider: ProviderOfTests) -> None:
    (rowbus.folder / "secret").write_text(f"{SECRET}\n")
    port = httpx.URL(BASE).port  # not listened at: the way back is asked of the process by hand
    running = rowbus.start(
        *("web", "--port", "0", "--public-url", f"http://localhost:{port}"),
        *("--oidc-issuer", provider.issuer, "--oidc-client-id", CLIENT, "--oidc-secret-file", "secret"),
        *("--oidc-operator", "ops", "--oidc-scope", "groups", "--verbose"),
    )
    address = running.wait_for(r"at (http://\S+) who signs in at")[0][1]

    with httpx.Client(base_url=address) as client:
        assert client.get("/").status_code == 401
        begun = client.get("/sign-in?next=/operations")
        led = urlsplit(httpx.get(begun.headers["location"]).headers["location"])
        assert f"{led.scheme}://{led.netloc}{led.path}" == f"http://localhost:{port}/signed-in"
        ended = client.get(f"/signed-in?{led.query}")
        assert ended.headers["location"] == f"http://localhost:{port}/operations"
        assert ">ada (" in client.get("/operations").text  # and what the provider calls her
    assert parse_qs(urlsplit(begun.headers["location"]).query)["scope"] == ["openid profile email groups"]
    running.wait_for(r"ada \(7\) signed in as operator")
    written = "\n".join(running.lines)
    assert SECRET not in written
    assert "code_verifier" not in written


@every(
    "options, told",
    [
        (("--oidc-issuer", "https://a.example", "--oidc-viewer", "*"), "id that the provider"),
        (("--oidc-issuer", "https://a.example", "--oidc-client-id", "x"), "at least one group"),
        (("--port", "0", "--oidc-issuer", "https://a.example"), "--public-url"),
        (("--oidc-issuer", "https://a.example", "--oidc-secret-file", "nowhere"), "cannot be read"),
        (("--oidc-viewer", "*", "--oidc-client-id", "x"), "issuer"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    rowbus: CommandLine, options: tuple[str, ...], told: str
) -> None:
    done = rowbus("web", *options)

    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())
