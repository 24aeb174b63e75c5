"""The code that runs: which message or events it is about, whether a handler runs, and what that has to await.

What a handler must not do asks here whether one does. Lines of a log ask here what they are about. Calls that a handler
has to await and forgot are found when it returns.

Invariants: tasks and threads that a handler starts count as the handler, as they see its context; noting a call costs
one entry in a list, and which line made it is found out only for one that was forgotten.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextvars import ContextVar, Token
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeVar, cast

from rowbus.errors import HandlerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from types import CodeType


F = TypeVar("F", bound="Callable[..., Coroutine[Any, Any, Any]]")
T = TypeVar("T")

CODE_UNIT = 2  # bytes of an instruction, of which `co_positions` has an entry each

_message: ContextVar[Subject | None] = ContextVar("rowbus_message_in_hand", default=None)
_subject: ContextVar[Subject | None] = ContextVar("rowbus_subject", default=None)


class Subject(Protocol):
    """The subject of lines; `id` is a message's, `handler` the name of the one that runs or ran last."""

    id: str
    handler: str

    def fields(self) -> Mapping[str, object]:
        """Return what a log line says of it, by the names of its fields."""
        raise NotImplementedError

    def cause(self) -> Mapping[str, str]:
        """Return what a change of data says that it was caused by, by the names of the parts."""
        raise NotImplementedError


begin_handling: Final = _message.set
"""Notes that handlers of a message run from now on; returns what ends that."""

end_handling: Final = _message.reset


class _SubjectScope:
    """Notes a subject for as long as it is entered: a class, which costs half of what a generator does."""

    __slots__ = ("_subject", "_token")

    _token: Token[Subject | None]

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def __enter__(self) -> None:
        self._token = _subject.set(self._subject)

    def __exit__(self, *_error: object) -> None:
        _subject.reset(self._token)


concerning: Final[Callable[[Subject], AbstractContextManager[None]]] = _SubjectScope
"""Notes what the lines that are logged within are about, where no handler of a message runs."""


def subject_in_hand() -> Subject | None:
    """Return what the code that runs is about; None where it is about nothing."""
    return _message.get() or _subject.get()


def message_in_hand() -> str | None:
    """Return the id of the message whose handler runs; None outside of handlers."""
    subject = _message.get()
    return None if subject is None else subject.id


def fields_in_hand() -> Mapping[str, object]:
    """Return what a line that is logged now is about; empty where it is about nothing."""
    subject = subject_in_hand()
    return {} if subject is None else subject.fields()


class AwaitedCall(NamedTuple):
    """One call: its coroutine, the object and its method that was called, and the instruction that called it."""

    coroutine: Coroutine[Any, Any, Any]
    owner: str
    name: str
    code: CodeType
    instruction: int

    @property
    def has_ended(self) -> bool:
        """Whether the call was awaited to its end."""
        return getattr(self.coroutine, "cr_frame", None) is None

    @property
    def place(self) -> str:
        """The function and the line that made the call."""
        line = list(self.code.co_positions())[self.instruction // CODE_UNIT][0]
        return f"{self.code.co_qualname} ({self.code.co_filename}, line {line})"

    def prevent(self) -> None:
        """Have a call that has not begun do nothing, now and later; one that has begun is its task's."""
        if inspect.getcoroutinestate(self.coroutine) == inspect.CORO_CREATED:
            self.coroutine.close()


class Awaiting:
    """An object with methods to be awaited: contexts of `async def` handlers, their connections, and whoever sends."""

    _called: ClassVar = "context"
    """The handlers' name for such an object."""

    _calls: list[AwaitedCall] | None = None
    """The calls so far, of a context that begins them, and of its connections; None: no handler is at work."""


def awaited(verb: F) -> F:
    """Have the calls of an `async def` method of `Awaiting` noted, to be checked by `refuse_forgotten`."""

    @wraps(verb)
    def call(self: Awaiting, *arguments: object, **options: object) -> Coroutine[Any, Any, Any]:
        coroutine = verb(self, *arguments, **options)
        calls = self._calls  # pyright: ignore[reportPrivateUsage] - this is a method of its class
        if calls is not None:
            caller = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the cheapest way
            while calls and calls[-1].has_ended:
                calls.pop()  # so that a long loop of calls holds none but the last
            owner = self._called  # pyright: ignore[reportPrivateUsage] - as above
            calls.append(AwaitedCall(coroutine, owner, verb.__name__, caller.f_code, caller.f_lasti))
        return coroutine

    return cast("F", call)


def note_calls_on(connection: T, context: Awaiting) -> T:
    """Note the calls of a connection with those of its handler's context; return it."""
    if isinstance(connection, Awaiting):
        connection._calls = context._calls  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - of this module
    return connection


def refuse_forgotten(context: Awaiting) -> None:
    """Raise HandlerError, naming the call and its line, if one of a context's calls was not awaited to its end."""
    calls = context._calls  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - of this module
    if not calls or not (forgotten := [call for call in calls if not call.has_ended]):
        return
    calls.clear()
    for call in forgotten:
        call.prevent()
    raise HandlerError(_explained(forgotten), calls=tuple(call.place for call in forgotten))


def refuse_unbegun(function: Callable[..., object], returned: object) -> None:
    """Raise HandlerError for a coroutine, a generator or the context manager of one that a handler returned."""
    work = getattr(returned, "gen", returned)
    if not isinstance(work, (Coroutine, Generator, AsyncGenerator)):
        return
    if not isinstance(work, AsyncGenerator):
        work.close()
    name, kind = getattr(function, "__qualname__", repr(function)), type(returned).__name__.strip("_")
    raise HandlerError(
        f"{name} returned an unused {kind}, of which nothing ran: await it, iterate over it or enter it in the handler "
        "(an `async def` if it has to await). Nothing of this attempt was committed."
    )


def _explained(forgotten: list[AwaitedCall]) -> str:
    first, *others = forgotten
    more = f" (and {len(others)} more)" if others else ""
    return (
        f"{first.place} called {first.owner}.{first.name}(…) and did not await it{more}: write `await`. "
        "Nothing of this attempt was committed."
    )
