"""What the provider says of a person, and the role that follows from it.

Invariant: pure; claims may have any form, and one that is not understood gives no role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from rowbus.web.access.people import Role
from rowbus.web.openid.settings import ANYBODY, OpenIdConnect

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
    """Return what to call a person, here and in the log of operations."""
    named = (claims.get(name) for name in _NAMES)
    return next((text[:LONGEST_NAME] for text in named if isinstance(text, str) and text.strip()), "?")


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
