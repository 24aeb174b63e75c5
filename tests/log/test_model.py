"""The log against a model of it: whatever order things happen in, each committed event comes once, after its commit.

A machine of Hypothesis drives real connections through random steps, one at a time, so that the model knows exactly
what is committed at every moment. The whole model is this: a tick is the set of what was committed when it was made,
and a batch is the difference of two ticks. From that follows everything a consumer is promised.

What the steps interleave: writers (commit, abort, savepoints, prepared transactions), tickers on several connections
and in several isolation levels, both steps of rotation, consumers that crash, that retry events, that are moved back,
and cooperative consumers that take over from each other.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from psycopg import sql
from psycopg.errors import LockNotAvailable

from tests.fixtures.pairs import effort

WRITERS = 3
TICKERS = 2
CONSUMERS = ("a", "b")
MEMBERS = ("x", "y", "z")
GROUP = "group"
OTHERS = 110  # transactions; a batch looks for those that are this old one by one
IMPATIENT = "-c lock_timeout=30ms"  # nobody else moves while a step waits, so a step that waits never ends
NOTICES = "-c client_min_messages=error"  # who finishes a batch that was taken from him is warned

_numbers = itertools.count(1)


class Item(NamedTuple):
    """An event as somebody is to be given it: new, for everyone, or put back by one consumer, for that one."""

    number: int
    owner: str | None
    retry: int
    serial: int  # the same event may be put back twice, by one who was moved back in between


@dataclass
class Writer:
    """A connection that writes, and what it has written and not yet committed."""

    connection: psycopg.Connection[Any]
    written: list[Item] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)  # how much was written when each savepoint was set

    def end(self) -> list[Item]:
        """Forget what was written; give it."""
        written, self.written, self.marks = self.written, [], []
        return written


@dataclass
class Reader:
    """A consumer, or a member of the group: its connection, and the batch it holds."""

    name: str
    connection: psycopg.Connection[Any]
    started: int = 0  # the tick where it began
    batch: int | None = None
    read: list[Item] | None = None
    given: list[Item] = field(default_factory=list)  # in batches that were finished since


class World:
    """The connections that all examples share, to one database."""

    def __init__(self, dsn: str, schema: str = "pgq") -> None:
        self.dsn = dsn
        self._stack = contextlib.ExitStack()
        self.watch = self._connect()
        self.writers = [self._connect() for _ in range(WRITERS)]
        self.tickers = [self._connect() for _ in range(TICKERS)]
        self.readers = {name: self._connect() for name in (*CONSUMERS, *MEMBERS)}
        self.rotation = self._connect()
        self.has_coop = bool(
            self.watch.execute("select to_regnamespace('pgq_coop') is not null").fetchone() == (True,)
        )

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self.dsn, autocommit=True, options=f"{IMPATIENT} {NOTICES}")
        return self._stack.enter_context(connection)

    def connections(self) -> Iterator[psycopg.Connection[Any]]:
        yield from (*self.writers, *self.tickers, *self.readers.values(), self.rotation)

    def close(self) -> None:
        self._stack.close()


class LogMachine(RuleBasedStateMachine):
    """The steps, and the model beside them."""

    world: World
    refuses_old_snapshots = True
    """Whether `ticker` can be called from any transaction; the extension has it make ticks that go backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = f"model {next(_numbers)}"
        self.watch = self.world.watch
        self.committed: set[Item] = set()
        self.prepared: dict[str, list[Item]] = {}
        self.ticks: dict[int, frozenset[Item]] = {}
        self.snapshots: dict[int, frozenset[Item]] = {}  # of tickers in a transaction that keeps its snapshot
        self.finished: dict[int, list[Item]] = {}
        self.call("create_queue", self.queue)
        for name in ("ticker_max_lag", "ticker_idle_period", "rotation_period"):
            self.call("set_queue_config", self.queue, name, "0")
        self.ticks[self.newest_tick()] = frozenset()
        self.writers = [Writer(connection) for connection in self.world.writers]
        self.readers = {name: Reader(name, self.world.readers[name]) for name in CONSUMERS}
        self.members = {name: Reader(name, self.world.readers[name]) for name in MEMBERS}
        self.group = Reader(GROUP, self.watch, started=self.newest_tick())
        for reader in self.readers.values():
            self.call("register_consumer", self.queue, reader.name)
            reader.started = self.newest_tick()
        if self.world.has_coop:
            for name in MEMBERS:
                self.watch.execute(
                    "select pgq_coop.register_subconsumer(%s, %s, %s)", (self.queue, GROUP, name)
                )

    # ------------------------------------------------------------------------------------------------- the database

    def call(
        self, function: str, *arguments: object, connection: psycopg.Connection[Any] | None = None
    ) -> Any:  # noqa: ANN401 - whatever the function gives
        """Call a function of the schema `pgq`."""
        name = sql.Identifier("pgq", function)
        places = sql.SQL(", ").join(sql.Placeholder() * len(arguments))
        row = (
            (connection or self.watch)
            .execute(sql.SQL("select {}({})").format(name, places), arguments)
            .fetchone()
        )
        assert row is not None
        return row[0]

    def newest_tick(self) -> int:
        return int(self.column("select max(tick_id) from pgq.tick where tick_queue = {queue}")[0])

    def column(self, query: str) -> list[Any]:
        """Give the first column of a query, in which {queue} is the queue's id."""
        text = query.format(queue="(select queue_id from pgq.queue where queue_name = %s)")
        return [row[0] for row in self.watch.execute(text.encode(), (self.queue,))]

    # -------------------------------------------------------------------------------------------------- the writers

    writer = st.integers(0, WRITERS - 1)
    ticker = st.integers(0, TICKERS - 1)
    consumer = st.sampled_from(CONSUMERS)
    member = st.sampled_from(MEMBERS)

    @rule(which=writer, count=st.integers(1, 3))
    def write(self, which: int, count: int) -> None:
        """Begin, if need be, and write."""
        writer = self.writers[which]
        if not self.in_transaction(writer.connection):
            writer.connection.execute("begin")
        for _ in range(count):
            number = next(_numbers)
            self.call("insert_event", self.queue, "t", str(number), connection=writer.connection)
            writer.written.append(Item(number, None, 0, 0))

    @precondition(lambda self: self.open_writers())
    @rule(which=writer)
    def commit(self, which: int) -> None:
        """Commit what a writer has written."""
        writer = self.writing(which)
        writer.connection.execute("commit")
        self.committed |= set(writer.end())

    @precondition(lambda self: self.open_writers())
    @rule(which=writer)
    def abort(self, which: int) -> None:
        """Roll back what a writer has written."""
        writer = self.writing(which)
        writer.connection.execute("rollback")
        writer.end()

    @precondition(lambda self: self.open_writers())
    @rule(which=writer)
    def savepoint(self, which: int) -> None:
        """Set a savepoint, and write after it."""
        writer = self.writing(which)
        writer.connection.execute("savepoint mark")
        writer.marks.append(len(writer.written))
        self.write(self.writers.index(writer), 1)

    @precondition(lambda self: any(writer.marks for writer in self.writers))
    @rule(which=writer)
    def rollback_to_savepoint(self, which: int) -> None:
        """Undo what was written since the latest savepoint."""
        marked = [writer for writer in self.writers if writer.marks]
        writer = marked[which % len(marked)]
        writer.connection.execute("rollback to savepoint mark; release savepoint mark")
        del writer.written[writer.marks.pop() :]

    @precondition(lambda self: self.open_writers())
    @rule(which=writer)
    def prepare(self, which: int) -> None:
        """Prepare a writer's transaction, for anybody to commit."""
        writer = self.writing(which)
        name = f"prepared {next(_numbers)}"
        writer.connection.execute(f"prepare transaction '{name}'".encode())
        self.prepared[name] = writer.end()

    def open_writers(self) -> list[Writer]:
        return [writer for writer in self.writers if self.in_transaction(writer.connection)]

    def writing(self, which: int) -> Writer:
        """Give one of the writers that are in a transaction."""
        inside = self.open_writers()
        return inside[which % len(inside)]

    @precondition(lambda self: self.prepared)
    @rule(data=st.data(), commits=st.booleans())
    def end_prepared(self, data: st.DataObject, commits: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """Commit a prepared transaction, or roll it back."""
        name = data.draw(st.sampled_from(sorted(self.prepared)))
        self.watch.execute(f"{'commit' if commits else 'rollback'} prepared '{name}'".encode())
        written = self.prepared.pop(name)
        self.committed |= set(written) if commits else set()

    @precondition(lambda self: self.waiting_retries(self.watch))
    @rule(which=writer)
    def move_retries(self, which: int) -> None:
        """Put events that are due back into the log, in a writer's transaction."""
        writer = self.writers[which]
        if not self.in_transaction(writer.connection):
            writer.connection.execute("begin")
        with suppress(LockNotAvailable), writer.connection.transaction():  # another writer may be at it
            before = self.waiting_retries(writer.connection)
            self.call("maint_retry_events", connection=writer.connection)
            for number, owner, retry in (before - self.waiting_retries(writer.connection)).elements():
                writer.written.append(Item(number, owner, retry, next(_numbers)))

    def waiting_retries(self, connection: psycopg.Connection[Any]) -> Counter[tuple[int, str, int]]:
        query = """
            select rq.ev_data::int, co_name, ev_retry
            from pgq.retry_queue as rq
            join pgq.queue on queue_id = ev_queue
            join pgq.subscription on sub_queue = queue_id and sub_id = ev_owner
            join pgq.consumer on co_id = sub_consumer and co_name = any (%s)
            where queue_name = %s
        """
        return Counter(connection.execute(query, ([*CONSUMERS, GROUP], self.queue)).fetchall())

    @staticmethod
    def in_transaction(connection: psycopg.Connection[Any]) -> bool:
        return connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    # ------------------------------------------------------- what chance alone would seldom bring about, in one step

    @precondition(lambda self: self.open_writers())
    @rule(which=writer, ends=st.booleans())
    def let_others_work(self, which: int, ends: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """Have many other transactions go by while one is open, which may end after the tick that comes then."""
        others = "begin for i in 1..{} loop perform pg_current_xact_id(); commit; end loop; end"
        self.watch.execute(f"do $${others.format(OTHERS)}$$".encode())
        if not self.in_transaction(self.world.tickers[0]):
            self.tick(0)
        if ends:
            self.commit(which)

    @rule(which=writer, ticks=st.booleans())
    def write_while_rotating(self, which: int, ticks: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """Write after the first step of a rotation has begun and before anybody can see it.

        Everybody who can catches up before, for whoever is behind holds rotation up.
        """
        self.rotate(2, holds=False)
        self.tick(1)
        self.catch_up_all()
        self.rotate(1, holds=True)
        self.write(which, 1)
        if ticks:
            self.tick(0)
        self.rotate(2, holds=True)

    @rule(which=writer)
    def tick_late(self, which: int) -> None:
        """Have a ticker see the log, then somebody commit, another ticker tick, and only then the first one."""
        if not any(map(self.in_transaction, self.world.tickers)):
            self.begin_ticker(0, keeps_snapshot=True)
            self.write(which, 1)
            self.commit(self.open_writers().index(self.writers[which]))
            self.tick(1)
            self.tick(0)
            self.end_ticker(0, commits=True)

    # --------------------------------------------------------------------------------------- tickers and maintenance

    @rule(which=ticker)
    def tick(self, which: int) -> None:
        """Tick, and stay in the transaction if there is one."""
        connection = self.world.tickers[which]
        with self.refused(connection):
            tick = self.call("ticker", self.queue, connection=connection)
            if tick is not None:
                self.ticks[tick] = self.snapshots.get(which, frozenset(self.committed))

    @rule(which=ticker, keeps_snapshot=st.booleans())
    def begin_ticker(self, which: int, keeps_snapshot: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """Have a ticker tick in a transaction that goes on, perhaps one that will see what is now for ever."""
        connection, keeps_snapshot = self.world.tickers[which], keeps_snapshot and self.refuses_old_snapshots
        if not self.in_transaction(connection):
            connection.execute("begin" + (" isolation level repeatable read" if keeps_snapshot else ""))
            connection.execute("select pg_current_snapshot()")
            if keeps_snapshot:
                self.snapshots[which] = frozenset(self.committed)

    @precondition(lambda self: any(map(self.in_transaction, self.world.tickers)))
    @rule(which=ticker, commits=st.booleans())
    def end_ticker(self, which: int, commits: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """Commit what a ticker has done, or roll it back."""
        self.world.tickers[which].execute("commit" if commits else "rollback")
        self.snapshots.pop(which, None)

    @contextlib.contextmanager
    def refused(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Let a step be refused: because it would wait, or would tick with a snapshot that is not of now."""
        try:
            yield
        except (LockNotAvailable, psycopg.errors.RaiseException, psycopg.errors.ObjectInUse):
            connection.execute("rollback")
            for which, ticker in enumerate(self.world.tickers):
                if ticker is connection:
                    self.snapshots.pop(which, None)

    @rule(step=st.integers(1, 2), holds=st.booleans())
    def rotate(self, step: int, holds: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """Do a step of rotation; perhaps commit it only with the next one."""
        connection = self.world.rotation
        if self.in_transaction(connection):
            connection.execute("commit")
        with self.refused(connection):
            connection.execute("begin")
            if step == 1:
                self.call("maint_rotate_tables_step1", self.queue, connection=connection)
            else:
                self.call("maint_rotate_tables_step2", connection=connection)
        if self.in_transaction(connection) and not holds:
            connection.execute("commit")

    # ------------------------------------------------------------------------------------------------ the consumers

    @rule(name=consumer)
    def consume(self, name: str) -> None:
        """Take a batch, read it and finish it."""
        self.open_batch(name)
        self.finish_batch(name)

    @rule(name=consumer)
    def open_batch(self, name: str) -> None:
        """Take the next batch, or the one it has, and read it; the transaction stays open."""
        reader = self.readers[name]
        if self.in_transaction(reader.connection):
            return
        reader.batch = reader.read = None
        reader.connection.execute("begin")
        with self.refused(reader.connection):
            reader.batch = self.call("next_batch", self.queue, name, connection=reader.connection)
            reader.read = None if reader.batch is None else self.read(reader, name)

    @precondition(lambda self: any(reader.read for reader in self.readers.values()))
    @rule(name=consumer, data=st.data())
    def retry_an_event(self, name: str, data: st.DataObject) -> None:
        """Put an event of the batch into the retry queue."""
        reader = self.readers[name]
        if self.in_transaction(reader.connection) and reader.batch is not None and reader.read:
            rows = reader.connection.execute(
                "select ev_id from pgq.get_batch_events(%s)", (reader.batch,)
            ).fetchall()
            event = data.draw(st.sampled_from([event for (event,) in rows]))
            with self.refused(reader.connection):
                self.call("event_retry", reader.batch, event, 0, connection=reader.connection)

    @precondition(
        lambda self: any(self.in_transaction(reader.connection) for reader in self.readers.values())
    )
    @rule(name=consumer)
    def finish_batch(self, name: str) -> None:
        """Finish the batch and commit."""
        reader = self.readers[name]
        if not self.in_transaction(reader.connection):
            return
        with self.refused(reader.connection):
            if reader.batch is not None and reader.read is not None:
                assert self.call("finish_batch", reader.batch, connection=reader.connection) == 1
                reader.given += reader.read
            reader.connection.execute("commit")
        reader.batch = reader.read = None

    @precondition(
        lambda self: any(self.in_transaction(reader.connection) for reader in self.readers.values())
    )
    @rule(name=consumer, commits=st.booleans())
    def give_up(self, name: str, commits: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """End without finishing: crash, or come back to the same batch later."""
        reader = self.readers[name]
        reader.connection.execute("commit" if commits else "rollback")
        reader.batch = reader.read = None

    @rule(name=consumer, data=st.data())
    def reposition(self, name: str, data: st.DataObject) -> None:
        """Move to any tick there is; what it is given is counted from there."""
        reader = self.readers[name]
        if not self.in_transaction(reader.connection):
            ticks = self.column("select tick_id from pgq.tick where tick_queue = {queue} order by tick_id")
            tick = data.draw(st.sampled_from(ticks))
            with self.refused(reader.connection):
                self.call("register_consumer_at", self.queue, name, tick, connection=reader.connection)
                reader.started, reader.given = tick, []

    def read(self, reader: Reader, owner: str) -> list[Item]:
        """Read a batch: it is exactly what was committed between its two ticks."""
        query = "select prev_tick_id, tick_id from pgq.get_batch_info(%s)"
        row = reader.connection.execute(query, (reader.batch,)).fetchone()
        assert row is not None
        rows = reader.connection.execute(
            "select ev_data::int, coalesce(ev_retry, 0) from pgq.get_batch_events(%s)", (reader.batch,)
        ).fetchall()
        due = self.between(owner, row[0], row[1])
        assert Counter(rows) == Counter((item.number, item.retry) for item in due), (
            f"{owner} between the ticks {row[0]} and {row[1]} of {self.queue}"
        )
        return due

    def between(self, owner: str, start: int, end: int) -> list[Item]:
        return [item for item in self.ticks[end] - self.ticks[start] if item.owner in {None, owner}]

    # ------------------------------------------------------------------------------------------ the cooperative group

    @precondition(lambda self: self.world.has_coop)
    @rule(name=member, takes_over=st.booleans())
    def open_members_batch(self, name: str, takes_over: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """Take a batch of the group's, perhaps that of a member who has been silent since a moment ago."""
        member = self.members[name]
        dead = ", %s" if takes_over else ""
        arguments = [self.queue, GROUP, name, *(["0 seconds"] if takes_over else [])]
        with self.refused(member.connection):
            query = f"select pgq_coop.next_batch(%s, %s, %s{dead})"
            (member.batch,) = member.connection.execute(query.encode(), arguments).fetchone() or (None,)
            member.read = None if member.batch is None else self.read(member, GROUP)

    @precondition(lambda self: any(member.batch for member in self.members.values()))
    @rule(name=member)
    def finish_members_batch(self, name: str) -> None:
        """Finish it, unless it has been taken over: then its work is rolled back, and counts for nothing."""
        member = self.members[name]
        if member.batch is not None and member.read is not None:
            query = "select pgq_coop.finish_batch(%s)"
            with self.refused(member.connection):
                finished = member.connection.execute(query, (member.batch,)).fetchone()
                if finished == (1,):
                    self.group.given += member.read
                member.batch = member.read = None

    # ------------------------------------------------------------------------------------------------------- the end

    def teardown(self) -> None:
        """End whatever is open, let everybody catch up, and compare."""
        try:
            self.end_all()
            self.catch_up_all()
            newest = self.newest_tick()
            groups = [self.group] if self.world.has_coop else []
            for reader in (*self.readers.values(), *groups):
                due = self.between(reader.name, reader.started, newest)
                assert Counter(reader.given) == Counter(due), reader.name
                everything = {item for item in self.committed if item.owner in {None, reader.name}}
                assert everything - self.ticks[reader.started] == set(reader.given), reader.name
        finally:
            self.clean_up()

    def end_all(self) -> None:
        for name in CONSUMERS:
            self.give_up(name, commits=False)
        self.rotate(2, holds=False)
        while self.open_writers():
            self.commit(0)
        for which in range(TICKERS):
            self.end_ticker(which, commits=True)
        for name in list(self.prepared):
            self.watch.execute(f"commit prepared '{name}'".encode())
            self.committed |= set(self.prepared.pop(name))
        while self.waiting_retries(self.watch):
            self.move_retries(0)
            self.commit(0)
        for _ in range(2):
            self.tick(0)

    def catch_up_all(self) -> None:
        """Have everybody finish all batches there are, but for who is in the middle of something."""
        for reader in self.readers.values():
            while not self.in_transaction(reader.connection) and self.catch_up(reader):
                pass
        while self.world.has_coop and self.catch_up_group():
            pass

    def catch_up(self, reader: Reader) -> bool:
        self.open_batch(reader.name)
        more = reader.batch is not None
        self.finish_batch(reader.name)
        return more

    def catch_up_group(self) -> bool:
        """Have a member finish a batch, the one it holds if it holds one; say whether there was any."""
        return any(self.catch_up_member(name) for name in MEMBERS)

    def catch_up_member(self, name: str) -> bool:
        self.open_members_batch(name, takes_over=False)
        more = self.members[name].batch is not None
        self.finish_members_batch(name)
        return more

    def clean_up(self) -> None:
        for connection in self.world.connections():
            connection.execute("rollback")
        for name in self.prepared:
            self.watch.execute(f"rollback prepared '{name}'".encode())
        self.watch.execute("select pgq.drop_queue(%s, true)", (self.queue,))


def explore(
    dsn: str, *, examples: int, steps: int, shrinks: bool = False, refuses_old_snapshots: bool = True
) -> None:
    """Run the machine on a database; with `shrinks` look for the shortest way to a failure, which takes minutes."""
    world = World(dsn)
    attributes = {"world": world, "refuses_old_snapshots": refuses_old_snapshots}
    machine = type("Machine", (LogMachine,), attributes)
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                phases=[Phase.generate, *([Phase.shrink] if shrinks else [])],
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        world.close()


def test_each_committed_event_is_given_once_to_each_consumer_and_never_before_its_commit(
    log_database: str,
) -> None:
    explore(log_database, examples=12, steps=60)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_in_many_more_interleavings_each_committed_event_is_given_once(log_database: str) -> None:
    explore(log_database, examples=effort(30, 100), steps=100, shrinks=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_model_holds_for_the_extension_that_it_was_made_after(oracle_database: str) -> None:
    explore(oracle_database, examples=effort(12, 50), steps=60, refuses_old_snapshots=False)
