"""The operator's page beside the demo: what happens in the shop, in a browser, while it happens.

Invariant: the demo needs no page: without the extra `web` it goes on, and says so.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from rowbus.demo.processes import Processes

NAME = "Page"


def open_page(processes: Processes, talk: Console) -> subprocess.Popen[str] | None:
    """Start `rowbus web` at a port that is free, and say where; None without what it needs."""
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        talk.print("Without the operator's page, which needs the extra web.")
        return None
    page = processes.start(NAME, "rowbus", "web", "--port", "0", "--embedded", stdout=subprocess.PIPE)
    told = page.stdout.readline().strip() if page.stdout is not None else ""
    talk.print(told or "The operator's page did not start.", markup=False, soft_wrap=True)
    return page if told else None


def keep_open(page: subprocess.Popen[str], talk: Console) -> None:
    """Wait until Ctrl-C, or until the page ends by itself."""
    talk.print("The page stays open until Ctrl-C.")
    with suppress(KeyboardInterrupt):
        page.wait()
