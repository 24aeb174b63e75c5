"""Checkpoints of Spark's, as files: which batch is committed, and where each batch ends in its sources.

Spark writes `offsets/N` before it runs batch N, and `commits/N` when batch N is done. So the end of the newest batch
that has both files is durable.

Invariants: nothing is written; an offset of a batch without a commit is never taken for durable.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from rowbus.errors import ConfigurationError
from rowbus.spark.log_source.offset import VERSION, offsets_from_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.spark.log_source.offset import Offsets

_NUMBER = re.compile(r"\d+")
_NOTHING = "-"  # of a source that had no offset yet


def refuse_older(place: str, number: int, newest: int | None) -> None:
    """Raise ConfigurationError for a batch if there is a later one: Spark repeats none but the newest by itself.

    What an older checkpoint reads as that batch may be more than what was written then: skipped, it would be lost.
    """
    if newest is not None and newest > number:
        raise ConfigurationError(
            f"{place} has batch {newest} already, and this is batch {number}: the checkpoint is older than what was "
            "written, or a txnVersion is too low. Nothing was written. Restore the newest checkpoint, or both as they "
            "were at one moment; or begin with a new checkpoint (and another txnAppId, if there is one).",
            option="checkpointLocation",
        )


class BatchEnd(NamedTuple):
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


def newest_batch(names: Iterable[str]) -> int | None:
    """Return the newest batch of a folder of Spark's, by the names of its files, `9.compact` too; None for none."""
    return max(_numbers(name.removesuffix(".compact") for name in names), default=None)


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


def read_committed(checkpoint: str | Path) -> BatchEnd | None:
    """Read the end of the newest committed batch of a checkpoint on this machine; None when no batch is committed.

    Raises ConfigurationError for a folder without a checkpoint, or on another machine.
    """
    folder = local_folder(checkpoint)
    if not (folder / "offsets").is_dir():
        raise ConfigurationError(f"{folder} is no checkpoint of Spark's: it has no folder offsets.")
    return find_committed(folder)


def find_committed(checkpoint: Path) -> BatchEnd | None:
    """Read the end of the newest committed batch; None when no batch is, nor where there is no checkpoint."""
    batch = newest_committed(names_in(checkpoint / "offsets"), names_in(checkpoint / "commits"))
    return None if batch is None else find_end(checkpoint, batch)


def find_end(checkpoint: Path, batch: int) -> BatchEnd | None:
    """Read where a batch ends, committed or not; None for one that was not begun."""
    try:
        text = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return BatchEnd(batch, parse_offsets(text))


def positions(end: BatchEnd) -> Offsets:
    """Return where a batch ends in logs; other sources are left out."""
    found: Offsets = {}
    for offset in end.offsets:
        if offset.get("v") == VERSION:
            found |= offsets_from_json(offset)
    return found


def local_folder(place: str | Path) -> Path:
    """Return a folder of this machine by its path or `file:` address; raises ConfigurationError for others."""
    address = urlsplit(str(place))
    if address.scheme == "file":
        return Path(unquote(address.path))
    if is_elsewhere(place):
        raise ConfigurationError(
            f"{place} is not on this machine's file systems; give a path. (Elsewhere, a ReleaseListener in the query's "
            "own program releases committed events.)"
        )
    return Path(place)


def is_elsewhere(place: str | Path) -> bool:
    """Return whether only Spark can reach a place's file system."""
    return "://" in str(place) and urlsplit(str(place)).scheme != "file"


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder; none where it is not there."""
    return [file.name for file in folder.iterdir()] if folder.is_dir() else []
