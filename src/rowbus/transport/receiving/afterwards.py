"""The calls that handlers want made once their transaction is committed.

Invariant: a call is made after a commit or never: an attempt that fails takes its calls with it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.running.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger("rowbus.receiving")


async def make_calls(calls: Sequence[Callable[[], object]]) -> None:
    """Make calls one after the other in a thread, and wait for their end; what they raise is logged."""
    if calls:
        await run_in_thread(_make, calls)


def _make(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        try:
            call()
        except Exception:
            logger.exception("A call after the commit failed; its message is handled")
