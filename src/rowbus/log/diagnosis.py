"""Findings on logs and consumers: a late ticker, a blocked rotation, a stuck consumer.

Invariant: pure; every finding but OK says what to do. Only a ticker that events wait for fails: they are
safe, but no consumer gets them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.transport.lanes.rule import MARK
from rowbus.transport.queues.diagnosis import Finding, Level, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from rowbus.database.locks import LockHolder

STUCK_AFTER: Final = timedelta(minutes=10)  # behind by that much, with no sign of life for as long
BATCH_TOO_OLD: Final = timedelta(hours=1)
BLOCKED_TOO_LONG: Final = timedelta(minutes=10)
TICKED_WITHIN: Final = timedelta(seconds=10)  # pgqd leaves an event without a tick for three seconds


_SCHEMA: Final = "event log"
OLD_GRANTS: Final = (
    "every role that can connect may read, write and drop logs (its grants are in the old style)"
)
OLD_GRANTS_ADVICE: Final = (
    "grant pgq_writer and pgq_reader to the roles that use it (`rowbus schema grants --log --role ROLE`), then run "
    "`rowbus log grants --style new`"
)


class LogState(NamedTuple):
    """The state of a log `at` a time, as `diagnosis/log_states.sql` returns it. `new_events` are not ticked yet."""

    log: str
    last_tick: int | None
    last_tick_time: datetime | None
    tick_age: timedelta | None
    new_events: int
    expected_age: timedelta | None
    ticker_is_late: bool
    consumers: int
    greatest_lag: timedelta | None
    retries: int
    dead_letters: int
    bytes: int
    ticker_is_paused: bool
    has_external_ticker: bool
    rotation_period: timedelta
    rotated_at: datetime
    rotation_blocked_since: datetime | None
    rotation_reason: str | None
    rotation_detail: str | None
    at: datetime

    @property
    def waits_for_tick(self) -> bool:
        """Whether there are events that any ticker would have ticked by now."""
        is_driven = not (self.ticker_is_paused or self.has_external_ticker)
        return is_driven and self.new_events > 0 and (self.tick_age or timedelta()) > TICKED_WITHIN

    @property
    def rotation_obstacle(self) -> str:
        """The reason that keeps the log's tables from being rotated; empty if there is none."""
        return ": ".join(part for part in (self.rotation_reason, self.rotation_detail) if part)


class ConsumerState(NamedTuple):
    """The state of a consumer, as `diagnosis/consumer_states.sql` returns it. `pending` are events, ticked or not."""

    log: str
    consumer: str
    last_tick: int | None
    lag: timedelta | None
    pending: int | None
    last_seen: timedelta
    batch: int | None
    batch_tick: int | None
    batch_age: timedelta | None
    retries: int
    dead_letters: int

    @property
    def lane(self) -> str:
        """The lane that it would be, by its name; empty: none."""
        own, _, lane = self.consumer.rpartition(MARK)
        return lane if own and lane.isascii() and lane.isdecimal() else ""

    @property
    def own_name(self) -> str:
        """The name of the consumer that it would be a lane of."""
        return self.consumer.removesuffix(f"{MARK}{self.lane}") if self.lane else self.consumer


class ConsumerWithLanes(NamedTuple):
    """A consumer, and its lanes if it has some: then its figures are those of the worst, or of all together."""

    state: ConsumerState
    lanes: tuple[ConsumerState, ...] = ()

    @property
    def name(self) -> str:
        """The name for people."""
        return f"{self.state.consumer} and {len(self.lanes)} lanes" if self.lanes else self.state.consumer


def consumers_with_lanes(consumers: Iterable[ConsumerState]) -> list[ConsumerWithLanes]:
    """Put lanes, which are numbered from 0 and at least two, to their consumer; all others stay by themselves."""
    groups: dict[tuple[str, str], list[ConsumerState]] = {}
    for one in consumers:
        groups.setdefault((one.log, one.own_name), []).append(one)
    found: list[ConsumerWithLanes] = []
    for group in groups.values():
        lanes = sorted(group, key=lambda one: int(one.lane or -1))
        if len(lanes) > 1 and [one.lane for one in lanes] == [str(number) for number in range(len(lanes))]:
            found.append(ConsumerWithLanes(_together(lanes), tuple(lanes)))
        else:
            found += map(ConsumerWithLanes, group)
    return found


