"""The facts about this process that the platform groups its messages by."""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Host(NamedTuple):
    """A process: its machine, 32 lower-case hex digits by which it is known, and the name that people read."""

    machine: str
    id: str
    display_name: str


class Process(NamedTuple):
    """A process as the platform shows it: its id, the user it runs as, and the path of its program."""

    id: int
    user: str
    program: str


def this_process() -> Process:
    """Return this process; a user without a name, as in containers, is shown by number."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return Process(os.getpid(), user, os.path.realpath(sys.argv[0] or sys.executable))


def this_host(
    endpoint: str = "",
    *,
    machine: str | None = None,
    display_name: str | None = None,
    host_id: str | None = None,
) -> Host:
    """Return the facts about this process, or about one endpoint in it.

    The id is the one given, 32 digits. None given, it is made of the endpoint and the display name given, so that it is
    the same wherever the endpoint runs; without that name, of endpoint, machine (None: as it is called) and program.
    """
    machine = machine or socket.gethostname()
    place = display_name or f"{machine}{os.path.realpath(sys.argv[0] or sys.executable)}"
    made = hashlib.md5(f"{place}{endpoint}".encode(), usedforsecurity=False).hexdigest()
    return Host(machine, made if host_id is None else host_id, display_name or machine)


@cache
def this_program() -> str:
    """Return the name of the program that runs: its file's, its package's for `python -m`, or `python`. Asked once."""
    path = Path(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.stem == "__main__" else path.stem
    return "python" if name in {"", "-c", "-m", "-"} else name
