"""What an exception says of itself: its class, its text, those inside it, its notes and its data.

Exceptions are strangers: a class of the user's may have a property in place of any attribute, and methods that raise.
What the interpreter keeps of every exception is read from where it keeps it; what else is to be had, is asked for.

Invariant: total: whatever an exception does when it is looked at, it has facts, and each can be written into a header.
Nothing else looks at an exception that may be a stranger's.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

T = TypeVar("T")

LONGEST_NAME: Final = 512  # characters of the name of an exception's type, and of a key of its data
LONGEST_DATA: Final = 4_096  # characters of each value
MOST_DATA: Final = 50  # entries that are kept of an exception's data
MOST_INNER: Final = 20  # exceptions inside each other that are looked at
NOTES: Final = "Notes"

_KEPT: Final[dict[str, Any]] = {
    name: BaseException.__dict__[name]
    for name in ("__cause__", "__context__", "__suppress_context__", "__traceback__", "args")
}
_MEMBERS: Final[Any] = BaseExceptionGroup.__dict__["exceptions"]
_QUALNAME: Final[Any] = type.__dict__["__qualname__"]
_OF_ALL: Final[dict[object, Callable[[Any], str]]] = {
    str: BaseException.__str__,
    repr: BaseException.__repr__,
}


def is_a(error: object, kind: type[T] | tuple[type[T], ...]) -> TypeGuard[T]:
    """Say whether an exception is of a class: of its real one, for its `__class__` may be anything."""
    return issubclass(type(error), kind)


def attribute(error: object, name: str) -> object:
    """Return an attribute of an exception; None where there is none, or where asking for it raises."""
    try:
        return cast("object", getattr(error, name, None))
    except BaseException:  # noqa: BLE001 - code of the user's
        return None


def cause_of(error: BaseException) -> BaseException | None:
    """Return what an exception was raised from."""
    return cast("BaseException | None", _KEPT["__cause__"].__get__(error))


def context_of(error: BaseException) -> BaseException | None:
    """Return what was being handled when an exception was raised."""
    return cast("BaseException | None", _KEPT["__context__"].__get__(error))


def suppresses_context(error: BaseException) -> bool:
    """Say whether an exception was raised `from` something, None perhaps."""
    return bool(_KEPT["__suppress_context__"].__get__(error))


def calls_of(error: BaseException) -> TracebackType | None:
    """Return the calls that an exception went through."""
    return cast("TracebackType | None", _KEPT["__traceback__"].__get__(error))


def exc_info_of(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Return an exception as `logging` takes it; of the exception alone that would ask for more."""
    return type(error), error, calls_of(error)


def arguments_of(error: BaseException) -> tuple[object, ...]:
    """Return what an exception was made with."""
    return cast("tuple[object, ...]", _KEPT["args"].__get__(error))


def members_of(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions of a group; none of another exception."""
    group = is_a(error, BaseExceptionGroup)
    return cast("tuple[BaseException, ...]", _MEMBERS.__get__(error)) if group else ()


def notes_of(error: BaseException) -> list[object]:
    """Return the notes that were added to an exception."""
    notes = attribute(error, "__notes__")
    return cast("list[object]", notes) if type(notes) is list else []


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of a driver's error, or of one of ours; None of others."""
    state = attribute(error, "sqlstate")
    return state if type(state) is str else None


def type_name(error: BaseException) -> str:
    """Return the full name of an exception's type, without the module for built-in ones."""
    kind = type(error)
    module, name = attribute(kind, "__module__"), cast("str", _QUALNAME.__get__(kind))
    return writable((name if module == "builtins" else f"{text_of(module)}.{name}")[:LONGEST_NAME])


def text_of(value: object, write: Callable[[object], str] = str) -> str:
    """Return what a value says as text, or with `repr` its representation.

    Where it cannot say anything: of an exception what every exception says of what it was made with; else its type.
    """
    try:
        return writable(write(value))
    except BaseException:  # noqa: BLE001 - code of the user's, and something to tell of all the same
        return _said_by_all(value, write) or f"(a {_QUALNAME.__get__(type(value))} whose text cannot be had)"


def _said_by_all(value: object, write: Callable[[object], str]) -> str:
    if not is_a(value, BaseException):
        return ""
    try:
        return writable(_OF_ALL[write](value))
    except BaseException:  # noqa: BLE001 - it was made with something that has no text either
        return ""


def inner_exception(error: BaseException) -> BaseException | None:
    """Return the exception inside another: a group's first, the cause, or what was handled when it was raised.

    `raise … from None` means that there is none.
    """
    if members := members_of(error):
        return members[0]
    cause = cause_of(error)
    return cause if cause is not None or suppresses_context(error) else context_of(error)


def chain_of(error: BaseException) -> list[BaseException]:
    """Return an exception and those inside it, the outermost first; an exception inside itself comes once."""
    chain = [error]
    while (inner := inner_exception(chain[-1])) is not None and len(chain) < MOST_INNER:
        if any(inner is one for one in chain):
            break
        chain.append(inner)
    return chain


def data_of(error: BaseException) -> dict[str, str]:
    """Return what an exception was given beside its text: its attribute `data`, if that is a mapping, and its notes."""
    try:
        facts = dict(_entries(attribute(error, "data")))
    except BaseException:  # noqa: BLE001 - a mapping of the user's
        facts = {}
    if notes := notes_of(error):
        facts[NOTES] = "\n".join(map(text_of, notes))[:LONGEST_DATA]
    return facts


def writable(text: str) -> str:
    """Replace half surrogate pairs, which no header may hold, and NUL: ServiceControl refuses a whole batch for one."""
    return str.encode(text, "utf-8", "backslashreplace").decode("utf-8").replace("\0", r"\x00")


def _entries(data: object) -> Iterator[tuple[str, str]]:
    if is_a(data, Mapping):
        for name, value in islice(cast("Mapping[object, object]", data).items(), MOST_DATA):
            yield text_of(name)[:LONGEST_NAME], text_of(value)[:LONGEST_DATA]
