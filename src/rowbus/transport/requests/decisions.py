"""Decisions about requests: the name of a queue for answers, and which of them have been left behind.

Invariant: pure; a queue whose name was not made here is never one that is to be removed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS: Final = 12
_NAME: Final = re.compile(rf"\.answers-[0-9a-f]{{{_DIGITS}}}\Z")
MOST_OF_THE_NAME: Final = 34  # bytes of the asker's name: with what follows a queue's name has 55 at most

MOST_LOOKED_AT: Final = 20  # queues at one look
# On SQL Server: Babelfish ends, for all its sessions, when one of them is refused a lock the fifth time.
MOST_ON_SQL_SERVER: Final = 4


def discriminator(digits: str) -> str:
    """Return what is added to an asker's name, from at least 12 random hex digits."""
    return f"answers-{digits[:_DIGITS]}"


def is_for_answers(table: str) -> bool:
    """Say whether a table's name is one that askers give the queues of their answers."""
    return _NAME.search(table) is not None


def shortened(name: str) -> str:
    """Return as much of an asker's name as a queue's name has room for."""
    return name.encode()[:MOST_OF_THE_NAME].decode(errors="ignore")


class LeftBehind:
    """Queues that have been without an owner at two looks in a row.

    At one look the owner may be about to come back: its connection broke, and it makes another.
    """

    def __init__(self, most: int = MOST_LOOKED_AT) -> None:
        """Begin without a look, each of which is at so many queues at most."""
        self._most = most
        self._unowned: frozenset[str] = frozenset()
        self._last = ""  # of the queues looked at

    def next(self, names: Iterable[str]) -> list[str]:
        """Choose the queues to look at: those without an owner at the last look, then in turn."""
        there = sorted(names)
        after = [name for name in there if name > self._last] + [name for name in there if name <= self._last]
        again = [name for name in there if name in self._unowned]
        chosen = list(dict.fromkeys([*again, *after]))[: self._most]
        self._last = chosen[-1] if chosen else ""
        return chosen

    def looked(self, unowned: Iterable[str]) -> frozenset[str]:
        """Note a look; return the queues that were without an owner at the look before, too."""
        before, self._unowned = self._unowned, frozenset(unowned)
        return before & self._unowned
