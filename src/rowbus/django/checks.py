"""System checks: mistakes that `manage.py check` finds before an endpoint starts.

Invariant: no check touches a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Remark

from rowbus import ConfigurationError, RowbusError
from rowbus.django.databases import dsn_of
from rowbus.django.discovery import endpoints
from rowbus.django.endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_endpoints(**_given: Any) -> list[CheckMessage]:  # noqa: ANN401 - Django's signature
    """Import the endpoints, and look whether each has handlers and a database that Rowbus can use."""
    try:
        found = endpoints()
    except (RowbusError, ImportError) as error:
        return [Error(f"The endpoints cannot be imported: {error}", id="rowbus.E001")]
    return [message for name, endpoint in found.items() for message in _looked_at(name, endpoint)]


def _looked_at(name: str, endpoint: Any) -> Iterator[CheckMessage]:  # noqa: ANN401 - an endpoint, of either kind
    try:
        endpoint.require_handlers()
    except ConfigurationError as error:
        yield Error(str(error), obj=name, id="rowbus.E002")
    if not isinstance(endpoint, Endpoint):
        yield Remark(
            f"{name} is a rowbus.Endpoint: Django's ORM works outside of the receive transaction in its handlers.",
            hint="Make it a rowbus.django.Endpoint, or silence this where no handler uses the ORM.",
            id="rowbus.W001",
        )
        return
    try:
        dsn_of(endpoint.using)
    except ConfigurationError as error:
        yield Error(str(error), obj=name, id="rowbus.E003")
