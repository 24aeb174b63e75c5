"""The options of sends, replies and publishes, and the value that they become.

A verb names its options once, as a dictionary's type: `**options: Unpack[SendOptions]`. Type checkers read that; Python
is told by `@options_of(SendOptions)`, so that `help()` shows each option, and by `asked`, which refuses any other.

Invariant: an option means the same for every sender; one that cannot do what it asks for refuses it, and says why.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Required, TypedDict, TypeVar, cast

from rowbus.messages.address import QueueAddress
from rowbus.messages.outgoing import NO_OPTIONS, OnConflict, Options

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULTS = NO_OPTIONS._asdict()
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


class MessageOptions(TypedDict, total=False):
    """The options of every message that goes to one queue."""

    type: str | None
    headers: Mapping[str, str] | None
    time_to_be_received: timedelta | None
    delay: timedelta | None
    deliver_at: datetime | None
    key: str | None
    priority: str | None


class SendOptions(MessageOptions, total=False):
    """The options of a send."""

    reply_to: str | QueueAddress | None
    reply_to_this_instance: bool
    immediate: bool
    new_conversation: bool | str | None


class UniqueOptions(SendOptions, total=False):
    """The options of a send, and those that a unique one has beside."""

    unique: Required[str]
    while_waiting: bool
    within: timedelta
    on_conflict: OnConflict


class ReplyOptions(MessageOptions, total=False):
    """The options of a reply."""

    correlation_id: str | None


class PublishOptions(TypedDict, total=False):
    """The options of a publish."""

    type: str | tuple[str, ...] | None
    headers: Mapping[str, str] | None
    time_to_be_received: timedelta | None
    immediate: bool
    new_conversation: bool | str | None
    key: str | None
    priority: str | None


def asked(kind: Any, options: Mapping[str, object]) -> Options:  # noqa: ANN401 - a class of options
    """Return the options of a call as a value; raises TypeError for one of another kind, as Python does."""
    if not options:
        return NO_OPTIONS
    if not options.keys() <= kind.__optional_keys__:
        other = min(options.keys() - kind.__optional_keys__)
        raise TypeError(
            f"got an unexpected keyword argument {other!r}; the options are {', '.join(_notes(kind))}"
        )
    return Options(**cast("dict[str, Any]", options))


def options_of(kind: Any) -> Callable[[F], F]:  # noqa: ANN401 - as above
    """Have the signature of a verb show each of its options in place of `**options`."""

    def shown(verb: F) -> F:
        signature = inspect.signature(verb)
        others = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        verb.__dict__["__signature__"] = signature.replace(parameters=[*others, *parameters_of(kind)])
        return verb

    return shown


def parameters_of(kind: Any) -> list[inspect.Parameter]:  # noqa: ANN401 - as above
    """Return options as parameters, with their defaults."""
    return [
        inspect.Parameter(name, _KEYWORD, default=_DEFAULTS[name], annotation=note)
        for name, note in _notes(kind).items()
    ]


def _notes(kind: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    notes = {name: note.__forward_arg__ for name, note in inspect.get_annotations(kind).items()}
    return {
        name: note.removeprefix("Required[").removesuffix("]") if "Required" in note else note
        for name, note in notes.items()
    }
