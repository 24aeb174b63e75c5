"""The scope of one call of a stranger's code: its context variables, the tasks it starts, and whether it is over.

Handlers, policies and callbacks may raise anything, cancel the task that calls them, set context variables and leave
tasks behind. In a scope all of that ends with the call: what is raised is returned, of whatever class.

Invariant: nothing but a stop of the caller's own service passes a call; what a call set or started is not there for the
next one.
"""

from __future__ import annotations

import asyncio
import decimal
import logging
import types
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from rowbus.errors import HandlerError
from rowbus.errors.strangers import is_a, text_of, type_name
from rowbus.running.handling import fields_in_hand
from rowbus.running.time_limit import CLOSE
from rowbus.running.turns import onto_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator


T = TypeVar("T")

logger = logging.getLogger("rowbus.endpoint")

PATIENCE: Final = 1.0
"""Seconds in which a task that was left behind, and is cancelled, has to end."""

_scope: ContextVar[Scope | None] = ContextVar("rowbus_scope", default=None)
_decimal: ContextVar[decimal.Context | None] = ContextVar("rowbus_decimal", default=None)
"""The decimal context that a program has made for itself, where it is not Python's."""
_server: ContextVar[object] = ContextVar("rowbus_server", default=None)
"""The service that has begun the tasks in which code runs."""
_wait: ContextVar[Wait | None] = ContextVar("rowbus_wait", default=None)


class Wait:
    """A service's wait for code beside its handlers: its start, its end, or calls after a commit."""

    __slots__ = ("is_over", "service")

    def __init__(self, service: object) -> None:
        """Begin."""
        self.service = service
        self.is_over = False


class Scope:
    """The scope of one call."""

    __slots__ = ("_is_closed", "_starter", "is_over", "tasks")

    def __init__(self) -> None:
        """Begin without tasks."""
        self._is_closed = self.is_over = False
        self._starter = ""
        self.tasks: WeakSet[asyncio.Task[Any]] | None = None

    def run(self, call: Callable[[], T]) -> T:
        """Make a call that waits for nothing."""
        try:
            return self._context().run(call)
        finally:
            self.is_over = True

    async def call(
        self,
        work: Coroutine[Any, Any, object],
        is_cut_off: Callable[[], bool],
        *,
        keep_tasks: bool = False,
    ) -> BaseException | None:
        """Run a coroutine to its end in the scope, and return what it raised, of whatever class.

        Tasks that it left are named in the log, cancelled, and awaited for `PATIENCE` seconds at most, or kept.
        CancelledError passes where `is_cut_off` says that the caller's service cancels its work; another cancellation
        is taken back.
        """
        try:
            task = asyncio.current_task()
        except RuntimeError:  # in a thread
            task = None
        before = 0 if task is None else task.cancelling()
        error: BaseException | None = None
        context = self._context()
        try:
            awaited = context.run(work.send, None)
        except StopIteration:  # it has ended, and costs no more than its call
            pass
        except BaseException as raised:  # noqa: BLE001 - a stranger may raise anything; it is the caller's to judge
            error = raised
        else:
            error = await self._go_on(context, work, awaited)
        finally:
            self.is_over = True
        if error is None and self.tasks is None and (task is None or task.cancelling() == before):
            return None
        await onto_loop()
        if not keep_tasks:
            await self._end_tasks()
        if is_a(error, asyncio.CancelledError) and is_cut_off():
            raise error
        if task is not None and task.cancelling() > before and not is_cut_off():
            await _take_back(task, before, is_cut_off, thrown=is_a(error, asyncio.CancelledError))
        return None if error is None else _as_failure(error)

    def _context(self) -> Context:
        """Return a copy of the caller's context variables, in which the scope is this one."""
        context = copy_context()
        context.run(_scope.set, self)
        if (own := _decimal.get()) is not None:
            context.run(decimal.setcontext, own.copy())
        return context

    async def _go_on(
        self, context: Context, work: Coroutine[Any, Any, object], awaited: object
    ) -> BaseException | None:
        try:
            await self._advance(context, work, awaited)
        except BaseException as raised:
            if self._is_closed:
                raise
            return raised
        return None

    def note(self, task: asyncio.Task[Any]) -> None:
        """Note a task that the call has started."""
        if self.tasks is None:
            self.tasks, self._starter = WeakSet(), _subject()
        self.tasks.add(task)

    @types.coroutine
    def _advance(
        self, context: Context, work: Coroutine[Any, Any, object], awaited: object
    ) -> Generator[Any, Any, None]:
        """Wait, in the caller's task, for what a coroutine waits for, and advance it to its end."""
        while True:
            try:
                resume = partial(work.send, (yield awaited))
            except GeneratorExit:  # the caller's task is given up: its loop is closed
                self._is_closed = True
                context.run(work.close)
                raise
            except BaseException as error:
                if CLOSE in error.args:
                    context.run(_close, work)
                    raise
                resume = partial(work.throw, error)
            try:
                awaited = context.run(resume)
            except StopIteration:
                return

    async def _end_tasks(self) -> None:
        left = [task for task in self.tasks or () if not task.done()]
        if not left:
            return
        for task in left:
            task.cancel()
        logger.warning(
            "%s left tasks running, which are cancelled (the setting keep_tasks would keep them): %s",
            self._starter,
            ", ".join(f"{task.get_name()} ({_name(task)})" for task in left),
        )
        ended, _others = await asyncio.wait(left, timeout=PATIENCE)
        for task in ended:
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.warning(
                    "%s, left running, failed when it was cancelled: %s", task.get_name(), text_of(error)
                )


