"""Recurring messages as an endpoint declares them: `@endpoint.every(…)` above what makes the message of a tick.

Invariant: what makes a message is called at a tick only, and what is wrong with it is said when it is registered.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, NamedTuple, Union, get_args, get_origin, get_type_hints

from rowbus.errors import ConfigurationError, HandlerError
from rowbus.messages.message_types import require_sendable
from rowbus.messages.outgoing import Options
from rowbus.running.functions import can_be_called, described, is_unawaited, runs_nothing
from rowbus.running.scope import contained
from rowbus.running.setting_types import require_type
from rowbus.transport.recurring.schedule import CatchUp, Schedule, schedule_of
from rowbus.transport.recurring.service import Recurring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement
    from rowbus.endpoint.sender import Sender
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.receiving.dispatcher import Dispatcher

LONGEST_NAME = 200  # characters


class RecurringMessage(NamedTuple):
    """The message that is sent at each tick of a schedule, and where to (None: to the endpoint's own queue)."""

    name: str
    schedule: Schedule
    make: Callable[[datetime], object]
    to: str | QueueAddress | None
    type: str | None
    catch_up: CatchUp

    def bound(self, sender: Sender, dispatcher: Dispatcher) -> Recurring:
        """Return it as a started endpoint sends it."""

        def compose(tick: datetime) -> Sequence[Statement[object]]:
            message = contained(partial(self.make, tick))
            if is_unawaited(message):
                raise HandlerError(f"{self.name} returned what has to be awaited, and nothing awaits it.")
            if message is None:
                return []
            send = sender.compose(self.to or sender.local, message, Options(type=self.type))
            return dispatcher.statements([send])

        return Recurring(self.name, self.schedule, self.catch_up, compose)


def recurring_message(
    make: Callable[..., object],
    when: str | timedelta,
    *,
    tz: str | None,
    name: str,
    to: str | QueueAddress | None,
    type: str | None,
    catch_up: CatchUp,
) -> RecurringMessage:
    """Return a recurring message; raises ConfigurationError for what cannot be one."""
    require_type("name", name, str, "text")
    require_type("type", type, str | None, "a wire name, or None")
    require_type("tz", tz, str | None, "a time zone as in 'Europe/Berlin', or None")
    name = name or str(getattr(make, "__name__", ""))
    if not name or len(name) > LONGEST_NAME or "\0" in name:
        raise ConfigurationError(f"A recurring message needs a name of 1 to {LONGEST_NAME} characters.")
    if catch_up not in get_args(CatchUp):
        raise ConfigurationError(
            f"catch_up is {catch_up!r}; it must be one of {', '.join(get_args(CatchUp))}."
        )
    message = RecurringMessage(name, schedule_of(when, tz), _taking_tick(make, name), to, type, catch_up)
    for kind in _kinds_of(make):
        require_sendable(kind, is_named=type is not None)
    return message


def _kinds_of(make: Callable[..., object]) -> list[type]:
    """Return the classes of what a tick makes, as far as that is said: a class itself, or what a function returns."""
    if isinstance(make, type):
        return [make]
    try:
        said = get_type_hints(make).get("return", object)
    except (NameError, TypeError):  # a class that is imported for types only, or no plain function
        return []
    kinds = get_args(said) if isinstance(said, UnionType) or get_origin(said) is Union else (said,)
    found = [get_origin(kind) or kind for kind in kinds]
    return [kind for kind in found if isinstance(kind, type) and kind is not NoneType]


def _taking_tick(make: Callable[..., object], name: str) -> Callable[[datetime], object]:
    """Return what takes the tick, which not everything needs; refuse what takes more, or has to be awaited."""
    if runs_nothing(make):
        raise ConfigurationError(
            f"{name} must be a `def` to make a recurring message: it makes the message, and a handler does the work."
        )
    if can_be_called(make, "tick"):
        return make
    if can_be_called(make):
        return lambda _tick: make()
    raise ConfigurationError(
        f"{described(make)} must take (tick), by position, or nothing to make a recurring message."
    )
