"""An OpenID provider to sign in at, as a real server on loopback: codes, PKCE, and tokens signed by a key of its own.

Everybody who comes is signed in at once, as whom `claims` say. What it says of itself and of them can be spoiled.

Invariant: it is as strict as the specification wants it: a code works once, for its redirect address and its verifier.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from rowbus.web.serving import listening

CLIENT, SECRET = "rowbus-page", "s3cret:of the/client"  # what form encoding changes is in it
Claims = dict[str, Any]


@cache
def key_of(name: str, kid: str) -> RSAKey:
    """Return a key, always the same for a name; making one takes a while."""
    del name
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


class ProviderOfTests:
    """The provider; `issuer` is its address."""

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.key = key_of("the provider's", "first")
        self.claims: Claims = {"sub": "7", "preferred_username": "ada", "groups": ["ops"]}
        self.userinfo: Claims | None = None
        self.secret = SECRET
        self.described: Claims = {}
        """Claims that it makes about itself beside, or instead of, the truth."""
        self.sign: Callable[[Claims], str] = self.signed
        """Makes the token of what it is to say."""
        self.asked: list[dict[str, str]] = []
        """The sign-ins that browsers asked for."""
        self._codes: dict[str, dict[str, str]] = {}

    def signed(self, claims: Claims, key: RSAKey | None = None) -> str:
        """Return a token, signed by this key or by the provider's."""
        used = key or self.key
        return jwt.encode({"alg": "RS256", "kid": used.kid}, claims, used, algorithms=["RS256"])

    def application(self) -> Starlette:
        routes = [
            Route("/.well-known/openid-configuration", self._describe),
            Route("/keys", self._keys),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
            Route("/userinfo", self._userinfo),
            Route("/end", lambda _request: PlainTextResponse("bye")),
        ]
        return Starlette(routes=routes)

    async def _describe(self, _request: Request) -> Response:
        places = {"authorization": "authorize", "token": "token", "end_session": "end"}
        if self.userinfo is not None:
            places["userinfo"] = "userinfo"
        found = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in places.items()}
        algorithms = ["RS256", "HS256", "none"]
        known: Claims = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **found}
        return JSONResponse(known | {"id_token_signing_alg_values_supported": algorithms} | self.described)

    async def _keys(self, _request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        self.asked.append(asked)
        code = secrets.token_urlsafe()
        self._codes[code] = asked
        answer = urlencode({"code": code, "state": asked["state"], "iss": self.issuer})
        return RedirectResponse(f"{asked['redirect_uri']}?{answer}", 302)

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        asked = self._codes.pop(form.get("code", ""), None)
        if not self._is_client(request, form):
            return JSONResponse({"error": "invalid_client"}, 401)
        if asked is None or form["redirect_uri"] != asked["redirect_uri"] or not _is_verified(form, asked):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        known = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        token = self.sign({**known, **self.claims})
        return JSONResponse({"access_token": "access", "token_type": "Bearer", "id_token": token})

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        if not self.secret:
            return form.get("client_id") == CLIENT
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        name, _, secret = base64.b64decode(given).decode().partition(":")
        return kind == "Basic" and (unquote(name), unquote(secret)) == (CLIENT, self.secret)

    async def _userinfo(self, request: Request) -> Response:
        if request.headers.get("authorization") != "Bearer access":
            return PlainTextResponse("", 401)
        return JSONResponse(self.userinfo)


def _is_verified(form: dict[str, str], asked: dict[str, str]) -> bool:
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]


@contextmanager
def serving() -> Generator[ProviderOfTests]:
    """Give a provider that answers; it ends with the block."""
    with listening("127.0.0.1", 0) as sock:
        provider = ProviderOfTests(sock.getsockname()[1])
        sock.listen()  # who comes before uvicorn has started waits
        configuration = uvicorn.Config(provider.application(), log_config=None, lifespan="off")
        server = uvicorn.Server(configuration)
        thread = threading.Thread(target=server.run, args=([sock],))
        thread.start()
        try:
            yield provider
        finally:
            server.should_exit = True
            thread.join()
