"""The uniqueness of a message: its value, for how long no other message has that, and what becomes of another.

Invariant: pure.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, get_args

from rowbus.errors import ConfigurationError
from rowbus.messages.outgoing import OnConflict

if TYPE_CHECKING:
    from rowbus.messages.outgoing import Options

SendOutcome = Literal["sent", "kept", "replaced", "postponed"]
"""The outcome of a unique send: a new message, the earlier one, a new one in its place, or the earlier one later."""


class UniqueMessageId(str):
    """The id of the message that is there after a unique send: the earlier one's when that was kept or postponed."""

    __slots__ = ("outcome",)

    outcome: SendOutcome
    """The outcome of the send."""

    def __new__(cls, message_id: str, outcome: SendOutcome) -> Self:
        """Note the outcome of the send beside the id."""
        made = super().__new__(cls, message_id)
        made.outcome = outcome
        return made


class Uniqueness(NamedTuple):
    """The uniqueness of one message; `within` is None for as long as the message waits."""

    value: str
    within: timedelta | None
    on_conflict: OnConflict


class Claim(NamedTuple):
    """The claim of an earlier message on a value.

    `is_timed` says whether it lasts for a time, `is_open` whether that is not over; `is_delayed` whether the message
    was sent with a delay.
    """

    row_id: str
    message_id: str
    is_delayed: bool
    is_timed: bool
    is_open: bool


def uniqueness_of(options: Options) -> Uniqueness | None:
    """Return what the options of a send say, None if nothing. Raises ConfigurationError for what does not fit."""
    value, within, on_conflict = options.unique, options.within, options.on_conflict
    if value is None:
        for name in ("while_waiting", "within", "on_conflict"):
            if getattr(options, name):
                raise ConfigurationError(f"{name} is for unique messages: give unique='…', too.")
        return None
    if type(value) is not str or not value:
        raise ConfigurationError(f"unique is {value!r}; give text, such as f'reminder-{{order_id}}'.")
    if bool(options.while_waiting) == (within is not None):
        raise ConfigurationError(
            f"For how long is {value!r} unique? Give while_waiting=True, or within=timedelta(…), one of them."
        )
    if within is not None and not _is_span(within):
        raise ConfigurationError(f"within is {within!r}; give a timedelta that is longer than nothing.")
    if on_conflict is not None and on_conflict not in get_args(OnConflict):
        raise ConfigurationError(f"on_conflict is {on_conflict!r}; give 'keep', 'replace' or 'postpone'.")
    if on_conflict == "postpone" and options.due is None:
        raise ConfigurationError("on_conflict='postpone' needs the new time: give delay or deliver_at.")
    return Uniqueness(value, within, on_conflict or "keep")


def decide(claim: Claim, on_conflict: OnConflict, *, waits: bool, is_due: bool) -> SendOutcome:
    """Return what a send comes to, the value of which an earlier message has claimed.

    `waits` says whether that is still to be received, `is_due` whether it has left the table of delayed messages.
    """
    if not (claim.is_open if claim.is_timed else waits):
        return "sent"
    if not waits or on_conflict == "keep":
        return "kept"
    if on_conflict == "replace":
        return "replaced"
    return "kept" if is_due else "postponed"


def _is_span(given: object) -> bool:
    return isinstance(given, timedelta) and given > timedelta()
