"""Sessions of the ORM on the receive transaction, in `def` and `async def` handlers, on every database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, exc, orm, text
from sqlalchemy.ext import asyncio as async_alchemy

import rowbus
import rowbus.sqlalchemy
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.transport import NONE, eventually, in_transaction_modes_failing
from tests.sqlalchemy.shop import Shop, open_shop

Act = Callable[[orm.Session], object]

in_both_kinds = pytest.mark.parametrize("kind", ["def", "async def"])
ONE_RETRY = rowbus.Recoverability(immediate=1, delayed=0)


@pytest.fixture
async def shop(endpoints: Endpoints) -> Shop:
    return await open_shop(endpoints.backend)


def handling(endpoints: Endpoints, kind: str, act: Act, **options: Any) -> rowbus.Endpoint:  # noqa: ANN401 - of `make`
    """Make an endpoint whose handler does this with its session."""
    sales = endpoints.make("Sales", **{"recoverability": NO_RETRIES, **options})

    @sales.handler
    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        with rowbus.sqlalchemy.session(context) as session:
            act(session)

    if kind == "def":
        return sales
    sales = endpoints.make("Sales", **{"recoverability": NO_RETRIES, **options})

    @sales.handler
    async def place_async(message: PlaceOrder, context: rowbus.Context) -> None:
        async with rowbus.sqlalchemy.async_session(context) as session:
            await session.run_sync(act)

    return sales


async def process(endpoints: Endpoints, sales: rowbus.Endpoint, count: int = 1) -> list[str]:
    """Have messages processed; return what their failures in the error queue say."""
    async with sales:
        for number in range(count):
            await sales.send("Sales", PlaceOrder(str(number)))

        async def done() -> bool:
            return await endpoints.backend.count("Sales") == 0

        await eventually(done)
    failed = await endpoints.backend.rows(ERROR)
    return [row.headers["NServiceBus.ExceptionInfo.Message"] or "" for row in failed]


# ------------------------------------------------------------------------------------------------------- what works


@in_both_kinds
async def test_what_the_session_adds_commits_with_the_message(
    endpoints: Endpoints, shop: Shop, kind: str
) -> None:
    sales = handling(endpoints, kind, lambda session: session.add(shop.order(id="42")))

    assert await process(endpoints, sales) == []

    assert await shop.orders() == ["42"]


@in_both_kinds
async def test_one_connection_serves_message_after_message(
    endpoints: Endpoints, shop: Shop, kind: str
) -> None:
    numbers = iter(range(100))
    sales = handling(
        endpoints, kind, lambda session: session.add(shop.order(id=f"{next(numbers):02}")), concurrency=1
    )

    assert await process(endpoints, sales, 5) == []

    assert await shop.orders() == ["00", "01", "02", "03", "04"]


@in_both_kinds
async def test_flush_refresh_query_and_delete_work(endpoints: Endpoints, shop: Shop, kind: str) -> None:
    seen = list[str]()

    def act(session: orm.Session) -> None:
        order = shop.order(id="42")
        session.add_all([order, shop.order(id="43")])
        session.flush()
        session.execute(text(f"update {shop.table} set state = 'changed' where id = '42'"))
        session.refresh(order)
        seen.append(order.state)
        session.delete(session.get(shop.order, "43"))

    assert await process(endpoints, handling(endpoints, kind, act)) == []

    assert seen == ["changed"]
    assert await shop.orders() == ["42"]


@in_both_kinds
async def test_a_savepoint_undoes_a_part_alone(endpoints: Endpoints, shop: Shop, kind: str) -> None:
    def act(session: orm.Session) -> None:
        session.add(shop.order(id="42"))
        session.flush()
        with pytest.raises(exc.IntegrityError), session.begin_nested():
            session.execute(shop.order.__table__.insert().values(id="42", state="twice"))
        session.add(shop.order(id="43"))

    assert await process(endpoints, handling(endpoints, kind, act)) == []

    assert await shop.orders() == ["42", "43"]


@in_both_kinds
async def test_each_attempt_has_an_empty_identity_map(endpoints: Endpoints, shop: Shop, kind: str) -> None:
    known = list[int]()

    def act(session: orm.Session) -> None:
        known.append(len(session.identity_map))
        session.add(shop.order(id="42"))
        session.flush()
        if len(known) == 1:
            raise ValueError("not the first time")

    sales = handling(endpoints, kind, act, recoverability=ONE_RETRY)

    assert await process(endpoints, sales) == []

    assert known == [0, 0]
    assert await shop.orders() == ["42"]


@in_both_kinds
async def test_a_session_maker_of_yours_gives_class_options_and_events(
    endpoints: Endpoints, shop: Shop, kind: str
) -> None:
    class Named(orm.Session):
        name = "mine"

    flushed = list[tuple[str, Any]]()
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    def note(session: Any, _context: object) -> None:  # noqa: ANN401 - of the class above
        flushed.append((session.name, session.info["shop"]))

    if kind == "def":
        maker = orm.sessionmaker(class_=Named, info={"shop": "A"}, autoflush=False)
        event.listen(maker, "after_flush", note)

        @sales.handler
        def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
            with rowbus.sqlalchemy.session(context, maker) as session:
                session.add(shop.order(id=session.name))
    else:
        event.listen(Named, "after_flush", note)
        async_maker = async_alchemy.async_sessionmaker(sync_session_class=Named, info={"shop": "A"})

        @sales.handler
        async def place_async(message: PlaceOrder, context: rowbus.Context) -> None:
            async with rowbus.sqlalchemy.async_session(context, async_maker) as session:
                session.add(shop.order(id="mine"))

    assert await process(endpoints, sales) == []

    assert flushed == [("mine", "A")]
    assert await shop.orders() == ["mine"]


# ----------------------------------------------------------------------------------------------- what leaves nothing


@in_both_kinds
@in_transaction_modes_failing
async def test_a_failed_attempt_leaves_nothing_behind(endpoints: Endpoints, shop: Shop, kind: str) -> None:
    def act(session: orm.Session) -> None:
        session.add(shop.order(id="42"))
        session.flush()
        raise ValueError("out of stock")

    assert await process(endpoints, handling(endpoints, kind, act)) == ["out of stock"]

    assert await shop.orders() == []


@in_both_kinds
async def test_the_last_flush_belongs_to_the_attempt(endpoints: Endpoints, shop: Shop, kind: str) -> None:
    def act(session: orm.Session) -> None:
        session.add(shop.order(id="42"))
        session.flush()
        session.expunge_all()
        session.add(shop.order(id="42"))

    (failure,) = await process(endpoints, handling(endpoints, kind, act))

    assert "IntegrityError" in failure or "duplicate" in failure.lower()
    assert await shop.orders() == []


@in_both_kinds
async def test_a_handler_that_goes_on_after_a_failed_flush_fails(
    endpoints: Endpoints, shop: Shop, kind: str
) -> None:
    """Its session believes that everything was undone, so it must be."""

    def act(session: orm.Session) -> None:
        session.add(shop.order(id="41"))
        session.flush()
        session.expunge_all()
        session.add_all([shop.order(id="41"), shop.order(id="42")])
        with pytest.raises(exc.IntegrityError):
            session.flush()

    (failure,) = await process(endpoints, handling(endpoints, kind, act))

    assert failure.startswith("The handler caught an error of its session's and went on")
    assert "with session.begin_nested():" in failure
    assert await shop.orders() == []


# --------------------------------------------------------------------------------------------------- what is refused

REFUSED: dict[str, tuple[Act, str]] = {
    "commit": (lambda session: session.commit(), "A handler may not commit its session"),
    "rollback": (lambda session: session.rollback(), "A handler may not roll back its session"),
    "close": (lambda session: session.close(), "A handler may not close its session"),
    "begin": (lambda session: session.begin(), "it needs no begin"),
    "connection": (lambda session: session.connection().commit(), "A handler may not commit its session"),
    "transaction": (
        lambda session: (session.connection(), session.get_transaction().commit()),  # type: ignore[union-attr]
        "A handler may not commit its session",
    ),
}


@in_both_kinds
@pytest.mark.parametrize("verb", REFUSED)
async def test_what_would_end_the_transaction_is_refused_with_the_way_out(
    endpoints: Endpoints, shop: Shop, kind: str, verb: str
) -> None:
    refused, said = REFUSED[verb]

    def act(session: orm.Session) -> None:
        with pytest.raises(rowbus.HandlerError, match="may not change the isolation level"):
            session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        session.add(shop.order(id="42"))
        session.flush()
        refused(session)

    (failure,) = await process(endpoints, handling(endpoints, kind, act))

    assert said in failure
    assert "`with session.begin_nested():`" in failure
    assert await shop.orders() == []


@in_both_kinds
async def test_a_connection_rolled_back_behind_the_session_fails_the_attempt(
    endpoints: Endpoints, shop: Shop, kind: str
) -> None:
    def act(session: orm.Session) -> None:
        session.add(shop.order(id="42"))
        session.flush()
        session.connection().rollback()

    (failure,) = await process(endpoints, handling(endpoints, kind, act))

    assert "went on" in failure
    assert await shop.orders() == []


async def test_the_asynchronous_verbs_are_refused_too(endpoints: Endpoints, shop: Shop) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    refused = list[str]()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        async with rowbus.sqlalchemy.async_session(context) as session:
            session.add(shop.order(id="42"))
            for verb in (session.commit, session.rollback, session.close, session.begin().start):
                with pytest.raises(rowbus.HandlerError) as caught:
                    await verb()
                refused.append(str(caught.value))

    assert await process(endpoints, sales) == []

    assert len(refused) == 4
    assert await shop.orders() == ["42"]


@in_both_kinds
@pytest.mark.parametrize("case", [NONE], ids=str)
async def test_mode_none_has_no_transaction_for_a_session(
    endpoints: Endpoints, shop: Shop, kind: str
) -> None:
    (failure,) = await process(
        endpoints, handling(endpoints, kind, lambda session: session.add(shop.order(id="42")))
    )

    assert "In the transaction mode NONE there is no receive transaction" in failure
    assert await shop.orders() == []


@in_both_kinds
async def test_a_session_is_a_parameter_of_the_handler(endpoints: Endpoints, shop: Shop, kind: str) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    sales.provide(orm.Session, factory=rowbus.sqlalchemy.session)
    sales.provide(async_alchemy.AsyncSession, factory=rowbus.sqlalchemy.async_session)

    if kind == "def":

        @sales.handler
        def place(message: PlaceOrder, session: orm.Session) -> None:
            session.add(shop.order(id=message.order_id))
    else:

        @sales.handler
        async def place_async(message: PlaceOrder, session: async_alchemy.AsyncSession) -> None:
            session.add(shop.order(id=message.order_id))

    assert await process(endpoints, sales, 2) == []

    assert await shop.orders() == ["0", "1"]


@in_both_kinds
@pytest.mark.one_version
async def test_the_other_kind_of_session_is_refused_by_its_name(
    endpoints: Endpoints, shop: Shop, kind: str
) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    if kind == "def":

        @sales.handler
        def place(message: PlaceOrder, context: Any) -> None:  # noqa: ANN401 - a mistake that is not typed
            with contextlib.closing(rowbus.sqlalchemy.async_session(context).__aenter__()) as entering:
                entering.send(None)
    else:

        @sales.handler
        async def place_async(message: PlaceOrder, context: Any) -> None:  # noqa: ANN401 - as above
            with rowbus.sqlalchemy.session(context):
                pass

    (failure,) = await process(endpoints, sales)

    assert f"for `{'async def' if kind == 'def' else 'def'}` handlers" in failure


async def test_a_cancelled_handler_leaves_the_connection_usable(endpoints: Endpoints, shop: Shop) -> None:
    attempts = list[int]()
    sales = endpoints.make("Sales", recoverability=ONE_RETRY, concurrency=1)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts.append(1)
        async with rowbus.sqlalchemy.async_session(context) as session:
            session.add(shop.order(id="42"))
            await session.flush()
            if len(attempts) == 1:
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()

    assert await process(endpoints, sales) == []

    assert await shop.orders() == ["42"]
