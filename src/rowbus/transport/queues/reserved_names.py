"""Names of the queues of ServiceControl, which no endpoint may have.

Invariant: pure.
"""

from __future__ import annotations

from typing import Final

from rowbus.errors import ConfigurationError

SERVICECONTROL: Final = (
    "Particular.ServiceControl",
    "Particular.ServiceControl.Errors",
    "Particular.ServiceControl.staging",
    "Particular.ServiceControl.Audit",
    "Particular.ServiceControl.Audit.Errors",
    "Particular.Monitoring",
    "ServiceControl.ThroughputData",
)
"""The queues that its three instances receive from, make when they are set up, and send to each other through."""

COPIES: Final = ("error", "audit")
"""The queues that endpoints send to and it receives from, as they are called unless it is told otherwise."""

FORWARDED: Final = ("error.log", "audit.log")
"""Where it forwards what it has imported, if it is told to."""

_RESERVED: Final = {name.casefold() for name in (*SERVICECONTROL, *COPIES, *FORWARDED)}


def check_endpoint_name(name: str) -> None:
    """Raise ConfigurationError for the name of one of ServiceControl's queues: both would receive from it."""
    if name.casefold() in _RESERVED:
        raise ConfigurationError(
            f"{name} cannot name an endpoint: ServiceControl receives from the queue of that name, and each would get "
            "a part of the messages."
        )
