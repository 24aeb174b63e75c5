"""What systemd is told of a service of type `notify`: that it is ready, that it stops, and that it lives.

Source: sd_notify(3) and sd_watchdog_enabled(3): datagrams of `NAME=value` to the socket in NOTIFY_SOCKET.

Invariant: never raises, and never waits: a manager that does not listen harms nothing.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET: Final = "NOTIFY_SOCKET"
PERIOD: Final = "WATCHDOG_USEC"
PROCESS: Final = "WATCHDOG_PID"

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"


def tell(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Tell the manager; say whether there is one and it was told. A socket's name that begins with @ is abstract."""
    path = environment.get(SOCKET, "")
    if not path.startswith(("/", "@")):
        return False
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
        manager.settimeout(0)
        manager.sendto(state.encode(), address)
        return True
    return False


def watchdog_period(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return how often to say that the process lives, in seconds: half of what the manager waits; None: never."""
    if environment.get(PROCESS, str(os.getpid())) != str(os.getpid()):
        return None
    with suppress(ValueError):
        microseconds = int(environment.get(PERIOD, ""))
        return microseconds / 2_000_000 if microseconds > 0 else None
    return None
