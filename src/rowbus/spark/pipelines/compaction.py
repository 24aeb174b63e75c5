"""Puts the many small files of an archive together into few.

Spark's readers see the files that the log of the file sink lists. So the new files are written first, then one file
of the log is replaced, which is the moment when all readers change over, and then the old ones go. What was under way
is in a journal, from which the next run finishes or undoes what a crash interrupted.

Invariant: at every moment the log lists each event of the archive once. A query that began before the change and reads
on after it may fail, for a file is gone; repeated, it is right.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from rowbus.errors import ConfigurationError
from rowbus.messages.uuids import new_message_id
from rowbus.spark.pipelines.file_sink_log import SinkFile, bins, live, merged, parse, render

if TYPE_CHECKING:
    import pyarrow.parquet as pq

LOG: Final = "_spark_metadata"
JOURNAL: Final = "_compaction"
LOCK: Final = "_lock"
REMEMBERED: Final = timedelta(days=8)  # a day more than Spark's streams remember files: `maxFileAge`
TARGET_BYTES: Final = 128 * 2**20

Tell = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """How many files the archive had, and has."""

    path: str
    files_before: int
    files_after: int


def compact(
    path: str | Path,
    *,
    older_than: timedelta = REMEMBERED,
    target_bytes: int = TARGET_BYTES,
    tell: Tell | None = None,
) -> CompactionReport:
    """Put small files of an archive together, those that are older than a time.

    Batch readers of Spark see each event once, always. Streams of Spark that read the archive as files do so for files
    older than they remember, which is a week; for younger ones a new file is a new file, whatever is in it. Not while
    the archive is being written. Raises ConfigurationError for what is no archive, or is in use. Needs no Java.
    """
    folder = Path(path)
    if (folder / "_delta_log").is_dir():
        return _compact_delta(folder, target_bytes)
    if not (folder / LOG).is_dir():
        raise ConfigurationError(f"{folder} is no archive: it has no folder {LOG}.")
    with locked(folder, "compact it"):
        _recover(folder)
        before = sum(len(files) for _, files in read_log(folder))
        limit = datetime.now(UTC) - older_than
        for file, entries in read_log(folder):
            found = bins(entries, before=round(limit.timestamp() * 1000), target=target_bytes)
            if found := [together for together in found if _are_alike(together)]:
                _replace(folder, file, entries, found)
                if tell is not None:
                    tell(f"{file.name}: {sum(map(len, found))} files became {len(found)}")
        after = sum(len(files) for _, files in read_log(folder))
    return CompactionReport(str(folder), before, after)


@contextmanager
def locked(folder: Path, purpose: str) -> Generator[None]:
    """Have an archive for oneself; raises ConfigurationError if another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"Another process is writing or compacting {folder}; end it, then {purpose}."
            ) from None
        yield


def read_log(folder: Path) -> list[tuple[Path, list[SinkFile]]]:
    """Read the files of the log that count."""
    names = [file.name for file in (folder / LOG).iterdir()]
    found = [folder / LOG / name for name in live(names)]
    return [(file, parse(file.read_text(encoding="utf-8"))) for file in found]


def _replace(folder: Path, file: Path, entries: list[SinkFile], found: Sequence[Sequence[SinkFile]]) -> None:
    """Write the new files, change the log over, and remove the old ones."""
    names = [f"part-00000-{new_message_id()}.c000.snappy.parquet" for _ in found]
    old = [entry.path for together in found for entry in together]
    new = [f"{together[0].folder}/{name}" for together, name in zip(found, names, strict=True)]
    journal = _note(folder, file.name, old, new)
    kept = [entry for entry in entries if entry.path not in set(old)]
    made = [
        merged(together, name, _merge(together, name)) for together, name in zip(found, names, strict=True)
    ]
    overwrite(file, render([*made, *kept]))
    _remove(old)
    journal.unlink()


def _note(folder: Path, log: str, old: list[str], new: list[str]) -> Path:
    journal = folder / JOURNAL / f"{new_message_id()}.json"
    journal.parent.mkdir(exist_ok=True)
    overwrite(journal, json.dumps({"log": log, "old": old, "new": new}))
    return journal


def _recover(folder: Path) -> None:
    """Finish what was changed over, undo what was not."""
    listed = {entry.path for _, files in read_log(folder) for entry in files}
    for journal in (folder / JOURNAL).glob("*.json"):
        noted = json.loads(journal.read_text(encoding="utf-8"))
        _remove([path for path in (*noted["old"], *noted["new"]) if path not in listed])
        journal.unlink()


def _merge(files: Sequence[SinkFile], name: str) -> int:
    """Write the rows of files, in their order, into a new one beside them; return its size."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - Arrow is wanted for this alone

    target = local(files[0].path).with_name(name)
    parts = [pq.ParquetFile(local(file.path), coerce_int96_timestamp_unit="us") for file in files]
    draft = target.with_name(f".{name}.draft")
    with pq.ParquetWriter(draft, parts[0].schema_arrow, compression="snappy") as writer:
        for part in parts:
            _append(writer, part)
    _sync(draft)
    draft.rename(target)
    return target.stat().st_size


def _are_alike(files: Sequence[SinkFile]) -> bool:
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    first, *others = (pq.read_schema(local(file.path)) for file in files)
    return all(schema.equals(first) for schema in others)


def _append(writer: pq.ParquetWriter, part: pq.ParquetFile) -> None:
    for batch in part.iter_batches():
        writer.write_batch(batch)
    part.close()


def overwrite(file: Path, text: str) -> None:
    """Replace a file in one step, and the checksum that Hadoop keeps beside it: without one, none is checked."""
    draft = file.with_name(f".{file.name}.draft")
    draft.write_text(text, encoding="utf-8")
    _sync(draft)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    draft.replace(file)
    _sync(file.parent)


def _sync(place: Path) -> None:
    number = os.open(place, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _remove(addresses: Sequence[str]) -> None:
    for address in addresses:
        file = local(address)
        file.unlink(missing_ok=True)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def local(address: str) -> Path:
    """Return the path of a file by its address; raises ConfigurationError if it is elsewhere."""
    parts = urlsplit(address)
    if parts.scheme not in {"", "file"}:
        raise ConfigurationError(f"{address} is not on this machine's file systems.")
    return Path(unquote(parts.path))


def _compact_delta(folder: Path, target_bytes: int) -> CompactionReport:
    from deltalake import DeltaTable  # noqa: PLC0415 - only for these

    table = DeltaTable(str(folder))
    before = len(table.file_uris())
    table.optimize.compact(target_size=target_bytes)
    return CompactionReport(str(folder), before, len(DeltaTable(str(folder)).file_uris()))
