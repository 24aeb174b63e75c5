"""The log of Spark's streaming file sink, `_spark_metadata`: which files of a folder count.

Batch N adds the file `N` with a line for each file that it wrote. Every tenth (`…fileSink.log.compactInterval`) batch
writes `N.compact` instead, with the lines of all batches up to N. A reader takes the newest `.compact` file and those
after it; whatever these do not list, leftovers of failed batches for example, it does not see. Read in Spark 4.3
(`CompactibleFileStreamLog`, `FileStreamSinkLog`).

Invariant: a file of the log is replaced as a whole, and what it says about which batches it stands for never changes:
its name stays.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VERSION = "v1"
_BATCH = re.compile(r"(\d+)(\.compact)?")


class SinkFile(NamedTuple):
    """A line of the log: a file that was written."""

    path: str
    """Its address, as Spark wrote it: `file:///…`, with what is escaped escaped."""

    size: int
    modified: int
    """Milliseconds since 1970."""

    others: dict[str, Any]
    """Whatever else the line says; it is written again as it was."""

    @property
    def folder(self) -> str:
        """The address of its folder."""
        return self.path.rpartition("/")[0]


def live(names: Iterable[str]) -> list[str]:
    """Return the log's files that count, the oldest first."""
    found = [match for name in names if (match := _BATCH.fullmatch(name))]
    compacted = max((int(match[1]) for match in found if match[2]), default=-1)
    counting = [
        match for match in found if int(match[1]) > compacted or (match[2] and int(match[1]) == compacted)
    ]
    return [match[0] for match in sorted(counting, key=lambda match: int(match[1]))]


def parse(text: str) -> list[SinkFile]:
    """Read a file of the log; raises ConfigurationError for one of another version."""
    version, *lines = text.splitlines() or [""]
    if version != VERSION:
        raise ConfigurationError(
            f"A log of Spark's file sink begins with {VERSION}, not with {version[:40]!r}."
        )
    return [_parse_line(json.loads(line)) for line in lines if line]


def render(files: Sequence[SinkFile]) -> str:
    """Write a file of the log, as Spark does."""
    lines = [
        json.dumps(
            {"path": file.path, "size": file.size, **file.others, "modificationTime": file.modified},
            separators=(",", ":"),
            ensure_ascii=False,
        )
        for file in files
    ]
    return "\n".join([VERSION, *lines])


def bins(files: Sequence[SinkFile], *, before: int, target: int) -> list[list[SinkFile]]:
    """Divide files into those to be put together, by folder: last modified before a time, and small.

    Each bin is of one folder, has two files at least, and about `target` bytes at most.
    """
    small = [
        file
        for file in files
        if file.modified < before and file.size < target and not file.others.get("isDir")
    ]
    found: list[list[SinkFile]] = []
    for folder in dict.fromkeys(file.folder for file in small):
        size = target + 1
        for file in (file for file in small if file.folder == folder):
            if size + file.size > target:
                found.append([])
                size = 0
            found[-1].append(file)
            size += file.size
    return [together for together in found if len(together) > 1]


def merged(files: Sequence[SinkFile], name: str, size: int) -> SinkFile:
    """Return the line of the file that replaces others; as old as the newest of them.

    A stream that reads the folder takes files that are older than its memory for known, and passes them over.
    """
    return SinkFile(f"{files[0].folder}/{name}", size, max(file.modified for file in files), files[0].others)


def _parse_line(line: dict[str, Any]) -> SinkFile:
    others = {name: value for name, value in line.items() if name not in {"path", "size", "modificationTime"}}
    return SinkFile(line["path"], line["size"], line["modificationTime"], others)
