"""The facts about this process that the platform groups its messages by."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from typing import NamedTuple


class Host(NamedTuple):
    """A process: the name of its machine, and 32 lower-case hex digits for the machine and the program."""

    machine: str
    id: str


def this_host() -> Host:
    """Return the facts about this process."""
    machine = socket.gethostname()
    program = os.path.realpath(sys.argv[0] or sys.executable)
    host_id = hashlib.md5(f"{machine}{program}".encode(), usedforsecurity=False).hexdigest()
    return Host(machine, host_id)
