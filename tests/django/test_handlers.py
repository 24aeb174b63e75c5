"""Django's ORM in handlers: on the receive transaction, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import IntegrityError, connection, connections, models, transaction
from django.test.utils import override_settings, setup_test_environment, teardown_test_environment

import rowbus
import rowbus.django
from rowbus.testing import run_handlers, running

pytestmark = pytest.mark.one_version

Act = Callable[[], object]


@rowbus.command("Django.PlaceOrder")
@dataclass
class PlaceOrder:
    number: int


class Order(models.Model):
    number: models.IntegerField[int, int] = models.IntegerField(primary_key=True)
    lines: models.JSONField[Any, Any] = models.JSONField(default=dict)
    placed: models.DateTimeField[Any, Any] = models.DateTimeField(auto_now_add=True)
    objects: ClassVar[models.Manager[Order]]

    class Meta:  # noqa: D106 - Django's
        app_label = "shop"
        db_table = "orders"

    def __str__(self) -> str:
        return f"order {self.pk}"


@pytest.fixture(autouse=True)
def table(project: None) -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    connection.close()


def handling(act: Act, **options: Any) -> rowbus.django.Endpoint:  # noqa: ANN401 - the endpoint's
    """Make an endpoint whose handler does this."""
    given: dict[str, Any] = {"recoverability": rowbus.Recoverability(immediate=0, delayed=0), **options}
    sales = rowbus.django.Endpoint("Sales", **given)

    @sales.handler
    def place(message: PlaceOrder) -> None:
        act()

    return sales


async def process(sales: rowbus.Endpoint, database: str, count: int = 1) -> list[str]:
    """Have messages processed; return what their failures in the error queue say."""
    async with running(sales, database=database) as bus:
        for number in range(count):
            await bus.send("Sales", PlaceOrder(number))
        await bus.drain()
    found = rows(database, "select headers::json ->> 'NServiceBus.ExceptionInfo.Message' from error")
    return [str(row[0]) for row in found]


def rows(database: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database) as asking:
        return asking.execute(query.encode()).fetchall()


def orders(database: str) -> list[int]:
    return [row[0] for row in rows(database, "select number from orders order by number")]


# ------------------------------------------------------------------------------------------------------- what works


async def test_what_the_orm_writes_commits_with_the_message(database: str) -> None:
    numbers = iter(range(100))
    sales = handling(lambda: Order.objects.create(number=next(numbers)))

    assert await process(sales, database, 5) == []

    assert orders(database) == [0, 1, 2, 3, 4]


async def test_a_handler_that_fails_leaves_nothing_behind(database: str) -> None:
    def act() -> None:
        Order.objects.create(number=1)
        raise ValueError("no")

    assert await process(handling(act), database) == ["ValueError: no"]

    assert orders(database) == []


async def test_nothing_is_to_be_seen_before_the_commit(database: str) -> None:
    seen = list[list[int]]()

    def act() -> None:
        with transaction.atomic():
            Order.objects.create(number=1)
        seen.append(orders(database))

    assert await process(handling(act), database) == []

    assert (seen, orders(database)) == ([[]], [1])


async def test_values_are_read_and_written_as_django_does(database: str) -> None:
    seen = list[Any]()

    def act() -> None:
        Order.objects.create(number=1, lines={"apple": [1, 2]})
        found = next(Order.objects.filter(lines__apple__0=1).iterator())
        seen.extend((found.lines, found.placed.tzinfo is not None, Order.objects.count()))

    assert await process(handling(act), database) == []

    assert seen == [{"apple": [1, 2]}, True, 1]


@pytest.mark.parametrize("aware", [True, False])
async def test_times_are_those_of_djangos_time_zone(
    database: str, monkeypatch: pytest.MonkeyPatch, *, aware: bool
) -> None:
    """Of the alias's where Django is aware of zones, else of the settings'; after what a savepoint undid, too."""
    monkeypatch.setitem(connections.settings["default"], "TIME_ZONE", "Asia/Kolkata" if aware else None)
    seen = list[Any]()
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC if aware else None)

    def act() -> None:
        with suppress(ValueError), transaction.atomic():
            Order.objects.count()
            raise ValueError
        Order.objects.create(number=1)
        Order.objects.update(placed=noon)
        seen.append(Order.objects.get().placed)

    with override_settings(USE_TZ=aware, TIME_ZONE="Asia/Kolkata"):
        assert await process(handling(act), database) == []

    written = rows(database, "select placed at time zone 'UTC' from orders")
    assert (seen, written) == ([noon], [(datetime(2026, 7, 1, 12 if aware else 6, 0 if aware else 30),)])  # noqa: DTZ001 - as the server says it


async def test_atomic_undoes_a_part_alone(database: str) -> None:
    def act() -> None:
        Order.objects.create(number=1)
        with pytest.raises(IntegrityError), transaction.atomic():
            Order.objects.bulk_create([Order(number=2), Order(number=1)])
        Order.objects.create(number=3)

    assert await process(handling(act), database) == []

    assert orders(database) == [1, 3]


async def test_the_client_sends_with_the_message(database: str) -> None:
    acts = iter([ValueError("not the first time"), None])

    def act() -> None:
        rowbus.django.client().send("error", {"sent": True}, type="Django.Sent")
        if (error := next(acts)) is not None:
            raise error

    sales = handling(act, recoverability=rowbus.Recoverability(immediate=1, delayed=0))

    await process(sales, database)

    assert rows(database, "select convert_from(body, 'UTF8') from error") == [('{"sent":true}',)]


# --------------------------------------------------------------------------------------------------- after the commit


async def test_on_commit_is_called_after_the_commit(database: str) -> None:
    seen = list[list[int]]()

    def act() -> None:
        Order.objects.create(number=1)
        transaction.on_commit(lambda: seen.append(orders(database)))
        transaction.on_commit(lambda: seen.append([one.number for one in Order.objects.all()]))

    assert await process(handling(act), database) == []

    assert seen == [[1], [1]]


async def test_on_commit_is_not_called_for_what_is_undone(database: str) -> None:
    called, attempts = list[str](), iter([ValueError("first"), None])

    def act() -> None:
        error = next(attempts)
        transaction.on_commit(lambda: called.append("failed" if error else "succeeded"))
        with pytest.raises(LookupError), transaction.atomic():  # noqa: PT012 - what is undone is the point
            transaction.on_commit(lambda: called.append("undone"))
            raise LookupError
        if error:
            raise error

    sales = handling(act, recoverability=rowbus.Recoverability(immediate=1, delayed=0))

    assert await process(sales, database) == []

    assert called == ["succeeded"]


async def test_on_commit_is_not_called_when_the_commit_fails(database: str) -> None:
    called = list[str]()

    def act() -> None:
        transaction.on_commit(lambda: called.append("committed"))
        with connection.cursor() as cursor:
            cursor.execute("create temporary table late (id int primary key deferrable initially deferred)")
            cursor.execute("insert into late values (1), (1)")

    (failure,) = await process(handling(act), database)

    assert "late_pkey" in failure
    assert called == []


async def test_a_call_after_the_commit_that_fails_is_logged_and_the_next_is_made(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    called = list[str]()

    def act() -> None:
        transaction.on_commit(lambda: int("no number"))
        transaction.on_commit(lambda: called.append("second"))

    assert await process(handling(act), database) == []

    assert called == ["second"]
    assert "A call after the commit of message" in caplog.text


async def test_an_async_function_on_commit_is_refused(database: str) -> None:
    async def notify() -> None: ...

    (failure,) = await process(handling(lambda: transaction.on_commit(notify)), database)

    assert (
        "What on_commit is to call is test_an_async_function_on_commit_is_refused.<locals>.notify()"
        in failure
    )


# ---------------------------------------------------------------------------------------------------- what is refused


REFUSED: dict[str, Act] = {
    "commit": transaction.commit,
    "roll back": transaction.rollback,
    "close": connections.close_all,
    "change the autocommit of": lambda: transaction.set_autocommit(True),
}


@pytest.mark.parametrize("verb", REFUSED)
async def test_what_would_end_the_transaction_is_refused(database: str, verb: str) -> None:
    def act() -> None:
        Order.objects.create(number=1)
        REFUSED[verb]()

    (failure,) = await process(handling(act), database)

    assert failure == (
        f"A handler may not {verb} Django's connection: the transaction also holds the received message. Return to "
        "commit, raise to roll back; `with transaction.atomic():` makes a part that can be undone alone, and "
        "`transaction.on_commit` is called after the commit."
    )

    assert orders(database) == []


async def test_a_durable_block_is_refused(database: str) -> None:
    def act() -> None:
        with transaction.atomic(durable=True):
            Order.objects.create(number=1)

    (failure,) = await process(handling(act), database)

    assert "durable" in failure


async def test_a_handler_that_goes_on_after_a_mark_for_rollback_fails(database: str) -> None:
    def act() -> None:
        Order.objects.create(number=1)
        transaction.set_rollback(True)

    (failure,) = await process(handling(act), database)

    assert failure.startswith("Django has marked the transaction for rollback")
    assert orders(database) == []


async def test_a_query_set_evaluated_after_the_handler_opens_no_connection(database: str) -> None:
    escaped = list[Any]()
    sales = handling(lambda: escaped.append(connections["default"]))

    assert await process(sales, database) == []

    with pytest.raises(Exception, match="atomic block"):
        await sync_to_async(escaped[0].ensure_connection)()


def test_an_async_handler_is_refused() -> None:
    sales = rowbus.django.Endpoint("Sales")

    with pytest.raises(
        rowbus.ConfigurationError, match="is an `async def`, and Django's ORM would work on another"
    ):

        @sales.handler
        async def place(message: PlaceOrder) -> None: ...


async def test_without_a_transaction_there_is_no_orm(database: str) -> None:
    settings = rowbus.EndpointSettings(transaction_mode=rowbus.TransactionMode.NONE)
    sales = handling(lambda: Order.objects.create(number=1), settings=settings)

    (failure,) = await process(sales, database)

    assert failure.startswith("In the transaction mode NONE")


# ---------------------------------------------------------------------------------------------- connections and clients


async def test_connections_to_other_databases_are_closed_when_they_are_old(database: str) -> None:
    others = list[Any]()
    connections.settings["other"] = {**connections.settings["default"], "CONN_MAX_AGE": 0}

    def act() -> None:
        with connections["other"].cursor() as cursor:
            cursor.execute("select 1")
        others.append(connections["other"])

    try:
        assert await process(handling(act), database) == []
    finally:
        del connections.settings["other"]

    assert [one.connection for one in others] == [None]


def test_the_client_sends_in_djangos_transaction(database: str) -> None:
    with connection.cursor() as cursor:
        for statement in rowbus.queue_sql("Sales"):
            cursor.execute(statement)
    with pytest.raises(LookupError), transaction.atomic():  # noqa: PT012 - what is undone is the point
        rowbus.django.client().send("Sales", PlaceOrder(1))
        raise LookupError
    with transaction.atomic():
        rowbus.django.client().send("Sales", PlaceOrder(2))
        assert rows(database, 'select body from "Sales"') == []
        kept = rowbus.django.client()

    with pytest.raises(rowbus.ConfigurationError, match="there is none: use it inside"):
        kept.send("Sales", PlaceOrder(3))
    connection.close()
    with transaction.atomic(), ThreadPoolExecutor() as another:
        kept.send("Sales", PlaceOrder(4))
        with pytest.raises(rowbus.ConfigurationError, match="there is none: use it inside"):
            another.submit(kept.send, "Sales", PlaceOrder(5)).result()
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            kept.send("Sales", PlaceOrder(6))

    assert rows(database, "select convert_from(body, 'UTF8') from \"Sales\"") == [('{"number":2}',)]


def test_django_knows_of_a_transaction_that_a_send_has_aborted(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as creating:
        creating.execute(rowbus.queue_sql("Sales")[0])
    called, client = list[str](), rowbus.django.client
    with transaction.atomic():
        Order.objects.create(number=1)
        transaction.on_commit(lambda: called.append("after a send that a savepoint undid"))
        with pytest.raises(rowbus.QueueNotFoundError):
            client().send_many("Elsewhere", [PlaceOrder(1)])
        with pytest.raises(rowbus.QueueNotFoundError), transaction.atomic():
            client().send("Elsewhere", PlaceOrder(1))
        client().send("Sales", PlaceOrder(1))
    with transaction.atomic():
        Order.objects.create(number=2)
        transaction.on_commit(lambda: called.append("after nothing was committed"))
        with pytest.raises(rowbus.QueueNotFoundError):
            client().send("Elsewhere", PlaceOrder(1))
        with pytest.raises(transaction.TransactionManagementError):
            Order.objects.count()

    assert (called, orders(database)) == (["after a send that a savepoint undid"], [1])


def test_the_client_is_refused_outside_of_a_transaction() -> None:
    with pytest.raises(rowbus.ConfigurationError, match=r"with transaction\.atomic\(\):"):
        rowbus.django.client()


async def test_run_handlers_gives_the_orm_the_tests_connection(database: str) -> None:
    sales = handling(lambda: Order.objects.create(number=1))

    with psycopg.connect(database) as given:
        outcome = await run_handlers(sales, PlaceOrder(1), connection=given)
        assert outcome.error is None
        assert given.execute("select number from orders").fetchall() == [(1,)]
        given.rollback()

    assert orders(database) == []


async def test_without_a_database_of_its_own_the_endpoint_is_in_that_of_django(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWBUS_DATABASE", "host=nowhere.invalid")
    sales = handling(lambda: None)

    await sales.install()

    assert rows(database, 'select count(*) from "Sales"') == [(0,)]


def test_running_works_on_the_database_of_djangos_test_runner() -> None:
    seen: list[int] = []
    sales = handling(lambda: seen.append(Order.objects.count()))
    with pytest.raises(rowbus.ConfigurationError, match="Name the database of the test"), running(sales):
        raise AssertionError
    setup_test_environment()
    real = connection.settings_dict["NAME"]
    made = connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        with connection.schema_editor() as editor:
            editor.create_model(Order)
        Order.objects.create(number=1)
        with running(sales) as bus:
            bus.send("Sales", PlaceOrder(1))
            bus.drain()
    finally:
        connection.creation.destroy_test_db(real, verbosity=0)
        teardown_test_environment()
    assert made == f"test_{real}"
    assert seen == [1]
