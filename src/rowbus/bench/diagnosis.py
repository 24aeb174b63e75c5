"""Verdicts on a server, from its settings and the figures: what limits it, and what to do.

Invariant: pure; each finding that is not fine says what to do. Durability that is switched off is a failure with
any figures: they are then those of a server that forgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.bench.figures import COMMIT, ROWBUS, SELECT_ONE, SINGLE_RECEIVE, figure_of, latency_of
from rowbus.transport.queues.diagnosis import Finding, Level, diagnose_pooler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.bench.figures import Figure, Latency, Settings
    from rowbus.transport.queues.diagnosis import ServerFacts

DOMINATES: Final = 0.5  # of the time that one message takes
SLOW_FLUSH: Final = 0.002  # seconds: what a disk without a cache for writes takes
SLOW_ROUND_TRIP: Final = 0.001  # seconds: further away than the next machine
SMALL_BUFFERS: Final = 128 * 2**20  # PostgreSQL's default
BUSY: Final = 2**20  # bytes of WAL a second that others write
MEBIBYTE: Final = 2**20
_JUDGED_HERE: Final = frozenset({"durability", "connections"})
_ORDER: Final = (Level.FAIL, Level.WARN, Level.OK)


class Facts(NamedTuple):
    """The knowledge of a server and of what was measured on it.

    `concurrency` was asked for, `used_concurrency` had connections; `others_wal` is what others wrote each second, None
    where the role may not know.
    """

    server: ServerFacts
    settings: Settings
    latencies: Sequence[Latency]
    figures: Sequence[Figure]
    concurrency: int
    used_concurrency: int
    is_direct: bool
    others_wal: float | None
    message_bytes: int


def connections_for(concurrency: int) -> int:
    """Return how many connections a process takes at most that handles so many messages at a time."""
    return 2 * concurrency + 2


def usable_concurrency(asked: int, free: int) -> int:
    """Return with what concurrency to measure beside so many free connections: half of them stay for others."""
    return max(1, min(asked, (free // 2 - 2) // 2))


def diagnose(facts: Facts) -> list[Finding]:
    """Judge a server: what fails first, then what to look at, then what is fine."""
    found = [
        *_durability(facts.settings),
        *_flush(facts),
        *_round_trip(facts),
        _pooler(facts),
        _buffers(facts),
        _wal_level(facts.settings),
        _connections(facts),
        *_others(facts),
        *_server(facts.server),
    ]
    return sorted(found, key=lambda finding: _ORDER.index(finding.level))


def _durability(settings: Settings) -> Iterator[Finding]:
    """Name each setting that gives up what was committed."""
    found = list(_not_durable(settings))
    yield from found or [Finding(Level.OK, "durability", "what is committed survives a crash")]


def _not_durable(settings: Settings) -> Iterator[Finding]:
    again = "and measure again: these figures are those of a server that forgets"
    if not settings.fsync:
        text = "IS OFF: a crash of the machine may destroy the database, with all messages"
        yield Finding(Level.FAIL, "fsync", text, f"set fsync to on, {again}")
    if not settings.full_page_writes:
        text = "IS OFF: a crash of the machine may leave pages half written, which no recovery mends"
        yield Finding(Level.FAIL, "full_page_writes", text, f"set full_page_writes to on, {again}")
    if settings.synchronous_commit == "off":
        text = "IS OFF: a crash loses the last commits: what was sent is gone, what was handled comes again"
        advice = f"set synchronous_commit to on for the roles that send and receive, {again}"
        yield Finding(Level.FAIL, "synchronous_commit", text, advice)


def _flush(facts: Facts) -> Iterator[Finding]:
    """Judge what a commit waits for: the disk, and standbys."""
    commit, trip = latency_of(facts.latencies, COMMIT), latency_of(facts.latencies, SELECT_ONE)
    if commit is None or trip is None or facts.settings.synchronous_commit == "off":
        return
    flush = max(commit.p50 - trip.p50, 0.0)
    if not flush:
        return
    waits = "the disk and its standbys" if _waits_for_standbys(facts.settings) else "the disk"
    text = (
        f"a commit waits {_milliseconds(flush)} for {waits} (p50): with one message a transaction, "
        f"at most about {1 / flush:,.0f} messages/s a connection"
    )
    level = Level.WARN if flush >= SLOW_FLUSH else Level.OK
    yield Finding(level, "flush", text, _help_of_flush(facts) if _dominates(facts, flush) else "")


def _waits_for_standbys(settings: Settings) -> bool:
    return settings.has_synchronous_standbys and settings.synchronous_commit != "local"


def _help_of_flush(facts: Facts) -> str:
    delay = "" if facts.settings.commit_delay else "; or commit_delay where many commit at once"
    return (
        "most of a message's time is this: handle messages in batches (batch_size), or more at a time (concurrency; "
        f"commits share a flush){delay}; or a disk that flushes faster"
    )


def _round_trip(facts: Facts) -> Iterator[Finding]:
    """Judge the way to the server."""
    trip = latency_of(facts.latencies, SELECT_ONE)
    if trip is None:
        return
    text = f"the way to the server and back takes {_milliseconds(trip.p50)} (p50)"
    if trip.p50 >= SLOW_ROUND_TRIP and _dominates(facts, trip.p50):
        text += f", most of a message's time: at most about {1 / trip.p50:,.0f} messages/s a connection"
        advice = "run endpoints near the server; until then batches (batch_size) and more concurrency"
        yield Finding(Level.WARN, "round trip", text, advice)
    else:
        yield Finding(Level.OK, "round trip", text)


def _dominates(facts: Facts, seconds: float) -> bool:
    """Say whether this is most of the time that one message takes on one connection."""
    single = figure_of(facts.figures, SINGLE_RECEIVE, ROWBUS)
    return single is None or seconds * single.rate >= DOMINATES


def _pooler(facts: Facts) -> Finding:
    if facts.is_direct:
        return Finding(Level.OK, "notifications", "receivers are woken by the server")
    return diagnose_pooler()


def _buffers(facts: Facts) -> Finding:
    size = facts.settings.shared_buffers
    text = f"{size // MEBIBYTE:,} MiB hold a backlog of about {size // facts.message_bytes:,} messages like these"
    if size > SMALL_BUFFERS:
        return Finding(Level.OK, "shared_buffers", text)
    advice = "a longer backlog is read from files: set it to a quarter of the machine's memory, and restart"
    return Finding(Level.WARN, "shared_buffers", text, advice)


def _wal_level(settings: Settings) -> Finding:
    if settings.wal_level != "minimal":
        return Finding(Level.OK, "wal_level", settings.wal_level)
    text = "minimal: neither a standby nor an archive can follow, so a disk that is lost takes all messages with it"
    return Finding(Level.WARN, "wal_level", text, "set wal_level to replica, and restart")


def _connections(facts: Facts) -> Finding:
    free = facts.server.connection_limit - facts.server.connections
    need = connections_for(facts.concurrency)
    limit = facts.server.connection_limit
    text = f"{free} of {limit} free; a process of concurrency {facts.concurrency} takes up to {need}"
    if need <= free and facts.used_concurrency == facts.concurrency:
        return Finding(Level.OK, "max_connections", f"{text}: room for {free // need}")
    measured = f"; measured with concurrency {facts.used_concurrency}"
    advice = "raise max_connections, or lower the concurrency of the endpoints"
    return Finding(Level.WARN, "max_connections", text + measured, advice)


def _others(facts: Facts) -> Iterator[Finding]:
    if facts.others_wal is not None and facts.others_wal >= BUSY:
        text = f"others wrote {facts.others_wal / MEBIBYTE:,.1f} MiB of WAL a second meanwhile: it is in the figures"
        yield Finding(Level.WARN, "others", text, "measure again when the server is quiet")


def _server(server: ServerFacts) -> Iterator[Finding]:
    """Give what the doctor finds wrong with the server; what is judged here is not repeated."""
    for finding in server.findings():
        if finding.level is not Level.OK and finding.subject not in _JUDGED_HERE:
            yield finding


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.3g} ms"
