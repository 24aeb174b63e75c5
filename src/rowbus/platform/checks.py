"""Custom checks: functions of the user's that look whether something is well, and what ServicePulse is told of them.

Invariant: a check that raises has failed, and ends nothing.
"""

from __future__ import annotations

import inspect
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.errors.strangers import text_of, writable
from rowbus.platform.reports import CheckResult
from rowbus.running.backoff import doubling, jittered
from rowbus.running.functions import can_be_called, described, is_async
from rowbus.running.scope import Scope
from rowbus.running.service import Service
from rowbus.running.setting_types import require_type
from rowbus.running.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.platform.reports import Reporter
    from rowbus.platform.servicecontrol import Outbox

LIFETIMES: Final = 4  # periods that a result is worth receiving, as in .NET
LONGEST_WAIT: Final = 60.0  # seconds between two tries to report
SHORTEST: Final = timedelta(milliseconds=100)


class Check(NamedTuple):
    """A function, its name and category in ServicePulse, and how often it is called; None: once, at the start."""

    function: Callable[[], Any]
    name: str
    category: str
    every: timedelta | None

    async def result(self, is_cut_off: Callable[[], bool] = lambda: False) -> CheckResult:
        """Call the function, a `def` in a thread: None is well, a text says what is not, and so does an error.

        CancelledError passes where `is_cut_off` says that it is the caller's.
        """
        answers: list[object] = []

        async def look() -> None:
            answers.append(await self._call())

        error = await Scope().call(look(), is_cut_off)
        if error is not None:
            return CheckResult(self.name, self.category, f"{type(error).__name__}: {text_of(error)}")
        (found,) = answers
        if found is not None and not isinstance(found, str):
            found = f"The check returned {found!r}; it must return None, or a text that says what is wrong."
        return CheckResult(self.name, self.category, None if found is None else writable(found))

    async def _call(self) -> object:
        found = self.function() if is_async(self.function) else await run_in_thread(self.function)
        return await found if inspect.isawaitable(found) else found

    @property
    def time_to_live(self) -> timedelta | None:
        """The time for which a result is worth receiving; for ever when there is no next one."""
        return None if self.every is None else LIFETIMES * self.every


def made_check(function: Callable[[], Any], name: str, category: str, every: timedelta | None) -> Check:
    """Return a check; raises ConfigurationError for what cannot be one."""
    require_type("name", name, str, "text")
    require_type("category", category, str, "text")
    require_type("every", every, timedelta | None, "a datetime.timedelta, or None")
    name = name or getattr(function, "__name__", type(function).__name__).replace("_", " ")
    if every is not None and every < SHORTEST:
        raise ConfigurationError(f"The check {name!r} is to run every {every}; it must be at least 100 ms.")
    if can_be_called(function) is False:
        raise ConfigurationError(f"The check {name!r} must take no arguments; it is {described(function)}.")
    return Check(function, name, category, every)


class CheckService(Service):
    """Calls one check, and reports what it finds. For one event loop."""

    def __init__(self, outbox: Outbox, reporter: Reporter, check: Check) -> None:
        """Begin at the start. No I/O."""
        outages = outbox.outages(
            f"The check {check.name!r}", f"Could not report the check {check.name!r} to ServiceControl"
        )
        super().__init__(f"rowbus check {check.name}", outages)
        self._outbox = outbox
        self._reporter = reporter
        self._check = check
        self._found: tuple[CheckResult, datetime] | None = None
        self._unsent = 0

    async def work(self) -> None:
        """Call the check, report it, and wait for the next time; what could not be reported is not found out anew."""
        check = self._check
        if self._found is None:
            self._found = await check.result(self.is_cut_off), datetime.now(UTC)
        await self._outbox.send([self._reporter.check_result(*self._found, check.time_to_live)])
        self._found, self._unsent = None, 0
        self._outages.succeeded()
        if check.every is None:
            await self._stopping.wait()
        else:
            await self.pause(jittered(check.every.total_seconds(), random.random))

    async def _failed(self, error: Exception) -> None:
        self._unsent += 1
        await super()._failed(error)
        await self.pause(doubling(self._unsent, first=1.0, most=LONGEST_WAIT))
