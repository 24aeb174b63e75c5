"""Caches keyed by what messages and calls name: queues, logs, types.

The sender of a message chooses the names, so their number has no limit. A cache over a finite set, such as our own
files, need not be bounded; a comment there says so.

Invariant: a `Bounded` holds `most` entries, and for a moment one more for each other thread that adds.
"""

from __future__ import annotations

from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST: Final = 500
"""Entries of one cache. The statements on one queue take about 9 kB, so those of a full cache about 5 MB."""

LONGEST_REMEMBERED: Final = 1_000
"""Characters of a key from a message's headers; what is longer is not remembered."""


class Bounded(dict[K, V]):
    """A dict that drops its oldest entry when it is full; a lookup costs as much as in a dict."""

    def __init__(self, most: int = MOST) -> None:
        """Begin empty."""
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        """Add or replace an entry; drop the oldest when the dict is full."""
        if len(self) >= self._most and key not in self:
            for oldest in list(self)[:1]:  # a list is made in one step, which no other thread comes between
                self.pop(oldest, None)
        super().__setitem__(key, value)
