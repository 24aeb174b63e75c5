"""The judgement on a history: what of the promises does not hold, each wrong named by the promise it breaks.

Invariant: a pure function of the history; docs/reliability.md has the promises in the same words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from tests.chaos.history import (
    KEYED,
    KEYS,
    ORDERED,
    POISONS,
    STAGES,
    TIMED,
    Effect,
    History,
    Outage,
    Outcome,
    Send,
    key_of,
)

TAKE_OVER = "that of a lost process"
Place = tuple[str, int]
"""An effect that was or should have been: its stage and its number."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings in a history; it is good when nothing is wrong."""

    sent: int
    unknown: int
    lost: tuple[Place, ...]
    failed: tuple[int, ...]
    """Healthy messages in the error queue, or among the dead letters."""
    doubled: tuple[Place, ...]
    invented: tuple[Place, ...]
    early: tuple[Place, ...]
    disordered: tuple[Place, ...]
    back: tuple[int, ...]
    """Ticks that go back behind the one before."""
    loose: tuple[int, ...]
    """Poisons that are not in the error queue, or that took effect."""
    gap: float
    lateness: float
    limit: float
    strikes: int
    slowest: str = ""
    """The kind of work that stood still the longest."""
    is_strict: bool = False
    """Whether `gap` is the longest time that any healthy message waited."""
    strange: tuple[Place, ...] = ()
    """Effects whose handlers found what another had left."""
    ended: tuple[str, ...] = ()
    """Programs that ended though nothing ended them."""
    unconfirmed: tuple[Place, ...] = ()
    """Effects that were there before the standby had confirmed them."""

    @property
    def wrong(self) -> list[str]:
        """The promises that are broken, in a sentence each."""
        return [sentence for count, sentence in self._findings() if count]

    @property
    def good(self) -> bool:
        return not self.wrong

    @property
    def is_only_slow(self) -> bool:
        """Whether the only promise that is broken is how long work may stand still."""
        return self.gap > self.limit and len(self.wrong) == 1

    def _findings(self) -> Iterator[tuple[int, str]]:
        for name in ("lost", "doubled", "invented", "early", "disordered", "unconfirmed"):
            found: tuple[Place, ...] = getattr(self, name)
            yield len(found), f"{name}: {_places(found)}"
        yield len(self.failed), f"healthy messages in the error queue: {self.failed[:5]}"
        yield len(self.back), f"ticks go back: {self.back[:5]}"
        yield len(self.loose), f"poisons that are not in the error queue: {self.loose[:5]}"
        yield len(self.strange), f"handlers found what another had left: {_places(self.strange)}"
        yield len(self.ended), f"programs ended by themselves: {', '.join(self.ended)}"
        waited = "a healthy message ({}) waited" if self.is_strict else "healthy work ({}) stood still"
        yield (
            self.gap > self.limit,
            f"{waited.format(self.slowest)} for {self.gap:.1f} s, at most {self.limit:.0f} s allowed",
        )
        yield not self.sent, "nothing was sent"


def check(history: History) -> Verdict:
    """Judge a history that has come to rest."""
    expected, poisons = _expected(history.sends), _poisons(history)
    counts = Counter((effect.stage, effect.number) for effect in history.effects)
    stages = {stage for stage, _ in counts} & TIMED
    measure = _wait if history.is_strict else _gap
    gaps = [(measure(part, stage), stage) for stage in stages for part in _parts(history, stage)] + [
        (wait, TAKE_OVER) for wait in history.waits
    ]
    gap, slowest = max(gaps, default=(0.0, ""))
    positions = set(history.unconfirmed)
    return Verdict(
        sent=sum(send.outcome is Outcome.COMMITTED for send in history.sends),
        unknown=sum(send.outcome is Outcome.UNKNOWN for send in history.sends),
        lost=tuple(_lost(history, counts)),
        failed=tuple(sorted(history.failed - poisons)),
        doubled=tuple(place for place, count in counts.items() if count > 1),
        invented=tuple(
            place for place in counts if place not in expected and place[1] not in _poisons(history)
        ),
        early=tuple((e.stage, e.number) for e in history.effects if e.due is not None and e.at < e.due),
        disordered=(*_disordered(history), *_overtaken(history)),
        back=tuple(_back(history)),
        loose=tuple(_loose(history, counts)),
        gap=gap,
        lateness=max((e.at - e.due for e in history.effects if e.due is not None), default=0.0),
        limit=history.limit,
        strikes=history.strikes,
        slowest=slowest,
        is_strict=history.is_strict,
        strange=tuple((e.stage, e.number) for e in history.effects if e.found),
        ended=history.ended,
        unconfirmed=tuple((e.stage, e.number) for e in history.effects if e.position in positions),
    )


def _places(places: tuple[Place, ...]) -> str:
    shown = ", ".join(f"{stage} of {number}" for stage, number in places[:5])
    return shown if len(places) <= 5 else f"{shown} and {len(places) - 5} more"


