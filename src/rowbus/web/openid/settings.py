"""Settings of the sign-in: the provider, our client there, and the groups from which a person's role follows.

Invariants: values only; nothing is sent over a connection that others can read, but on this machine; claims may have
any form, and one that is not understood gives no role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

from rowbus.errors import ConfigurationError
from rowbus.web.visitors import LOOPBACK, Role

ANYBODY: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdConnect:
    """The way in which people sign in. Raises ConfigurationError for what cannot be."""

    issuer: str
    """The provider, as it names itself: its `/.well-known/openid-configuration` says the rest."""

    client_id: str
    """The provider's name for this page."""

    address: str
    """Where browsers open the page, with the path below which it is mounted: `https://queues.example.com`. The provider
    sends them back to its `/signed-in`."""

    secret: str = field(default="", repr=False)
    """The client's secret at the provider; none for a public client, which has PKCE alone."""

    scopes: tuple[str, ...] = ("openid", "profile", "email")
    """The scopes asked of the provider; some want one more before they tell groups."""

    claim: str = "groups"
    """The claim that has a person's groups; dots lead into objects: `realm_access.roles`."""

    operators: tuple[str, ...] = ()
    """Groups whose people may act; `*` is everybody who signs in."""

    viewers: tuple[str, ...] = ()
    """Groups whose people may look; `*` is everybody who signs in. Who is in neither is not let in."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        object.__setattr__(self, "address", self.address.rstrip("/"))
        for called, address in (("issuer", self.issuer), ("page's address", self.address)):
            if not _is_safe(address):
                raise ConfigurationError(
                    f"The {called} must be an https:// address without a query, or one of this machine, "
                    f"not {address!r}."
                )
        if not self.client_id:
            raise ConfigurationError("OpenID Connect needs the id that the provider gave this client.")
        if "openid" not in self.scopes:
            raise ConfigurationError("The scopes of OpenID Connect must have openid.")
        if not (self.operators or self.viewers):
            raise ConfigurationError(
                "No one could come in: name at least one group of operators or viewers; * is all who sign in."
            )

    @property
    def host(self) -> str:
        """The host by which browsers open the page."""
        return urlsplit(self.address).hostname or ""

    @property
    def path(self) -> str:
        """The path of the page's root, ending in a slash."""
        return f"{urlsplit(self.address).path}/"

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the page by TLS."""
        return self.address.startswith("https://")


def _is_safe(address: str) -> bool:
    try:
        found = urlsplit(address)
        _ = found.port
    except ValueError:
        return False
    if found.query or found.fragment or found.username is not None or not found.hostname:
        return False
    return found.scheme == "https" or (found.scheme == "http" and found.hostname in LOOPBACK)


LONGEST_NAME: Final = 200
_NAMES: Final = ("preferred_username", "email", "sub")


def has_groups(claims: Mapping[str, Any], settings: OpenIdConnect) -> bool:
    """Say whether claims have the one that groups are in, be it empty."""
    return _found(claims, settings.claim) is not None


def role_of(claims: Mapping[str, Any], settings: OpenIdConnect) -> Role | None:
    """Return the role that the person's groups give; None if they give none."""
    groups = _texts(_found(claims, settings.claim)) | {ANYBODY}
    if groups & set(settings.operators):
        return Role.OPERATOR
    return Role.VIEWER if groups & set(settings.viewers) else None


def name_of(claims: Mapping[str, Any]) -> str:
    """Return what to call a person, here and in the log of operations: people choose names, the provider the `sub`."""
    named = (claims.get(name) for name in _NAMES)
    name = next((text for text in named if isinstance(text, str) and text.strip()), "?")[:LONGEST_NAME]
    subject = str(claims.get("sub", ""))[:LONGEST_NAME]
    return name if subject in {name, ""} else f"{name} ({subject})"


def _found(claims: Mapping[str, Any], path: str) -> object:
    """Return a claim; some have dots in their names, as those that are addresses."""
    if path in claims:
        return claims[path]
    found: object = claims
    for step in path.split("."):
        found = cast("Mapping[str, object]", found).get(step) if isinstance(found, Mapping) else None
    return found


def _texts(value: object) -> set[str]:
    if isinstance(value, str):
        return {value} - {ANYBODY}
    if isinstance(value, list):
        return {one for one in cast("list[object]", value) if isinstance(one, str)} - {ANYBODY}
    return set()
