"""Whether the code that runs is a handler's: what a handler must not do asks here.

Invariant: tasks and threads that a handler starts count as the handler, as they see its context.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_message: ContextVar[str | None] = ContextVar("rowbus_message_in_hand", default=None)


@contextmanager
def handling(message_id: str) -> Generator[None]:
    """Note that handlers of a message run within."""
    token = _message.set(message_id)
    try:
        yield
    finally:
        _message.reset(token)


def message_in_hand() -> str | None:
    """Return the id of the message whose handler runs; None outside of handlers."""
    return _message.get()
