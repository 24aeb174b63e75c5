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
    """A process: the name of its machine, and 32 lower-case hex digits for the machine and the program."""

    machine: str
    id: str


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


def this_host() -> Host:
    """Return the facts about this process."""
    machine = socket.gethostname()
    program = os.path.realpath(sys.argv[0] or sys.executable)
    host_id = hashlib.md5(f"{machine}{program}".encode(), usedforsecurity=False).hexdigest()
    return Host(machine, host_id)


@cache
def this_program() -> str:
    """Return the name of the program that runs: its file's, its package's for `python -m`, or `python`. Asked once."""
    path = Path(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.stem == "__main__" else path.stem
    return "python" if name in {"", "-c", "-m", "-"} else name
