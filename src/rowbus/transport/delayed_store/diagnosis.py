"""The diagnosis of a delayed message store, from facts gathered elsewhere.

Invariant: pure; a store that is polled is never complained about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors.strangers import text_of
from rowbus.transport.delayed.diagnosis import OVERDUE_WARNING
from rowbus.transport.queues.diagnosis import Finding, Level, duration

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.transport.delayed.table import DelayedState

ADVICE = "run the endpoint that has this store, and look at its log"


def diagnose_store(subject: str, state: DelayedState) -> Finding:
    """Judge whether the due messages of a table are forwarded; counts may have stopped at a limit."""
    if state.next_due is None or state.at - state.next_due < OVERDUE_WARNING:
        messages = "message" if state.waiting == 1 else "messages"
        return Finding(Level.OK, subject, f"{state.waiting:,} delayed {messages} in a store")
    overdue = duration(state.at - state.next_due)
    text = f"{state.overdue:,} of {state.waiting:,} messages of a store are overdue, the first for {overdue}"
    return Finding(Level.WARN, subject, text, ADVICE)


def diagnose_answer(subject: str, next_due: datetime | None, at: datetime) -> Finding:
    """Judge a store of which only its next due time is known."""
    if next_due is None or at - next_due < OVERDUE_WARNING:
        waiting = "holds no message" if next_due is None else "answers"
        return Finding(Level.OK, subject, f"the store {waiting}")
    text = f"the store's first message is overdue for {duration(at - next_due)}"
    return Finding(Level.WARN, subject, text, ADVICE)


def diagnose_silence(subject: str, error: BaseException) -> Finding:
    """Judge a store that could not be asked."""
    advice = (
        "make the store reachable from here; until then its endpoint delays nothing and retries nothing late"
    )
    return Finding(Level.FAIL, subject, f"the store cannot be reached: {text_of(error)}", advice)
