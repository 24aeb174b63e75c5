r"""Text from elsewhere, made fit for a line of a log, a terminal, an error: escaped and capped, here and nowhere else.

Ids, headers, names of types and addresses come from everyone who may write into a queue. Shown as they are, a line end
forges the next line of a log, an escape sequence commands the terminal, and a character that turns the direction of
writing has the line say something else than it holds. What is not printable is shown as Python writes it in a string:
`\n`, `\x1b`, `\u202e`, `\ud800`. That covers C0, DEL, C1, bidi controls, line and paragraph separators, half surrogate
pairs, and every space but the plain one.

Invariant: what `printable` returns is one line, `str.isprintable()`, and at most as long as its limit.
"""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowbus.errors.exception_facts import (
    calls_of,
    cause_of,
    context_of,
    members_of,
    notes_of,
    suppresses_context,
    text_of,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
