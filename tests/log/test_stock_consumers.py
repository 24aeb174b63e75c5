"""The stock tools of PgQ work against our schema: python3-pgq produces, consumes and cascades, pgqd drives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.log import Templates, copy_of
from tests.fixtures.processes import Program, await_that
from tests.log import stock
from tests.log.stock import StockTools, keywords

APPLIED = "create table applied (id bigint, type text, data text, job text)"


@pytest.fixture
def log_script() -> str:
    return f"select pgq.create_queue('q'); {APPLIED}"


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[StockTools]:
    tools = StockTools(tmp_path)
    yield tools
    tools.end()


@pytest.fixture
def source(pgq: psycopg.Connection) -> psycopg.Connection:
    """Give a connection to a database with a queue "q" and a table for what was applied."""
    return pgq


@pytest.fixture
def target_database(postgres_server: str, templates: Templates) -> Iterator[str]:
    """Give the DSN of a second database with our schema."""
    with copy_of(postgres_server, templates.after(postgres_server, APPLIED)) as dsn:
        yield dsn


@pytest.fixture
def target(target_database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(target_database, autocommit=True) as connection:
        yield connection


def fill(source: psycopg.Connection, *datas: str, queue: str = "q") -> None:
    """Insert events and make one tick behind them."""
    for data in datas:
        source.execute("select pgq.insert_event(%s, 't', %s)", [queue, data])
    source.execute("select pgq.force_tick(%s)", [queue])
    source.execute("select pgq.ticker(%s)", [queue])


def applied(connection: psycopg.Connection) -> list[str]:
    return [data for (data,) in connection.execute("select data from applied order by id, data")]


def await_applied(connection: psycopg.Connection, expected: list[str], *programs: Program) -> None:
    """Wait until these events were applied, and no other."""

    def is_so() -> bool:
        for program in programs:
            assert program.is_running, "\n".join(program.lines)
        return len(applied(connection)) >= len(expected)

    await_that(is_so, f"{len(expected)} events to be applied")
    assert sorted(applied(connection)) == sorted(expected)


def end(program: Program) -> None:
    program.terminate()
    program.wait()


def consumer_options(dsn: str, name: str = "reader", **more: object) -> dict[str, object]:
    """Return the options every consumer of the queue "q" has, with no pauses a test would have to wait for."""
    common: dict[str, object] = {"job_name": name, "db": keywords(dsn), "queue_name": "q", "loop_delay": 0.02}
    return common | {"exception_sleep": 0.02, "use_skylog": 0} | more


def positions(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    return connection.execute(
        "select consumer_name, last_tick, current_batch from pgq.get_consumer_info('q')"
    ).fetchall()


# ------------------------------------------------------------------------------------------- python3-pgq, producing


def test_insert_event_and_bulk_insert_events_of_python_pgq_produce(
    source: psycopg.Connection, log_database: str, tools: StockTools
) -> None:
    source.execute("select pgq.register_consumer('q', 'c')")
    assert tools.done(stock.PRODUCER, keywords(log_database)) == ["inserted 1"]
    fill(source)
    read = "select ev_type, ev_data, ev_extra1, ev_extra4 from pgq.next_batch('q', 'c') as b, pgq.get_batch_events(b)"
    events = source.execute(read.encode()).fetchall()
    assert events[0] == ("single", "one", "x1", "x4")
    assert events[1:] == [("bulk", str(n), None, None) for n in range(500)]


# ------------------------------------------------------------------------------------------- python3-pgq, consuming


@pytest.mark.parametrize("lazy_fetch", [2, 0], ids=["by_cursor", "at_once"])
def test_a_consumer_of_python_pgq_consumes_and_retries(
    source: psycopg.Connection, log_database: str, tools: StockTools, lazy_fetch: int
) -> None:
    options = tools.ini("service", **consumer_options(log_database, pgq_lazy_fetch=lazy_fetch))
    tools.done(stock.CONSUMER, options, "--register")
    fill(source, "1", "2", "again", "3")
    consumer = tools.python(stock.CONSUMER, options)
    await_applied(source, ["1", "2", "again", "3"], consumer)
    await_that(
        lambda: source.execute("select pgq.maint_retry_events()").fetchone() == (1,), "the retry to be there"
    )
    fill(source, "4")
    await_applied(source, ["1", "2", "again", "3", "again", "4"], consumer)
    end(consumer)
    tools.done(stock.CONSUMER, options, "--unregister")
    assert positions(source) == []


def test_a_consumer_of_python_pgq_may_wait_for_larger_batches_and_for_some_tables_only(
    source: psycopg.Connection, log_database: str, tools: StockTools
) -> None:
    more: dict[str, object] = {
        "pgq_batch_collect_events": 3,
        "table_filter": "orders",
        "pgq_batch_collect_interval": "1 day",
    }
    options = tools.ini("service", **consumer_options(log_database), **more)
    tools.done(stock.CONSUMER, options, "--register")
    for number, table in enumerate(["public.orders", "public.parts", "public.orders"]):
        source.execute("select pgq.insert_event('q', 't', %s, %s, null, null, null)", [str(number), table])
    fill(source)
    consumer = tools.python(stock.CONSUMER, options)
    await_applied(source, ["0", "2"], consumer)
    end(consumer)


def test_cooperative_consumers_of_python_pgq_share_the_batches(
    source: psycopg.Connection, log_database: str, tools: StockTools
) -> None:
    members = [
        tools.ini(
            "service", **consumer_options(log_database, name, consumer_name="group", subconsumer_name=name)
        )
        for name in ("one", "two")
    ]
    for member in members:
        tools.done(stock.COOP_CONSUMER, member, "--register")
    expected = [str(n) for n in range(40)]
    for data in expected:
        fill(source, data)
    consumers = [tools.python(stock.COOP_CONSUMER, member) for member in members]
    await_applied(source, expected, *consumers)
    for consumer in consumers:
        end(consumer)
    assert [name for name, _last, batch in positions(source) if batch is None] == [
        "group",
        "group.one",
        "group.two",
    ]


def test_a_cooperative_consumer_of_python_pgq_takes_over_from_a_dead_one(
    source: psycopg.Connection, log_database: str, tools: StockTools
) -> None:
    source.execute("select pgq_coop.register_subconsumer('q', 'group', 'dead')")
    fill(source, "1")
    held = source.execute("select pgq_coop.next_batch('q', 'group', 'dead')").fetchone()
    fill(source, "2")
    source.execute(
        "update pgq.subscription set sub_active = now() - interval '2 hours' where sub_batch is not null"
    )
    options = consumer_options(log_database, "alive", consumer_name="group", subconsumer_name="alive")
    consumer = tools.python(
        stock.COOP_CONSUMER, tools.ini("service", **options, subconsumer_timeout="1 hour")
    )
    await_applied(source, ["1", "2"], consumer)
    end(consumer)
    assert held is not None
    assert source.execute("select pgq_coop.finish_batch(%s)", held).fetchone() == (0,)
    assert ("group.dead",) not in source.execute("select co_name from pgq.consumer").fetchall()


@pytest.mark.parametrize("program", [stock.REMOTE_CONSUMER, stock.SERIAL_CONSUMER], ids=["remote", "serial"])
def test_consumers_that_apply_elsewhere_apply_once_though_they_fail_between_the_commits(
    source: psycopg.Connection,
    target: psycopg.Connection,
    log_database: str,
    target_database: str,
    tools: StockTools,
    program: str,
) -> None:
    options = consumer_options(log_database, there=keywords(target_database), fail_once=1)
    ini = tools.ini("service", **options)
    tools.done(program, ini, "--register")
    fill(source, "1")
    fill(source, "2")
    consumer = tools.python(program, ini)
    await_applied(target, ["1", "2"], consumer)
    await_that(lambda: positions(source) == [("reader", 3, None)], "both batches to be finished")
    end(consumer)
    assert applied(target) == ["1", "2"]
    assert any("after the commit there" in line for line in consumer.lines)


def test_a_serial_consumer_rewinds_to_where_the_other_database_is(
    source: psycopg.Connection,
    target: psycopg.Connection,
    log_database: str,
    target_database: str,
    tools: StockTools,
) -> None:
    ini = tools.ini("service", **consumer_options(log_database, there=keywords(target_database)))
    tools.done(stock.SERIAL_CONSUMER, ini, "--register")
    fill(source, "1")
    fill(source, "2")
    source.execute("select pgq.register_consumer_at('q', 'reader', 3)")
    target.execute("select pgq_ext.set_last_tick('reader', 2)")
    tools.done(stock.SERIAL_CONSUMER, ini, "--rewind")
    assert positions(source) == [("reader", 2, None)]
    tools.done(stock.SERIAL_CONSUMER, ini, "--reset")
    assert target.execute("select pgq_ext.get_last_tick('reader')").fetchone() == (None,)


# ------------------------------------------------------------------------------------------- python3-pgq, cascading


class Cascade:
    """A queue "cascade" with a root "here" and a branch "there", and the workers of python3-pgq for both."""

    def __init__(self, here: str, there: str, tools: StockTools) -> None:
        self.tools = tools
        common = {"use_skylog": 0, "queue_name": "cascade"}
        fast = common | {"loop_delay": 0.02, "exception_sleep": 0.02, "local_wm_publish_period": 0}
        self.root = tools.ini("cascade_admin", job_name="admin_root", db=here, **common)
        self.branch = tools.ini("cascade_admin", job_name="admin_branch", db=there, **common)
        self.administrate(self.root, "create-root", "here", here, "--worker=root_worker", "--nocheck")
        provider = f"--provider={here}"
        self.administrate(
            self.branch, "create-branch", "there", there, provider, "--worker=branch_worker", "--nocheck"
        )
        self.workers = [
            tools.python(stock.CASCADED_WORKER, tools.ini("service", job_name=name, db=db, **fast))
            for name, db in (("root_worker", here), ("branch_worker", there))
        ]

    def administrate(self, *arguments: str | Path) -> list[str]:
        return self.tools.done(stock.CASCADE_ADMIN, *arguments)

    def await_copied(self, source: psycopg.Connection, target: psycopg.Connection) -> None:
        """Wait until both databases have the same ticks; then they must have the same events, too."""
        queue = "select queue_id from pgq.queue where queue_name = 'cascade'"
        ticks = f"select tick_id from pgq.tick where tick_queue = ({queue}) order by tick_id".encode()
        events = b"select ev_id, ev_time, ev_data from pgq.event_template where ev_type = 't' order by ev_id"

        def is_copied() -> bool:
            for worker in self.workers:
                assert worker.is_running, "\n".join(worker.lines)
            return target.execute(ticks).fetchall() == source.execute(ticks).fetchall()

        await_that(is_copied, "the ticks to be copied")
        assert target.execute(events).fetchall() == source.execute(events).fetchall()

    def end(self) -> None:
        for worker in self.workers:
            end(worker)


@pytest.fixture
def cascade(log_database: str, target_database: str, tools: StockTools) -> Iterator[Cascade]:
    cascade = Cascade(keywords(log_database), keywords(target_database), tools)
    yield cascade
    cascade.end()


def test_a_cascaded_worker_of_python_pgq_copies_events_and_ticks_to_a_branch(
    source: psycopg.Connection, target: psycopg.Connection, cascade: Cascade
) -> None:
    fill(source, "1", "2", queue="cascade")
    fill(source, "3", queue="cascade")
    cascade.await_copied(source, target)
    watermark = b"select node_watermark > 1 from pgq_node.get_subscriber_info('cascade')"
    await_that(lambda: source.execute(watermark).fetchone() == (True,), "the branch to report its watermark")
    assert any("there (branch" in line for line in cascade.administrate(cascade.root, "status"))


def test_the_admin_of_python_pgq_makes_the_branch_the_root_and_the_root_a_branch(
    source: psycopg.Connection, target: psycopg.Connection, cascade: Cascade
) -> None:
    fill(source, "1", queue="cascade")
    cascade.await_copied(source, target)
    cascade.administrate(cascade.branch, "takeover", "here", "--node=there")
    kinds = [c.execute("select pgq_node.is_root_node('cascade')").fetchone() for c in (source, target)]
    assert kinds == [(False,), (True,)]
    fill(target, "2", queue="cascade")
    cascade.await_copied(target, source)


# ---------------------------------------------------------------------------------------------------------- pgqd


def test_pgqd_ticks_retries_and_rotates(
    source: psycopg.Connection, log_database: str, tools: StockTools
) -> None:
    for option, value in (("ticker_max_lag", "0"), ("rotation_period", "1 millisecond")):
        source.execute("select pgq.set_queue_config('q', %s, %s)", [option, value])
    source.execute("select pgq.register_consumer('q', 'c')")
    source.execute("select pgq.insert_event('q', 't', 'first')")
    source.execute("select pgq.insert_event('q', 't', 'second')")
    daemon = tools.pgqd(log_database)
    batch, events = await_events(source, daemon)
    assert [data for _id, data in events] == ["first", "second"]
    source.execute("select pgq.event_retry(%s, %s, 0)", [batch, events[0][0]])
    source.execute("select pgq.finish_batch(%s)", [batch])
    batch, events = await_events(source, daemon)
    assert [data for _id, data in events] == ["first"]
    source.execute("select pgq.finish_batch(%s)", [batch])
    tables = {table for (table,) in source.execute("select queue_cur_table from pgq.queue")}

    def has_used_all_tables() -> bool:
        assert daemon.is_running, "\n".join(daemon.lines)
        source.execute(
            "select pgq.insert_event('q', 't', 'more')"
        )  # so that ticks, and the consumer, move on
        source.execute("select pgq.finish_batch(b) from pgq.next_batch('q', 'c') as b where b is not null")
        tables.update(table for (table,) in source.execute("select queue_cur_table from pgq.queue"))
        return tables == {0, 1, 2}

    await_that(has_used_all_tables, "three rotations")
    end(daemon)
    assert not any("ERROR" in line for line in daemon.lines)


def await_events(source: psycopg.Connection, daemon: Program) -> tuple[int, list[tuple[int, str]]]:
    """Wait for a batch of the consumer "c" that is not empty; finish those that are."""
    found: list[tuple[int, list[tuple[int, str]]]] = []

    def has_come() -> bool:
        assert daemon.is_running, "\n".join(daemon.lines)
        row = source.execute("select pgq.next_batch('q', 'c')").fetchone()
        assert row is not None
        if row[0] is None:
            return False
        events = source.execute("select ev_id, ev_data from pgq.get_batch_events(%s)", row).fetchall()
        if not events:
            source.execute("select pgq.finish_batch(%s)", row)
            return False
        found.append((row[0], events))
        return True

    await_that(has_come, "pgqd to tick")
    return found[0]


def test_pgqd_publishes_the_watermark_of_a_root(
    source: psycopg.Connection, log_database: str, tools: StockTools
) -> None:
    source.execute("select * from pgq_node.register_location('q', 'here', 'dbname=here', false)")
    source.execute("select * from pgq_node.create_node('q', 'root', 'here', 'worker', null, null, null)")
    source.execute("update pgq.tick set tick_time = now() - interval '1 hour'")
    daemon = tools.pgqd(log_database)
    published = b"select count(*) > 0 from pgq.event_template where ev_type = 'pgq.global-watermark'"
    await_that(lambda: source.execute(published).fetchone() == (True,), "the watermark")
    end(daemon)