def _expected(sends: Iterable[Send]) -> set[Place]:
    return {(stage, s.number) for s in sends if s.outcome is not Outcome.FAILED for stage in STAGES[s.kind]}


def _lost(history: History, counts: Counter[Place]) -> Iterator[Place]:
    """Name what a committed send lacks; one whose commit is unknown has all of its effects or none."""
    for send in history.sends:
        places = [(stage, send.number) for stage in STAGES[send.kind]]
        happened = send.outcome is Outcome.COMMITTED or any(place in counts for place in places)
        if happened and send.outcome is not Outcome.FAILED and send.number not in history.failed:
            yield from (place for place in places if place not in counts)


def _poisons(history: History) -> set[int]:
    return {send.number for send in history.sends if send.kind in POISONS}


def _loose(history: History, counts: Counter[Place]) -> Iterator[int]:
    effective = {number for _, number in counts}
    for send in history.sends:
        is_away = send.number in history.failed and send.number not in effective
        if send.kind in POISONS and send.outcome is Outcome.COMMITTED and not is_away:
            yield send.number


def _disordered(history: History) -> Iterator[Place]:
    producers = {send.number: send.producer for send in history.sends}
    latest: dict[int, int] = defaultdict(lambda: -1)
    for effect in sorted(history.effects, key=lambda each: each.position):
        if effect.stage != ORDERED or effect.again or effect.number not in producers:
            continue
        producer = producers[effect.number]
        if effect.number < latest[producer]:
            yield effect.stage, effect.number
        latest[producer] = max(latest[producer], effect.number)


def _overtaken(history: History) -> Iterator[Place]:
    """Name what took effect after one of its key that was committed later."""
    ranks = {
        send.number: (send.producer, send.number) if send.kind == "keyed-event" else (-1, send.place)
        for send in history.sends
        if send.kind == "keyed-event" or send.place
    }
    latest: dict[tuple[int, int], int] = defaultdict(int)
    for effect in sorted(history.effects, key=lambda each: each.position):
        if effect.stage in KEYED and effect.number in ranks:
            sender, rank = ranks[effect.number]
            line = sender, key_of(effect.number)
            if rank < latest[line]:
                yield effect.stage, effect.number
            latest[line] = max(latest[line], rank)


def _back(history: History) -> Iterator[int]:
    ticks = sorted(history.ticks, key=lambda tick: tick.number)
    for before, tick in pairwise(ticks):
        pairs = (tick.time, before.time), (tick.last_event, before.last_event), (tick.horizon, before.horizon)
        if any(after < earlier for after, earlier in pairs):
            yield tick.number


# ---------------------------------------------------------------------------------------------------------- liveness


def _parts(history: History, stage: str) -> Iterator[History]:
    """Give what is to go on by itself: a key's work does, whatever others do."""
    if stage not in KEYED:
        yield history
        return
    for key in range(KEYS):
        sends = tuple(send for send in history.sends if key_of(send.number) == key)
        yield replace(
            history, sends=sends, effects=tuple(e for e in history.effects if key_of(e.number) == key)
        )


def _gap(history: History, stage: str) -> float:
    """Give the longest time in which work of a stage waited, none of it was done, and the database could be reached."""
    ready = _ready(history, stage)
    effects = sorted((e for e in history.effects if e.stage == stage), key=lambda each: each.at)
    oldest = _oldest_after(effects, ready)
    longest, last = 0.0, float("-inf")
    for effect, waiting_since in zip(effects, oldest, strict=True):
        begin = max(last, waiting_since)
        longest = max(longest, effect.at - begin - _away(history.outages, begin, effect.at))
        last = effect.at
    return longest


def _wait(history: History, stage: str) -> float:
    """Give the longest time for which one piece of a stage's work waited while the database could be reached."""
    ready = _ready(history, stage)
    effects = [e for e in history.effects if e.stage == stage and e.number in ready]
    times = ((ready[e.number], e.at) for e in effects)
    return max((at - since - _away(history.outages, since, at) for since, at in times), default=0.0)


def _oldest_after(effects: list[Effect], ready: dict[int, float]) -> list[float]:
    """Give for each effect since when the oldest work has waited that is done by it or later."""
    oldest, found = float("inf"), list[float]()
    for effect in reversed(effects):
        oldest = min(oldest, ready.get(effect.number, effect.at))
        found.append(oldest)
    return found[::-1]


def _ready(history: History, stage: str) -> dict[int, float]:
    """Give when each number could take effect in a stage: when it was sent, was due, or its first effect was there."""
    ready = {send.number: send.ready for send in history.sends}
    if stage in {"follow-up", "reply"}:
        ready |= {e.number: e.at for e in history.effects if e.stage == "command"}
    ready |= {e.number: e.due for e in history.effects if e.stage == stage and e.due is not None}
    return ready


def _away(outages: Iterable[Outage], begin: float, end: float) -> float:
    return sum(max(0.0, min(end, outage.end) - max(begin, outage.begin)) for outage in outages)
