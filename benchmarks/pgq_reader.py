"""The other side of `log_read`: python3-pgq's own consumer, run by Debian's Python, which has that package.

`pgq_reader.py CONFIG` reads the next batch into Event objects for each line of its standard input, and answers with
the number of events and the seconds it took; the batch is never finished, so it is the same each time.
"""

from __future__ import annotations

import gc
import sys
import time

import pgq


class Reader(pgq.Consumer):
    """A consumer whose batches nobody processes."""

    def read(self) -> tuple[int, float]:
        """Ask for the batch and load it, as `work()` does."""
        database = self.get_database(self.db_name)
        cursor = database.cursor()
        batch = self._load_next_batch(cursor)
        database.commit()
        gc.collect()
        begun = time.perf_counter()
        events = list(self._load_batch_events(cursor, batch))
        seconds = time.perf_counter() - begun
        database.commit()
        return len(events), seconds


def main() -> None:
    """Serve."""
    reader = Reader("reader", "db", ["-q", sys.argv[1]])
    reader.reload()
    for _ in sys.stdin:
        print(*reader.read(), flush=True)


if __name__ == "__main__":
    main()
