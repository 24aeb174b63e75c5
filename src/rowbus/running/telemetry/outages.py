"""The outages of this process, as its breakers know them: what `/readyz` answers from.

Invariant: an outage is listed from its first failure to its end, or to the end of the service that had it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from rowbus.running.telemetry.instruments import instruments

if TYPE_CHECKING:
    import logging

UNESSENTIAL: Final = frozenset({"rowbus.platform"})
"""Loggers of services whose outages keep nothing from being served."""


class Watched(Protocol):
    """A breaker, as far as it is needed here."""

    activity: str
    logger: logging.Logger

    @property
    def is_failing(self) -> bool:
        """Whether its outage goes on."""
        raise NotImplementedError


_failing: WeakSet[Watched] = WeakSet()


def began(breaker: Watched) -> None:
    """Note an outage."""
    _failing.add(breaker)
    if measured := instruments():
        measured.outages.add((breaker.activity,))


def ended(breaker: Watched) -> None:
    """Note the end of an outage, or of the service that had it."""
    _failing.discard(breaker)


def going_on() -> list[str]:
    """Return the activities that fail now, and that serving needs."""
    return sorted(
        {one.activity for one in list(_failing) if one.is_failing and one.logger.name not in UNESSENTIAL}
    )
