"""Signals during a measurement: each of them ends it, and none keeps it from being cleaned up.

Invariant: the process's own handling of signals is put back afterwards.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowbus.running.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType


@contextmanager
def terminated_like_interrupted() -> Generator[None]:
    """Have SIGTERM do what Ctrl-C does: raise KeyboardInterrupt, so that what is to be cleaned up is."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def undisturbed() -> Generator[None]:
    """Keep signals back until the block has ended; then they do what they do."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do now, also where that is ignored: in the background of a script."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)