def _together(lanes: Sequence[ConsumerState]) -> ConsumerState:
    behind = max(lanes, key=lambda one: (one.lag or timedelta(), one.pending or 0))
    busy = max(lanes, key=lambda one: one.batch_age or timedelta())
    return behind._replace(
        consumer=behind.own_name,
        last_seen=max(one.last_seen for one in lanes),
        batch=busy.batch,
        batch_tick=busy.batch_tick,
        batch_age=busy.batch_age,
        retries=sum(one.retries for one in lanes),
        dead_letters=sum(one.dead_letters for one in lanes),
    )


class LogSchema(NamedTuple):
    """Facts about the schema of the logs, beside the logs themselves."""

    grants: str
    """The style in which its use is granted."""

    ticker: LockHolder | None
    """The session that has the ticker's lock; None: there is none, or it cannot be seen."""

    ticks_are_late: bool
    waits_for_ticks: bool
    """Whether events wait for longer than any ticker leaves them, pgqd too."""

    is_private: bool
    """Whether only one user of the machine can connect to the server."""


class CaptureFault(NamedTuple):
    """A captured table of which this role sees not all, or of which the log gets another text, or not all changes."""

    log: str
    table: str
    is_hidden: bool
    settings: list[str]
    disabled: list[str]
    """Its triggers that no ordinary session fires; their quoted names."""

    unreplicated: list[str]
    """Those that replication does not fire, though a subscription or a setting has it write."""


class LostCapture(NamedTuple):
    """A table that was captured into a log, and was made anew under the same name without that."""

    log: str
    table: str


def diagnose_lost_captures(lost: Iterable[LostCapture]) -> Iterator[Finding]:
    """Judge tables of which a log gets nothing any more, though nobody released them."""
    for one in lost:
        yield Finding(
            Level.WARN,
            _subject(one.log),
            f"{one.table} was captured into it until it was made anew without capture; no change is written since",
            f"`rowbus log capture {one.table} --log {one.log}`, then copy it again; or, if that was meant, "
            f"`rowbus log release {one.table} --log {one.log}`",
        )


class ReplicaFault(NamedTuple):
    """A table of a replica in this database that stands still, and why."""

    replica: str
    table: str
    reason: str


def diagnose_replicas(faults: Iterable[ReplicaFault]) -> Iterator[Finding]:
    """Judge copies that do not take their changes."""
    for fault in faults:
        yield Finding(
            Level.FAIL,
            f"replica {fault.replica}",
            f"the copy of {fault.table} stands still, while others go on: {fault.reason.rstrip('.')}",
            f"mend it, then copy it anew: `rowbus spark replicate` with `--resync {fault.table}`",
        )


def diagnose_captures(faults: Iterable[CaptureFault]) -> Iterator[Finding]:
    """Judge captured tables that are hidden, and triggers that do not fire, or whose text depends on settings."""
    for fault in faults:
        yield from _judge_firing(fault)
        if fault.is_hidden:
            yield Finding(
                Level.WARN,
                _subject(fault.log),
                f"row security hides rows of {fault.table} from this role, and a copy would lack them",
                "copy and compare it as its owner, or as a role with BYPASSRLS",
            )
        if fault.settings:
            yield Finding(
                Level.WARN,
                _subject(fault.log),
                f"what {fault.table} writes depends on settings, and {', '.join(fault.settings)}",
                f"`rowbus log capture {fault.table} --log {fault.log}` makes its trigger exact",
            )


def _judge_firing(fault: CaptureFault) -> Iterator[Finding]:
    """Judge triggers that do not fire for all that writes their table."""
    silent = (
        (fault.disabled, "enable", "is disabled: the log gets none of its changes"),
        (fault.unreplicated, "enable always", "does not fire for replication, which writes the table"),
    )
    for triggers, verb, text in silent:
        for trigger in triggers:
            yield Finding(
                Level.WARN,
                _subject(fault.log),
                f"trigger {trigger} of {fault.table} {text}",
                f"`alter table {fault.table} {verb} trigger {trigger}`, then copy it again",  # SQL for a reader: advice
            )


