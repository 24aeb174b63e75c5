"""Fates of messages: scenarios, and a model that says which fates the documentation promises.

The rules are those of docs/architecture/receiving.md, of the policy, and of the how-tos about transaction modes and
batches. The model knows nothing of slots, savepoints or SQL: it goes through a message's attempts, one after the other,
and says after each what may have become of it. Two things may: the attempt counts, or its batch was undone as a whole,
and then it counts for nobody and is made again.

Invariant: pure, values in and values out; a scenario's `repr` is what makes it again, so that it can be pasted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hypothesis import strategies as st

from tests.conformance.transport import (
    NONE,
    RECEIVE_ONLY,
    RECEIVE_ONLY_ROLLBACK,
    SENDS_ATOMIC,
    SENDS_ATOMIC_ROLLBACK,
)

CASES = {
    "NONE": NONE,
    "RECEIVE_ONLY": RECEIVE_ONLY,
    "RECEIVE_ONLY_ROLLBACK": RECEIVE_ONLY_ROLLBACK,
    "SENDS_ATOMIC": SENDS_ATOMIC,
    "SENDS_ATOMIC_ROLLBACK": SENDS_ATOMIC_ROLLBACK,
}

Deed = Literal["works", "raises", "hopeless", "missing", "commit"]
"""Deeds of an attempt that has written a row and sent a message: nothing more; raise ValueError; raise
Unrecoverable; send to a queue that does not exist; write what cannot be committed."""

Message = tuple[Deed, ...] | Literal["expired", "unreadable"]
"""The deeds of its attempts, the last one again and again; or the reason why there are none."""

RAISES: tuple[Deed, ...] = ("raises", "hopeless")
FAILS: tuple[Deed, ...] = ("raises", "hopeless", "missing", "commit")


@dataclass(frozen=True)
class Scenario:
    """Messages that wait in a queue when an endpoint starts, and how that is set up."""

    case: str
    immediate: int
    delayed: int
    batch_size: int
    concurrency: int
    handler: Literal["async def", "def"]
    messages: tuple[Message, ...]

    @property
    def sends_first(self) -> bool:
        return self.case.startswith("RECEIVE_ONLY")

    def has(self, *deeds: Deed) -> bool:
        """Say whether some attempt of some message may do one of these."""
        return any(deed in message for message in self.messages for deed in deeds)

    @property
    def most_undone(self) -> int:
        """Return how often an attempt that did not raise may be undone with its batch before its message has failed.

        After a batch that was undone as a whole a slot receives as many messages one by one. So one slot does it once
        to a message, and of two each once for every two other messages that it completed meanwhile, and once more.
        """
        undoing = FAILS if self.case.endswith("ROLLBACK") else ("missing", "commit")
        others = len(self.messages) - 1
        if self.batch_size == 1 or not others or not self.has(*undoing):
            return 0
        return 1 if self.concurrency == 1 else others * (1 + self.delayed) // 2 + 2


class Fate(NamedTuple):
    """Fate of a message after so many calls of its handler.

    `rows` of what they wrote are left, and of what they sent `least` to `most`. `failures` are those since it came into
    the queue, and `undone` the calls since then that counted for nobody.
    """

    place: Literal["queue", "done", "error"] = "queue"
    calls: int = 0
    rows: int = 0
    least: int = 0
    most: int = 0
    failures: int = 0
    delays: int = 0
    undone: int = 0


def fates(scenario: Scenario, message: Message) -> set[Fate]:
    """Return what may become of a message in the end."""
    if isinstance(message, str):
        return {Fate("done" if message == "expired" else "error")}
    if scenario.case == "NONE":  # one attempt, whose rows stay; its sends leave if all is well
        works = message[0] == "works"
        return {Fate("done" if works else "error", 1, 1, int(works), int(works))}
    ended, going_on = set[Fate](), {Fate()}
    while going_on:
        after = {after for fate in going_on for after in _attempt(scenario, message, fate)}
        going_on = {fate for fate in after if fate.place == "queue"}
        ended |= after - going_on
    return ended


def _attempt(scenario: Scenario, message: tuple[Deed, ...], before: Fate) -> Iterator[Fate]:
    """Give what may have become of a message after its next attempt in a transaction."""
    deed = message[min(before.calls, len(message) - 1)]
    fate = before._replace(calls=before.calls + 1)
    if deed not in RAISES and fate.undone < scenario.most_undone:  # sent, if what failed was the commit
        sent = scenario.sends_first and scenario.has("commit")
        yield fate._replace(undone=fate.undone + 1, most=fate.most + sent)
    sent = deed == "works" or (deed == "commit" and scenario.sends_first)
    fate = fate._replace(least=fate.least + sent, most=fate.most + sent, failures=fate.failures + 1)
    if deed == "works":
        yield fate._replace(place="done", rows=1)
    elif deed != "hopeless" and fate.failures <= scenario.immediate:
        yield fate
    elif deed != "hopeless" and fate.delays < scenario.delayed:
        yield fate._replace(delays=fate.delays + 1, failures=0, undone=0)
    else:
        yield fate._replace(place="error")


# ---------------------------------------------------------------------------------------------------------- scenarios

_deeds: st.SearchStrategy[Deed] = st.sampled_from(["works", *FAILS])
_good: st.SearchStrategy[Message] = st.just(("works",))
_in_the_end_good: st.SearchStrategy[Message] = st.builds(
    lambda deed, times: (*[deed] * times, "works"), st.sampled_from(FAILS), st.integers(1, 7)
)
_mixed: st.SearchStrategy[Message] = st.lists(_deeds, min_size=1, max_size=4).map(tuple)
_unhandled: st.SearchStrategy[Message] = st.sampled_from(["expired", "unreadable"])


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw any scenario."""
    case = draw(st.sampled_from(list(CASES)))
    retries = case != "NONE"  # which refuses them
    return Scenario(
        case=case,
        immediate=draw(st.integers(0, 2 if retries else 0)),
        delayed=draw(st.integers(0, 1 if retries else 0)),
        batch_size=draw(st.sampled_from([1, 3, 10])),
        concurrency=draw(st.integers(1, 2)),
        handler=draw(st.sampled_from(["async def", "def"])),
        messages=draw(
            st.lists(_good | _in_the_end_good | _mixed | _unhandled, min_size=1, max_size=8).map(tuple)
        ),
    )
