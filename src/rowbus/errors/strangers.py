r"""Exceptions and text of strangers, made fit for a line of a log, a terminal, an error.

A class of the user's may have a property in place of any attribute, and methods that raise. What the interpreter keeps
of every exception is read from where it keeps it; what else is to be had, is asked for.

Ids, headers, names of types and addresses come from everyone who may write into a queue. Shown as they are, a line end
forges the next line of a log, an escape sequence commands the terminal, and a character that turns the direction of
writing has the line say something else than it holds. What is not printable is shown as Python writes it in a string:
`\n`, `\x1b`, `\u202e`, `\ud800`. That covers C0, DEL, C1, bidi controls, line and paragraph separators, half surrogate
pairs, and every space but the plain one.

Invariants: whatever an exception does when it is looked at, it has facts, and each can be written into a header;
nothing else looks at an exception that may be a stranger's; what `printable` returns is one line, `str.isprintable()`,
and at most as long as its limit.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
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

LONGEST_VALUE: Final = 1_000
"""Characters of one value in a line of a log, or of one cell of a table: an id, a name, an error's text."""

LONGEST_TEXT: Final = 2_000
"""Characters of an error's text."""

LONGEST_TRACEBACK: Final = 20_000
"""Characters of a traceback in a log, all its chained exceptions together."""

MOST_CHAINED: Final = 10
"""Exceptions of a chain, or of a group, that a traceback tells of: the latest of a chain, the first of a group."""

MOST_CALLS: Final = 2
"""Calls in a brief traceback."""

MOST_SAID: Final = 2
"""Lines in it of what an exception says: its text, and a note or the first of a group."""

_LIBRARIES: Final = (
    str(Path(__file__).resolve().parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    "<frozen",
)
_CAUSE: Final = "The above exception was the direct cause of the following exception:"
_CONTEXT: Final = "During handling of the above exception, another exception occurred:"
_LINES: Final = "\n\t"


# Exceptions.


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


# Text.


def printable(text: str, limit: int | None = None) -> str:
    """Return text as one line that controls nothing, and no longer than `limit`, if one is given.

    What is too long loses its middle, and says so: a long name at the beginning must not hide the advice at the end.
    """
    return _capped(text, limit, "")


def printable_lines(text: str, limit: int | None = None) -> str:
    """Return text of several lines, likewise; line ends and tabs stay, so it is for where lines cannot be forged."""
    return _capped(text, limit, _LINES)


def printable_value(value: object, write: Callable[[object], str] = str) -> str:
    """Return any value's text, or with `repr` its representation, as one line; its class may not even have a text."""
    return printable(text_of(value, write), LONGEST_VALUE)


def shortened(text: str, limit: int) -> str:
    """Return text of at most `limit` characters, its middle left out if it has more, with a note of its length."""
    if len(text) <= limit:
        return text
    note = f"… [{len(text):,} characters] …"
    room = max(limit - len(note), 0)
    ending = room // 3
    return (text[: room - ending] + note + text[len(text) - ending :])[:limit]


def _capped(text: str, limit: int | None, kept: str) -> str:
    if limit is None:
        return _escaped(text, kept)
    return shortened(_escaped(shortened(text, limit), kept), limit)


def _escaped(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in kept else letter.encode("unicode_escape").decode()
        for letter in text
    )


def traceback_of(error: BaseException) -> str:
    """Return an exception's traceback as Python prints it, the text of each exception escaped, capped and on one line.

    So what an exception says cannot look like another record of a log, nor like a frame of the traceback.
    """
    return printable_lines("\n".join(_story(error)), LONGEST_TRACEBACK)


def brief_traceback_of(error: BaseException) -> str:
    """Return what a person needs of a traceback, in seven lines at most: the calls of his own program, and the causes.

    Of the calls there are the first and the last that are neither Rowbus's nor a library's; where all are, the last.
    """
    calls = traceback.extract_tb(calls_of(error))
    own = [call for call in calls if not call.filename.startswith(_LIBRARIES)] or calls[-1:]
    shown = own if len(own) <= MOST_CALLS else [own[0], own[-1]]
    chain, _ = _chain(error)
    lines = [
        *(line for call in shown for line in _call(call)),
        *list(_last_lines(error))[:MOST_SAID],
        *(f"because of {next(_last_lines(cause))}" for cause in chain[-1:] if cause is not error),
    ]
    if len(calls) > len(shown):
        lines.append(f"({len(calls) - len(shown)} more calls, most of them Rowbus's; -v shows them)")
    return printable_lines("\n".join(lines), LONGEST_TRACEBACK)


def _call(call: traceback.FrameSummary) -> Iterator[str]:
    yield f'  File "{call.filename}", line {call.lineno}, in {call.name}'
    if call.line:
        yield f"    {call.line}"


def _story(error: BaseException) -> Iterator[str]:
    chain, links = _chain(error)
    for link, one in zip(reversed(["", *links]), reversed(chain), strict=True):
        yield from _frames(one)
        yield from _last_lines(one)
        yield from ("", link, "") if link else ()


def _chain(error: BaseException) -> tuple[list[BaseException], list[str]]:
    """Return an exception with those before it, the latest first, and what stands between each and the one before."""
    chain, links = [error], list[str]()
    while (before := _before(chain[-1])) is not None and len(chain) < MOST_CHAINED:
        if any(before is one for one in chain):
            break
        links.append(_CAUSE if cause_of(chain[-1]) is before else _CONTEXT)
        chain.append(before)
    return chain, links


def _before(error: BaseException) -> BaseException | None:
    if (cause := cause_of(error)) is not None:
        return cause
    return None if suppresses_context(error) else context_of(error)


def _frames(error: BaseException) -> Iterator[str]:
    if (calls := calls_of(error)) is not None:
        yield "Traceback (most recent call last):"
        for frame in traceback.format_tb(calls):
            yield frame.rstrip("\n")


def _last_lines(error: BaseException) -> Iterator[str]:
    name, text = type_name(error), printable_value(error)
    yield f"{name}: {text}" if text else name
    for note in notes_of(error):
        yield printable_value(note)
    for member in members_of(error)[:MOST_CHAINED]:
        yield from (f"  | {line}" for part in _story(member) for line in part.split("\n"))