def _close(work: Coroutine[Any, Any, object]) -> None:
    try:
        work.close()
    except RuntimeError:  # it waits once more in a `finally`, and is left there
        logger.warning("%s does not end: it waits in a `finally` though it is cancelled", _subject())


def contained(call: Callable[[], T]) -> T:
    """Make a call of a stranger's function in a scope, and return what it returns; raises what it raises.

    What is no Exception is raised as the cause of a HandlerError: it would end the loop that makes the call.
    """
    scope = Scope()
    try:
        return scope.run(call)
    except Exception:
        raise
    except BaseException as error:
        failure = _as_failure(error)
        if failure is not error:
            raise failure from error
        raise HandlerError(f"It raised {type_name(error)}, which is no Exception.") from error


def current_scope() -> Scope | None:
    """Return the scope of the call that runs, None outside of any."""
    return _scope.get()


def require(scope: Scope | None, *, in_loop: bool) -> None:
    """Raise HandlerError unless the code that runs belongs to a scope that is not over.

    Code of ours, on the loop, belongs to none.
    """
    own = _scope.get()
    if scope is None or (in_loop and own is None) or (own is scope and not scope.is_over):
        return
    raise _too_late("uses a connection that is no longer, or was never, its own")


def require_unfinished() -> None:
    """Raise HandlerError in code whose scope is over: what it would send belongs to no message."""
    own = _scope.get()
    if own is not None and own.is_over:
        raise _too_late("sends, or has something called, when it has ended")


@contextmanager
def beginning(service: object) -> Generator[None]:
    """Note whose the tasks are that are begun within."""
    token = _server.set(service)
    try:
        yield
    finally:
        _server.reset(token)


@contextmanager
def awaited_by(service: object = None) -> Generator[None]:
    """Note that a service waits for what is called within, tasks and threads included; None: the one that calls."""
    wait = Wait(service or _server.get())
    token = _wait.set(wait)
    try:
        yield
    finally:
        wait.is_over = True
        _wait.reset(token)


def refuse_own_end(service: object) -> None:
    """Raise HandlerError in what a service calls itself, and waits for when it stops: each would wait for the other."""
    own, wait = _scope.get(), _wait.get()
    is_handler = own is not None and not own.is_over and _server.get() is service
    if is_handler or (wait is not None and not wait.is_over and wait.service is service):
        raise HandlerError(
            f"{_subject()} stops its own {type(service).__name__}, which waits for it to end first: set an "
            "asyncio.Event that the code waits for which started it, or, in a process of its own, call "
            "os.kill(os.getpid(), signal.SIGTERM)."
        )