def diagnose_strangers(strangers: Iterable[object]) -> Iterator[Finding]:
    """Judge the schema's objects that belong to untrusted roles."""
    for stranger in strangers:
        advice = (
            "see what was made there, and have a superuser drop it or give it to the owner of the database"
        )
        yield Finding(Level.FAIL, _SCHEMA, f"{stranger}, who can change what the log does", advice)


def diagnose_schema(schema: LogSchema) -> Iterator[Finding]:
    """Judge the grants on the logs, and the session that ticks them."""
    if schema.grants == "old":
        yield Finding(Level.WARN, _SCHEMA, OLD_GRANTS, OLD_GRANTS_ADVICE)
    ticker = schema.ticker
    if ticker is None:
        waits = schema.waits_for_ticks or schema.ticks_are_late
        yield Finding(
            Level.FAIL if waits else Level.WARN,
            "ticker",
            f"none leads{', and events wait for it' if waits else ''}",
            "run `rowbus ticker`; pgqd, which is not seen, does as well",
        )
        return
    if schema.ticks_are_late:
        advice = f"if that is no ticker, end it: pg_terminate_backend({ticker.pid})"
        yield Finding(Level.WARN, "ticker", f"{ticker} has the ticker's lock, but ticks are late", advice)
    elif ticker.is_superuser and not schema.is_private:
        advice = "run it as a role that is a member of pgq_admin and no superuser"
        yield Finding(
            Level.WARN, "ticker", f"{ticker} is a superuser, and lends its rights to all it calls", advice
        )
    else:
        yield Finding(Level.OK, "ticker", f"{ticker} drives the logs")


def diagnose_logs(logs: Iterable[LogState], consumers: Iterable[ConsumerState]) -> Iterator[Finding]:
    """Judge logs and their consumers; one finding at least for each log."""
    together = consumers_with_lanes(consumers)
    for log in logs:
        own = (consumer for consumer in together if consumer.state.log == log.log)
        found = [*_judge_log(log), *(finding for consumer in own for finding in _judge(consumer))]
        yield from found or [Finding(Level.OK, _subject(log.log), "a log")]


def _subject(log: str) -> str:
    return f'log "{log}"'


def _judge_log(log: LogState) -> Iterator[Finding]:
    subject = _subject(log.log)
    if log.ticker_is_paused:
        advice = f"rowbus log config {log.log} ticker_paused=false"
        yield Finding(Level.WARN, subject, "its ticker is paused", advice)
    elif log.ticker_is_late and log.tick_age is not None:
        text = f"the last tick is {duration(log.tick_age)} old, so consumers get nothing new"
        yield Finding(Level.WARN, subject, text, "run `rowbus ticker` (or pgqd)")
    since = log.rotation_blocked_since
    if since is not None and log.at - since >= BLOCKED_TOO_LONG:
        text = f"its tables could not be rotated for {duration(log.at - since)}: {log.rotation_obstacle}"
        advice = "the log grows until that ends; see `rowbus log consumers` and open transactions"
        yield Finding(Level.WARN, subject, text, advice)


def _judge(judged: ConsumerWithLanes) -> Iterator[Finding]:
    consumer = judged.state
    subject = f'consumer "{judged.name}" of {_subject(consumer.log)}'
    pending = consumer.pending or 0
    if consumer.batch_age is not None and consumer.batch_age >= BATCH_TOO_OLD:
        text = f"it has had batch {consumer.batch} in hand for {duration(consumer.batch_age)}"
        yield Finding(Level.WARN, subject, text, "see whether it runs, and what its log says; restart it")
    elif pending and consumer.last_seen >= STUCK_AFTER and (consumer.lag or STUCK_AFTER) >= STUCK_AFTER:
        text = f"{pending:,} events wait for it, and it was last seen {duration(consumer.last_seen)} ago"
        advice = (
            "start it; or drop it (`rowbus log unregister`): it keeps the log's space from being reclaimed"
        )
        yield Finding(Level.WARN, subject, text, advice)
    if consumer.dead_letters:
        text = (
            f"it has given up on {consumer.dead_letters:,} event{'' if consumer.dead_letters == 1 else 's'}"
        )
        own = next((lane for lane in judged.lanes if lane.dead_letters), consumer)
        listing = f"`rowbus log dead-letters list {own.log} {own.consumer}`"
        advice = f"see why: {listing}; then replay or purge them"
        yield Finding(Level.WARN, subject, text, advice)
