"""Decisions of the ticker: which logs to tick now, when to look again, and which failures are news.

A look is one query that returns the logs that want a tick. A busy log is looked at once in a tick period, a quiet log
less often the longer it is quiet: an event is found after a twentieth of the silence before it at the latest, and an
idle ticker costs next to nothing.

Invariant: pure; the clock is injected and the caller waits. A log that fails or declines a tick holds up no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rowbus.running.backoff import doubling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SHARE_OF_SILENCE = 1 / 20  # how late an event may be found, of the silence before it
SLACK = 0.001  # seconds to wait beyond a tick's due time: the database's clock says whether it has come
FIRST_DELAY = 0.1  # seconds a log that failed is left alone; doubled for each failure in a row
LONGEST_DELAY = 5.0
LOCKED_IN_A_ROW = 3
"""Times in a row that a lock is not to be had until that is news: a tick's COMMIT notifies, at which the commits of a
busy server take turns, and the next try, a tenth of a second later, mostly works."""


class Wish(NamedTuple):
    """A log that wants a tick: `wait` seconds from now (0 or less: at once), its `period` in seconds.

    `moved` says whether something came; without it an old transaction has ended, or it is time for the tick that PgQ
    makes now and then in quiet times.
    """

    queue: int
    log: str
    period: float
    moved: bool
    wait: float


@dataclass(slots=True)
class _Trouble:
    times: int
    until: float
    told: bool = False


class TickSchedule:
    """Choose the logs to tick now and when to look again. `longest` is the longest pause between looks, in seconds."""

    def __init__(self, longest: float, clock: Callable[[], float]) -> None:
        """Begin without knowing any log."""
        self._longest = longest
        self._clock = clock
        self._moved: dict[int, tuple[float, float]] = {}  # queue: its period, and when it last moved
        self._trouble: dict[int, _Trouble] = {}  # what failed
        self._needless: dict[int, _Trouble] = {}  # what the database saw no need for, though nothing moved
        self._soonest = 0.0

    def due(self, wishes: Iterable[Wish]) -> list[Wish]:
        """Note what a look found, and return the logs to tick now."""
        now = self._clock()
        wishes = [wish for wish in wishes if not self._is_idle_talk(wish, now)]
        self._moved.update({wish.queue: (wish.period, now) for wish in wishes if wish.moved})
        waits = [wish.wait for wish in wishes if wish.wait > 0]
        self._soonest = now + min(waits) + SLACK if waits else float("inf")
        return [wish for wish in wishes if wish.wait <= 0]

    def ticked(self, queue: int) -> bool:
        """Note that a log got its tick; say whether that is news: it had failed before, and that was."""
        self._needless.pop(queue, None)
        trouble = self._trouble.pop(queue, None)
        return trouble is not None and trouble.told

    def declined(self, wish: Wish) -> None:
        """Note that the database saw no need for a tick; unless something moves, ask ever less often."""
        self._trouble.pop(wish.queue, None)
        self._put_off(self._needless, wish.queue)

    def failed(self, queue: int, *, locked: bool = False) -> bool:
        """Note that a log could not be ticked or looked at: leave it alone for a while. Say whether that is news.

        An outage is news once; `locked`, one of a lock that a session holds, when it lasts.
        """
        trouble = self._put_off(self._trouble, queue)
        if trouble.told or (locked and trouble.times < LOCKED_IN_A_ROW):
            return False
        trouble.told = True
        return True

    def aside(self) -> list[int]:
        """Return the logs that are left alone for now."""
        now = self._clock()
        return [queue for queue, trouble in self._trouble.items() if trouble.until > now]

    def pause(self) -> float:
        """Return how many seconds to wait before the next look."""
        now = self._clock()
        self._forget_quiet(now)
        pauses = [self._interval(period, now - moved) for period, moved in self._moved.values()]
        returns = [trouble.until - now for trouble in self._trouble.values() if trouble.until > now]
        return max(0.0, min([self._longest, self._soonest - now, *pauses, *returns]))

    def _interval(self, period: float, silence: float) -> float:
        return min(self._longest, max(period + SLACK, silence * SHARE_OF_SILENCE))

    def _forget_quiet(self, now: float) -> None:
        """Forget the logs that are looked at no more often than all are."""
        horizon = now - self._longest / SHARE_OF_SILENCE
        self._moved = {queue: known for queue, known in self._moved.items() if known[1] > horizon}

    def _put_off(self, troubles: dict[int, _Trouble], queue: int) -> _Trouble:
        trouble = troubles.setdefault(queue, _Trouble(0, 0.0))
        trouble.times += 1
        trouble.until = self._clock() + doubling(trouble.times, first=FIRST_DELAY, most=LONGEST_DELAY)
        return trouble

    def _is_idle_talk(self, wish: Wish, now: float) -> bool:
        needless = self._needless.get(wish.queue)
        return not wish.moved and needless is not None and needless.until > now


class Recurring:
    """Something to be done every so often: at once at first, then `period` seconds after it was last done."""

    def __init__(self, period: float, clock: Callable[[], float]) -> None:
        """Begin with it due."""
        self._period = period
        self._clock = clock
        self._next = clock()

    def take(self) -> bool:
        """Say whether it is due; if so, it next is a period from now."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + self._period
        return True

    def wait(self) -> float:
        """Return how many seconds are left until it is due."""
        return max(0.0, self._next - self._clock())

    def hasten(self) -> None:
        """Make it due."""
        self._next = self._clock()


class News(NamedTuple):
    """Changes: troubles that are new or have another reason, and the names of those that are over."""

    arisen: list[tuple[str, str]]
    over: list[str]


class Troubles:
    """Troubles by name, such as why a log's rotation is blocked; each is news once."""

    def __init__(self) -> None:
        """Begin with nothing wrong."""
        self._known: dict[str, str] = {}

    def update(self, current: Mapping[str, str]) -> News:
        """Note all that is wrong now, by name and reason, and return what is news."""
        arisen = [(name, reason) for name, reason in current.items() if self._known.get(name) != reason]
        over = [name for name in self._known if name not in current]
        self._known = dict(current)
        return News(arisen, over)
