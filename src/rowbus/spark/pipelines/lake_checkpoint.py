"""The checkpoint of the query that keeps a lake: in the lake's folder, or made for a run of what an object store keeps.

Invariant: in an object store only what is kept there counts; a query begins, also again, with nothing else.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rowbus.spark.lake.storage import is_remote
from rowbus.spark.lake.tables.folder import CHECKPOINT, STATE, LakeFolder
from rowbus.spark.lake.tables.query_record import kept_record, put_aside, write_checkpoint
from rowbus.spark.pipelines.release import put_stranger_aside

if TYPE_CHECKING:
    from collections.abc import Generator


class LakeCheckpoint:
    """A checkpoint in a folder of this machine."""

    def __init__(self, lake: LakeFolder, path: Path, *, kept_elsewhere: bool) -> None:
        """Take the folder. No I/O."""
        self.path = path
        self.kept = str(path) if kept_elsewhere else None
        """The folder, if what a next run needs of it is kept elsewhere."""

        self._lake = lake

    def prepare(self) -> None:
        """Have the folder be as the lake's store has it; nothing for a lake in a folder."""
        if self.kept is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        if kept := kept_record(self._lake.state):
            write_checkpoint(kept, self.path)

    def begin_anew(self, consumer: str, dsn: str) -> str | None:
        """Say nothing of the tables until all are copied; put a prepared checkpoint of another history aside.

        Returns where it is then. What was said may be of the database before a restore, which numbers its transactions
        from an earlier one on again.
        """
        self._lake.note_complete((), None)
        aside = put_stranger_aside(self.path, consumer, dsn)
        if aside and self.kept:
            return f"{self._lake.path}/{STATE}/{put_aside(self._lake.state)}"
        return str(aside) if aside else None


@contextmanager
def checkpoint_of(lake: LakeFolder) -> Generator[LakeCheckpoint]:
    """Give the checkpoint of a lake, for a run."""
    if not is_remote(lake.path):
        yield LakeCheckpoint(lake, Path(lake.path, STATE, CHECKPOINT), kept_elsewhere=False)
        return
    with TemporaryDirectory(prefix="rowbus-lake-", ignore_cleanup_errors=True) as folder:
        yield LakeCheckpoint(lake, Path(folder, CHECKPOINT), kept_elsewhere=True)
