"""The provider, through Authlib: where browsers go to sign in, and what is proved when they come back.

Invariant: only here is Authlib known. A person is known once state, issuer, audience, nonce, times and signature were
checked; why a sign-in failed is logged, and what a stranger wrote into an address is not shown as our words.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol

from authlib.common.errors import AuthlibBaseError  # type: ignore[import-untyped] # it has no annotations
from authlib.integrations.starlette_client import OAuth  # type: ignore[import-untyped] # as above
from httpx2 import HTTPError
from joserfc.errors import JoseError

from rowbus.errors import RowbusError
from rowbus.errors.strangers import printable
from rowbus.web.openid.settings import OpenIdConnect, has_groups

logger = logging.getLogger("rowbus.web")
logging.getLogger("authlib").setLevel(logging.INFO)  # below, it logs what PKCE keeps secret

PATIENCE: Final = 10.0  # seconds for each answer of the provider
LEEWAY: Final = 60  # seconds that its clock may differ from ours
SIGNED_BY_KEY_PAIR: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
"""Algorithms accepted: never `none`, nor one whose secret could be the public key."""

DENIED: Final = (
    "Your provider did not let you in here. Ask those who run it, or sign in with another account."
)
AWAY: Final = "The provider that signs people in does not answer, or not as it should. Try again in a minute."
UNPROVED: Final = "Your provider's answer does not prove who you are, so it is not accepted. Sign in again."
OLD: Final = "This sign-in was used, took too long, or began in another browser. Sign in again."
CODES: Final = {"access_denied": DENIED, "temporarily_unavailable": AWAY, "server_error": AWAY}


class SignInError(RowbusError):
    """A sign-in failed; `status` is that of the answer."""

    def __init__(self, text: str, status: int = 403) -> None:
        """Take what a person is told."""
        super().__init__(text)
        self.status = status


class Begun(NamedTuple):
    """A sign-in that began: where the browser goes, and what is kept for its return."""

    url: str
    kept: Mapping[str, str]


class _Client(Protocol):
    """The part of Authlib's client that we use."""

    client_kwargs: dict[str, Any]
    server_metadata: dict[str, Any]

    async def load_server_metadata(self) -> dict[str, Any]: ...
    async def create_authorization_url(self, redirect_uri: str) -> dict[str, str]: ...
    async def fetch_access_token(self, redirect_uri: str, **parameters: str) -> dict[str, Any]: ...
    async def parse_id_token(
        self, token: Mapping[str, Any], *, nonce: str, claims_options: Mapping[str, Any], leeway: int
    ) -> Mapping[str, Any] | None: ...
    async def userinfo(self, *, token: Mapping[str, Any]) -> Mapping[str, Any]: ...


class Provider:
    """An OpenID provider, as it describes itself."""

    def __init__(self, settings: OpenIdConnect) -> None:
        """Take the settings. No I/O."""
        self._settings = settings
        self._return = f"{settings.address}/signed-in"
        clients: Any = OAuth()
        self._client: _Client = clients.register(
            "rowbus",
            client_id=settings.client_id,
            client_secret=settings.secret or None,
            server_metadata_url=f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": " ".join(settings.scopes),
                "code_challenge_method": "S256",
                "timeout": PATIENCE,
            },
        )

    async def begin(self) -> Begun:
        """Return where a browser signs in. Raises SignInError."""
        async with _told():
            await self._describe()
            found = await self._client.create_authorization_url(self._return)
            return Begun(found["url"], {name: found[name] for name in ("state", "nonce", "code_verifier")})

    async def finish(self, kept: Mapping[str, str], query: Mapping[str, str]) -> Mapping[str, Any]:
        """Return what is proved of the person whom the provider sent back. Raises SignInError."""
        if not hmac.compare_digest(query.get("state", "").encode(), kept["state"].encode()):
            raise SignInError(OLD)
        if query.get("iss", self._settings.issuer) != self._settings.issuer:  # RFC 9207
            raise SignInError(UNPROVED)
        if "error" in query:
            logger.warning("A sign-in failed: %s", printable(query["error"][:100]))
            raise SignInError(CODES.get(query["error"], UNPROVED))
        async with _told():
            metadata = await self._describe()
            token = await self._client.fetch_access_token(
                self._return, code=query.get("code", ""), code_verifier=kept["code_verifier"]
            )
            claims = await self._client.parse_id_token(
                token, nonce=kept["nonce"], claims_options=self._options(), leeway=LEEWAY
            )
            if claims is None:
                raise SignInError(UNPROVED)
            return await self._with_groups(claims, token, metadata)

    async def leave_address(self) -> str:
        """Return where people sign out of the provider, too; nothing if it does not say."""
        try:
            async with _told():
                found: object = (await self._describe()).get("end_session_endpoint", "")
        except SignInError:
            return ""
        return found if isinstance(found, str) and found.startswith(("https://", "http://")) else ""

    async def _describe(self) -> Mapping[str, Any]:
        """Read how the provider describes itself, once; keep what is as it must be."""
        metadata = await self._client.load_server_metadata()
        if metadata.get("issuer") != self._settings.issuer:
            logger.error(
                "The provider at %s names itself %s: that must be the issuer, letter for letter",
                self._settings.issuer,
                printable(str(metadata.get("issuer"))),
            )
            self._client.server_metadata.clear()
            raise SignInError(AWAY, 503)
        named = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        metadata["id_token_signing_alg_values_supported"] = [
            name for name in named if name in SIGNED_BY_KEY_PAIR
        ] or ["RS256"]
        if self._settings.secret:
            taken = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
            way = "client_secret_basic" if "client_secret_basic" in taken else "client_secret_post"
            self._client.client_kwargs["token_endpoint_auth_method"] = way
        return metadata

    def _options(self) -> Mapping[str, Any]:
        """Return what claims must be; Authlib by itself accepts another audience beside our `azp`."""
        return {
            "iss": {"essential": True, "value": self._settings.issuer},
            "aud": {"essential": True, "value": self._settings.client_id},
            "exp": {"essential": True},
        }

    async def _with_groups(
        self, claims: Mapping[str, Any], token: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Ask for the groups where the token does not have them; who is told of must be who signed in."""
        if has_groups(claims, self._settings) or "userinfo_endpoint" not in metadata:
            return claims
        more = await self._client.userinfo(token=token)
        if more.get("sub") != claims["sub"]:
            raise SignInError(UNPROVED)
        return {**more, **claims}


@asynccontextmanager
async def _told() -> AsyncGenerator[None]:
    """Tell failures of the provider as what a person can do about them; the log has the rest."""
    try:
        yield
    except SignInError:
        raise
    except (AuthlibBaseError, JoseError) as error:
        logger.warning("A sign-in was not accepted: %s", _named(error))
        raise SignInError(UNPROVED) from error
    except (HTTPError, RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("The provider of sign-ins does not answer as it should: %s", _named(error))
        raise SignInError(AWAY, 503) from error


def _named(error: Exception) -> str:
    return printable(f"{type(error).__name__}: {error}"[:300])