def _too_late(what: str) -> HandlerError:
    return HandlerError(
        f"{_subject()} {what}: what a handler does has to end before the handler does. Await its tasks, have an "
        "asyncio.TaskGroup do so, or use a connection and a client of its own for what goes on."
    )


def out_of_scope(call: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the call returns
    """Make a call that starts what belongs to no scope, such as a service that a handler is the first to need.

    Code changes decimal's context in place, and a copy of the context variables would have the same. So a service has
    none: each scope gets one of Python's, or a copy of the program's own. Nor does this give the caller one.
    """
    context, held = Context(), copy_context()
    own = held.copy().run(decimal.getcontext)
    for variable, value in held.items():
        if value is not own:
            context.run(variable.set, value)
    context.run(_scope.set, None)
    if _settings_of(own) != _settings_of(decimal.DefaultContext):
        context.run(_decimal.set, own.copy())
    return context.run(call)


def _settings_of(context: decimal.Context) -> tuple[object, ...]:
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps")
    return tuple(getattr(context, name) for name in names)


def note_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have a loop note which tasks are started in a scope; a task factory that it has goes on making them."""
    before = loop.get_task_factory()
    if not isinstance(before, _TaskFactory):
        factory: Any = _TaskFactory(before)
        loop.set_task_factory(factory)


class _TaskFactory:
    """Makes tasks as the factory before did, and notes those that are started in a scope."""

    def __init__(self, before: Any) -> None:  # noqa: ANN401 - typeshed's protocol differs between Python's versions
        self._before = before

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any],
        **options: Any,  # noqa: ANN401 - asyncio's own
    ) -> asyncio.Future[Any]:
        context = options.get("context")
        scope = context.get(_scope) if isinstance(context, Context) else _scope.get()
        made = work if scope is None else _contained(work)
        task: asyncio.Task[Any] = (
            asyncio.Task(made, loop=loop, **options)
            if self._before is None
            else self._before(loop, made, **options)
        )
        if scope is None:
            return task
        task.add_done_callback(lambda _task: work.close())  # one that was cancelled before it began
        scope.note(task)
        return task


def _contained(work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    """Return a coroutine that fails where this one would end the whole event loop, by the same name."""

    async def contained() -> Any:  # noqa: ANN401 - what the task returns
        try:
            return await work
        except (SystemExit, KeyboardInterrupt) as error:
            raise _as_failure(error) from error

    contained.__qualname__ = getattr(work, "__qualname__", contained.__qualname__)
    return contained()


def _as_failure(error: BaseException) -> BaseException:
    """Return an error that says so where code tried to end its process."""
    if not is_a(error, (SystemExit, KeyboardInterrupt)):
        return error
    what = f"sys.exit({error.code!r})" if is_a(error, SystemExit) else "KeyboardInterrupt"
    failure = HandlerError(f"It tried to end its process, by {what}; that counts as its failure.")
    failure.__cause__ = error
    return failure


async def _take_back(
    task: asyncio.Task[Any], before: int, is_cut_off: Callable[[], bool], *, thrown: bool
) -> None:
    """Take cancellations back that a call has caused; one that was not yet thrown is thrown here, and forgotten."""
    if not thrown:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        if is_cut_off():
            raise asyncio.CancelledError
    while task.cancelling() > before:
        task.uncancel()


def _subject() -> str:
    """Return the handler, and the message or the batch of events, that the code which runs is about."""
    fields = fields_in_hand()
    if "message_id" in fields:
        return f"Handler {fields.get('handler') or '?'} of message {fields['message_id']}"
    if "consumer" in fields:
        return f"The handler of {fields['consumer']} of log {fields['log']}, with batch {fields['batch_id']},"
    return "A handler"


def _name(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", "?")
