"""Checkpoints of Spark: the text of the files in `offsets/`, the newest committed batch, and the query's id.

Spark writes `offsets/N` before it runs batch N, and `commits/N` when batch N is done. So the end of the newest batch
that has both files is durable. Invariant: an offset of a batch without a commit is never taken for durable.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = re.compile(r"\d+")
_NOTHING = "-"  # of a source that had no offset yet


class Committed(NamedTuple):
    """The end of a committed batch."""

    batch: int
    offsets: tuple[dict[str, Any], ...]
    """The sources' offsets, in the order of the file; lines that are no JSON object are left out."""


def newest_committed(offsets: Iterable[str], commits: Iterable[str]) -> int | None:
    """Return the newest batch that is in both folders, by the names of their files; None when there is none."""
    return max(_numbers(offsets) & _numbers(commits), default=None)


def parse_offsets(text: str) -> tuple[dict[str, Any], ...]:
    """Read a file of `offsets/`: a version, Spark's own facts, and then a line for each source.

    Raises ConfigurationError for a file that Spark did not write.
    """
    version, *lines = text.splitlines() or [""]
    if not re.fullmatch(r"v\d+", version) or not lines:
        raise ConfigurationError(
            f"A file of offsets begins with a version such as v1, not with {version[:40]!r}."
        )
    return tuple(offset for line in lines[1:] for offset in _offsets_in(line))


def query_id(text: str) -> str:
    """Read the file `metadata`: the id that a query keeps as long as its checkpoint."""
    return str(json.loads(text)["id"])


def _numbers(names: Iterable[str]) -> set[int]:
    return {int(name) for name in names if _NUMBER.fullmatch(name)}


def _offsets_in(line: str) -> list[dict[str, Any]]:
    """Return the objects of a line: one, or one for each source of a file with named sources."""
    if line == _NOTHING:
        return []
    try:
        found = json.loads(line)
    except ValueError:
        return []
    if not isinstance(found, dict):
        return []
    found = cast("dict[str, Any]", found)
    named = [json.loads(text) for text in found.values() if isinstance(text, str) and text.startswith("{")]
    return named or [found]
