"""Decides which files of a lake's table are merged.

Invariant: no I/O and no clock. What is merged at a time is bounded, and what was merged is not small any more.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SMALL: Final = 32 * 2**20
"""Bytes below which a file is small: half of what files are merged to."""

MANY: Final = 8
"""So many small files are merged; fewer are left alone."""

TOGETHER: Final = MANY * SMALL
"""Bytes of small files that are merged at a time."""


def to_merge(sizes: Sequence[int]) -> list[int]:
    """Return the places of the files to merge now, the smallest first; none where few are small."""
    small = sorted((size, place) for place, size in enumerate(sizes) if size < SMALL)
    totals = accumulate(size for size, _ in small)
    chosen = [place for (_, place), total in zip(small, totals, strict=True) if total <= TOGETHER]
    return chosen if len(chosen) >= MANY else []
