"""Searches for text where bodies are masked: what is hidden cannot be found either.

Invariant: where paths are masked, a message is found only by its headers, or by what of its body is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.transport.recoverability.error_queue import ErrorQueue
from rowbus.web.masking import mask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.recoverability.failures.search import Failure


def allowed(
    session: Session, queue: QueueAddress, failures: list[Failure], text: str, paths: Sequence[str]
) -> list[Failure]:
    """Return those of the messages found for a text in which it is also found when they are masked."""
    if not paths or not text:
        return failures
    errors = ErrorQueue(session, queue)
    return [failure for failure in failures if _shows(errors, failure, text, paths)]


def _shows(errors: ErrorQueue, failure: Failure, text: str, paths: Sequence[str]) -> bool:
    if failure.failed.row_id == text:
        return True
    row = errors.look(failure.failed)
    if row is None:
        return False
    return text in row.headers or text in mask((row.body or b"").decode("utf-8", "replace"), paths)
