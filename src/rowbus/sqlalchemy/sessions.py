"""A session of SQLAlchemy's for one handler's call.

Its class is that of your session maker, with the verbs refused that would end the transaction. When the handler
returns, the session is flushed; when it raises, the attempt is undone with everything else. Either way the session is
closed, and the next attempt begins with an empty identity map.

Invariant: a handler that goes on after a failed flush fails: its session believes that all its work was undone.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, overload

from sqlalchemy import orm
from sqlalchemy.ext import asyncio

from rowbus import ConfigurationError, HandlerError, SyncContext
from rowbus.sqlalchemy.engines import async_engine_of, engine_of, forbidden, guard_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from rowbus import Context
    from rowbus.sqlalchemy.engines import Guard

S = TypeVar("S", bound=orm.Session)
A = TypeVar("A", bound=asyncio.AsyncSession)

_IMPOSSIBLE = ("binds", "twophase", "autobegin")  # would put the work elsewhere, or begin what has begun


@overload
def session(context: SyncContext) -> AbstractContextManager[orm.Session]: ...
@overload
def session(context: SyncContext, maker: orm.sessionmaker[S]) -> AbstractContextManager[S]: ...


def session(context: SyncContext, maker: Any = None) -> AbstractContextManager[Any]:
    """Give a `def` handler a session on the receive transaction: `with rowbus.sqlalchemy.session(context) as session:`.

    `maker` gives its class and options. It is flushed when the block ends well and closed in any case; its work
    commits with the message. Its `commit`, `rollback`, `close` and `begin` raise HandlerError; `begin_nested` makes a
    savepoint. Leaving the block raises what the flush raises, and HandlerError where an earlier flush failed and the
    handler went on. Raises ConfigurationError in mode NONE, which has no transaction.
    """
    return _session(context, maker or orm.sessionmaker())


@overload
def async_session(context: Context) -> AbstractAsyncContextManager[asyncio.AsyncSession]: ...
@overload
def async_session(
    context: Context, maker: asyncio.async_sessionmaker[A]
) -> AbstractAsyncContextManager[A]: ...


def async_session(context: Context, maker: Any = None) -> AbstractAsyncContextManager[Any]:
    """Give an `async def` handler a session on the receive transaction; see `session`.

    `expire_on_commit` makes no difference: the commit comes after the handler.
    """
    return _async_session(context, maker or asyncio.async_sessionmaker())


@contextmanager
def _session(context: SyncContext, maker: orm.sessionmaker[S]) -> Generator[S]:
    _require_kind(context, in_thread=True)
    _require_transaction(context.connection)
    engine = engine_of(context.connection)
    guard = guard_of(engine)
    kind: Any = maker.class_
    with engine.connect() as connection:
        given = _held(kind)(**_options(maker.kw), bind=connection)
        guard.enter()
        try:
            yield cast("S", given)
            given.finish(guard)
        finally:
            guard.leave()
            given.let_go()


@asynccontextmanager
async def _async_session(context: Context, maker: asyncio.async_sessionmaker[A]) -> AsyncGenerator[A]:
    _require_kind(context, in_thread=False)
    _require_transaction(context.connection)
    engine = async_engine_of(context.connection)
    guard = guard_of(engine)
    options = _options(maker.kw)
    within = _held(options.pop("sync_session_class", maker.class_.sync_session_class))
    async with engine.connect() as connection:
        given = maker.class_(**options, bind=connection, sync_session_class=within)
        held = cast("_HandlerSession", given.sync_session)
        guard.enter()
        try:
            yield given
            await given.run_sync(lambda _session: held.finish(guard))
        finally:
            guard.leave()
            held.let_go()


class _HandlerSession(orm.Session):
    """A session less the verbs that would end the transaction."""

    def begin(self, nested: bool = False) -> orm.SessionTransaction:  # noqa: FBT001, FBT002 - SQLAlchemy's signature
        """Begin a nested transaction; refuse another: the transaction was begun by the receiver."""
        if not nested:
            raise HandlerError(
                "A handler's session is in the transaction that holds the received message: it needs no begin. "
                "`with session.begin_nested():` makes a part that can be undone alone."
            )
        return super().begin(nested=True)

    def commit(self) -> NoReturn:
        """Refuse: the receiver commits."""
        raise forbidden("commit")

    def rollback(self) -> NoReturn:
        """Refuse: raise in the handler to roll back."""
        raise forbidden("roll back")

    def close(self) -> NoReturn:
        """Refuse: the session ends with the handler."""
        raise forbidden("close")

    reset = invalidate = close

    def finish(self, guard: Guard) -> None:
        """Write what is still to be written; raises HandlerError where an earlier failure was passed over."""
        if guard.rolled_back or not self.is_active:
            raise HandlerError(
                "The handler caught an error of its session's and went on, but the session has given up all its work. "
                "Put what may fail, and its flush, inside `with session.begin_nested():`."
            )
        self.flush()

    def let_go(self) -> None:
        """Forget everything; nothing is sent to the database."""
        super().close()


@lru_cache(maxsize=64)
def _held(kind: type[orm.Session]) -> type[_HandlerSession]:
    """Return a class of sessions, held: a subclass of the one given, with its events."""
    return cast("type[_HandlerSession]", type(kind.__name__, (_HandlerSession, kind), {}))


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Return a session maker's options, less where it would connect."""
    return {name: value for name, value in given.items() if name != "bind" and name not in _IMPOSSIBLE}


def _require_kind(context: object, *, in_thread: bool) -> None:
    if isinstance(context, SyncContext) == in_thread:
        return
    if in_thread:
        raise ConfigurationError(
            "rowbus.sqlalchemy.session is for `def` handlers: in an `async def` handler use "
            "rowbus.sqlalchemy.async_session, and sqlalchemy.ext.asyncio.AsyncSession as the parameter's type."
        )
    raise ConfigurationError(
        "rowbus.sqlalchemy.async_session is for `async def` handlers: in a `def` handler use "
        "rowbus.sqlalchemy.session, and sqlalchemy.orm.Session as the parameter's type."
    )


def _require_transaction(connection: Any) -> None:  # noqa: ANN401 - each backend's own
    if not connection.in_transaction:
        raise ConfigurationError(
            "In the transaction mode NONE there is no receive transaction that a session could be on: make one of an "
            "engine of your own, or choose another mode."
        )
