"""The diagnosis of a SQL Server and its queues, from facts: fine, worth a look, or broken, and what to do about it.

Invariant: pure; each finding that is not fine says what to do, and only `FAIL` means that Rowbus cannot work or that
messages are at risk.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.transport.queues.diagnosis import (
    BLOAT_WARNING_BYTES,
    BLOAT_WARNING_BYTES_A_ROW,
    Finding,
    Level,
    duration,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rowbus.transport.queues.diagnosis import SnapshotHolder, Storage

OLDEST_COMPATIBILITY: Final = 130  # SQL Server 2016, which brought `string_split`
FORCED: Final = 2  # sys.databases.delayed_durability
IDLE_WARNING: Final = timedelta(minutes=1)
IDLE_FAILURE: Final = timedelta(hours=1)


class SqlServerFacts(NamedTuple):
    """The server and its catalog as a session sees them; the columns of `catalog/server.sql`."""

    version: str
    catalog: str
    login: str
    compatibility_level: int
    is_read_only: bool
    reads_versions: bool
    delayed_durability: int

    def findings(self) -> Iterator[Finding]:
        """Judge the server by itself."""
        yield self._version()
        yield self._connection()
        yield self._durability()

    def findings_on_holders(self, holders: Sequence[SnapshotHolder]) -> Iterator[Finding]:
        """Judge the sessions that have a transaction open and do nothing."""
        found = False
        for holder in holders:
            if holder.lasted is not None and holder.lasted >= IDLE_WARNING:
                found = True
                yield _idle(holder, holder.lasted)
        if not found:
            yield Finding(
                Level.OK, "transactions", "no session that this login sees holds one open and does nothing"
            )

    def findings_on_storage(self, storages: Iterable[Storage]) -> Iterator[Finding]:
        """Judge the pages that messages have left behind; says nothing of tables in good order."""
        for storage in storages:
            share = storage.bytes / max(storage.live_rows, 1)
            if storage.bytes > BLOAT_WARNING_BYTES and share > BLOAT_WARNING_BYTES_A_ROW:
                text = f"it occupies {storage.bytes // 2**20:,} MiB for about {storage.live_rows:,} messages"
                advice = "alter table … rebuild, in a quiet moment: it locks the queue"
                yield Finding(Level.WARN, str(storage.address), text, advice)

    def _version(self) -> Finding:
        name = " ".join(self.version.split("\n", maxsplit=1)[0].split())
        if "Babelfish" in self.version:
            advice = "READPAST does not pass over locked rows there: receivers wait for one another"
            return Finding(Level.WARN, "server", name, advice)
        if self.compatibility_level < OLDEST_COMPATIBILITY:
            text = f"{name}, compatibility level {self.compatibility_level}"
            advice = f"alter database … set compatibility_level = {OLDEST_COMPATIBILITY} or higher"
            return Finding(Level.FAIL, "server", text, advice)
        return Finding(Level.OK, "server", name)

    def _connection(self) -> Finding:
        text = f"catalog {self.catalog} as {self.login}"
        if self.is_read_only:
            return Finding(Level.FAIL, "connection", f"{text}, read-only", "alter database … set read_write")
        how = "row versions" if self.reads_versions else "locks"
        return Finding(Level.OK, "connection", f"{text}, readers are kept apart by {how}")

    def _durability(self) -> Finding:
        if self.delayed_durability == FORCED:
            advice = "alter database … set delayed_durability = disabled, wherever messages matter"
            text = "a crash may lose the last commits (delayed durability is forced)"
            return Finding(Level.WARN, "durability", text, advice)
        return Finding(Level.OK, "durability", "what is committed survives a crash")


def _idle(holder: SnapshotHolder, lasted: timedelta) -> Finding:
    level = Level.WARN if lasted < IDLE_FAILURE else Level.FAIL
    text = f"session {holder.pid} ({holder.name or 'unnamed'}) of {holder.role} holds one open and has done nothing "
    advice = f"no receiver can take what it locked; finish it, or end it: kill {holder.pid}"
    return Finding(level, "transactions", f"{text}for {duration(lasted)}", advice)
