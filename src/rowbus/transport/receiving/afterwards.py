"""The calls that handlers want made once their transaction is committed.

Invariant: a call is made after a commit or never: an attempt that fails takes its calls with it. Nothing that a call
does keeps the next from being made.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError, HandlerError
from rowbus.running.functions import check_function, described, is_unawaited
from rowbus.running.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger("rowbus.receiving")


@dataclass(frozen=True, slots=True)
class CallAfterCommit:
    """A call, and the id of the message whose handler wants it made."""

    call: Callable[[], object]
    message_id: str

    def __call__(self) -> None:
        """Make the call; what it raises, or returns to be awaited, is logged."""
        try:
            if is_unawaited(self.call()):
                logger.error(
                    "A call after the commit of message '%s' returned what has to be awaited, and nothing awaits it: "
                    "%s; the message is handled",
                    self.message_id,
                    described(self.call),
                )
        except BaseException:  # in a thread of ours: also what would end a program, or a panic of Rust's
            logger.exception(
                "A call after the commit of message '%s' failed; the message is handled", self.message_id
            )


def check_call(call: object) -> None:
    """Raise HandlerError for what cannot be called after a commit, or would run nothing then."""
    if is_unawaited(call):
        raise HandlerError(
            "on_commit was given a coroutine, of which nothing ran: give it a function to call."
        )
    try:
        check_function(call, "What on_commit is to call")
    except ConfigurationError as error:
        raise HandlerError(
            f"{error} What has to be awaited belongs in the handler, before it returns, or in the handler of a message "
            "that it sends."
        ) from None


async def make_calls(calls: Sequence[Callable[[], object]]) -> None:
    """Make calls one after the other in a thread, and wait for their end."""
    if calls:
        await run_in_thread(_make, calls)


def _make(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()
