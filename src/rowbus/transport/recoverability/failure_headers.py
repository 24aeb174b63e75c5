"""The full story of a failed message, as headers of its copy in the error queue (docs/wire-format.md#error-queue).

Invariant: the copy keeps every header of the original except the retry counters and its end (one that ServiceControl
could not read, under another name), carries what ServiceControl needs to import it (FailedQ, TimeOfFailure, MessageId,
ExceptionInfo), and never expires. What is added has a longest length: a row or an exception of any size makes a copy
that can be written and read.

Its stack trace has the form of .NET's. ServiceControl groups failures by the exception's type and the first line of the
trace that is a frame, which is: spaces, a word, spaces, `dotted.name(params)`, and perhaps spaces, a word, and
`/absolute/path:word 12`. It looks for frames after it has deleted the exception's message from the whole trace
(docs/wire-format.md#stack-traces).

Invariants of the trace: pure and total. Only lines that begin with ` at ` can be taken for frames, the function that
raised stands first, and no line of source is among them. `python_traceback` is total too, and differs from Python's own
only where Python fails to make one.
"""

from __future__ import annotations

import re
import traceback
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors.strangers import (
    LONGEST_DATA,
    calls_of,
    chain_of,
    data_of,
    inner_exception,
    text_of,
    type_name,
    writable,
)
from rowbus.messages.headers import Header
from rowbus.messages.malformed_headers import without_malformed
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.outgoing import with_new_trace
from rowbus.messages.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.headers import Identity
    from rowbus.messages.message import MessageRow


MOST_FRAMES: Final = 100
MOST_CALLS: Final = 100  # where Python cannot make a traceback
LONGEST_MESSAGE: Final = 16_384  # characters of an exception's text, as NServiceBus cuts it
LONGEST_INNER: Final = 1_024  # characters of the text of an exception inside it
LONGEST_FRAMES: Final = 32_768  # characters of all frames together
_LONGEST_NAME: Final = 1_024  # characters of a function's name, a module's and a file's
_AT: Final = "   at "
_BEGIN: Final = " ---> "
_END: Final = "   --- End of inner exception stack trace ---"
_SPACE: Final = re.compile(r"\s+")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[\\/]")

# Ours, and the libraries through which we read bodies and speak to the database; the demo holds handlers.
_OURS: Final = frozenset({"rowbus", "psycopg", "psycopg_pool", "mssql_python", "pydantic", "msgspec"})
_HANDLERS_OF_OURS: Final = "rowbus.demo"
# What only carries a call from one thread or task to another.
_PLUMBING: Final = frozenset({"asyncio", "concurrent", "threading", "contextvars", "uvloop"})


class Frame(NamedTuple):
    """A call that an exception went through; `line` is None where Python does not know it."""

    module: str
    function: str
    file: str
    line: int | None

    @property
    def package(self) -> str:
        """The module's outermost package."""
        return self.module.partition(".")[0]

    @property
    def is_ours(self) -> bool:
        """Whether it says nothing about the user's code."""
        name = f"{self.module}."
        return self.package in _OURS and not name.startswith(f"{_HANDLERS_OF_OURS}.")

    @property
    def is_plumbing(self) -> bool:
        """Whether it only carries a call from one thread or task to another."""
        return self.package in _PLUMBING

    @property
    def text(self) -> str:
        """The frame as a line of a trace, with its file if that has an absolute path: others are no frames."""
        call = f"{_AT}{self.module}.{self.function}()"
        if self.line is None or not _ABSOLUTE.match(self.file):
            return call
        return f"{call} in {self.file}:line {self.line}"


class StackTrace(NamedTuple):
    """The words on a failure: the headers Message, StackTrace and Source."""

    message: str
    text: str
    source: str


def stack_trace(error: BaseException) -> StackTrace:
    """Return an exception's text, its trace with those of the exceptions inside it, and the package that raised it.

    Our own frames are left out but for a failure before any handler, of which they are all there is. The message is
    `Type: text` where the text alone occurs in the trace, from which it would be deleted there too.
    """
    chain = chain_of(error)
    frames = _shown([_frames(one) for one in chain])
    begun = [f"{_BEGIN}{_in_one_line(one)}" for one in chain[1:]]
    lines = list(_fitting([*begun, *_calls(frames)]))
    message, first = _told(type_name(error), text_of(error), lines)
    return StackTrace(message, "\n".join([first, *lines]), frames[0][0].package if frames[0] else "")


def _told(name: str, text: str, lines: list[str]) -> tuple[str, str]:
    """Return the message and the trace's first line: the same text in both, cut alike."""
    if not text:
        return "", name
    cut = text[:LONGEST_MESSAGE]
    if cut in "".join(f"\n{line}" for line in lines if not line.startswith(_BEGIN)):
        whole = f"{name}: {text}"[:LONGEST_MESSAGE]
        return whole, whole
    return cut, f"{name}: {cut}"


def _calls(frames: list[list[Frame]]) -> Iterator[str]:
    """Give the lines of the calls of each exception, the innermost one's first, as .NET nests them."""
    for of_one in frames[:0:-1]:
        yield from (frame.text for frame in of_one)
        yield _END
    yield from (frame.text for frame in frames[0])


def _in_one_line(error: BaseException) -> str:
    """Say what an exception inside another is; its text is not deleted, so no line of it may look like a frame."""
    text = _SPACE.sub(" ", text_of(error)).strip()[:LONGEST_INNER]
    return f"{type_name(error)}: {text}" if text else type_name(error)


def _fitting(lines: Iterable[str]) -> Iterator[str]:
    """Give the lines but for the frames that are too many, or too long together: the last ones."""
    frames, length = 0, 0
    for line in lines:
        if line.startswith(_AT):
            frames, length = frames + 1, length + len(line)
            if frames > MOST_FRAMES or length > LONGEST_FRAMES:
                continue
        yield line


def _shown(frames: list[list[Frame]]) -> list[list[Frame]]:
    """Leave out what only carries calls and, if there is any code of the user's, what is ours."""
    found = _only(frames, lambda frame: not (frame.is_plumbing or frame.is_ours))
    return found if any(found) else _only(frames, lambda frame: not frame.is_plumbing)


def _only(frames: list[list[Frame]], is_meant: Callable[[Frame], bool]) -> list[list[Frame]]:
    return [[frame for frame in of_one if is_meant(frame)] for of_one in frames]


def _frames(error: BaseException) -> list[Frame]:
    """Return the calls that an exception went through, the one that raised it first."""
    walked = [
        Frame(
            _named(frame.f_globals.get("__name__") or "<unknown>"),
            _named(frame.f_code.co_qualname),
            _named(frame.f_code.co_filename, " "),
            line,
        )
        for frame, line in traceback.walk_tb(calls_of(error))
    ]
    return walked[::-1]


def _named(name: object, space: str = "_") -> str:
    if type(name) is str and len(name) <= _LONGEST_NAME:
        return _remembered(name, space)
    return _spaced(name, space)


def _spaced(name: object, space: str) -> str:
    return _SPACE.sub(space, text_of(name))[:_LONGEST_NAME]


_remembered = lru_cache(4_096)(_spaced)


def python_traceback(error: BaseException) -> str:
    """Return the traceback of an exception and of those inside it; its calls and text where Python cannot make any."""
    try:
        return writable("".join(traceback.format_exception(error)))
    except BaseException:  # noqa: BLE001 - code of the user's, such as a `__str__`, may fail in ways Python does not expect
        head = "Traceback (most recent call last):\n"
        calls = traceback.format_tb(calls_of(error), limit=MOST_CALLS)
        return writable("".join((head, *calls, f"{type_name(error)}: {text_of(error)}\n")))


LONGEST_TRACEBACK = 65_536  # characters of Python's traceback; the beginning and the end are kept
LONGEST_RAW_HEADERS = 65_536  # characters of header text that could not be read; likewise
CUT = "\n… (cut) …\n"
_BRIEF_VALUE, _BRIEF_TOTAL = 1_024, 16_384  # characters of a header, and of all, in a brief copy
RAW_HEADERS = "Rowbus.RawHeaders"
"""Header of a poison message's copy: the header text that could not be read, as it was, cut when it is long."""

_BRIEF_STORY = (
    Header.MESSAGE_ID,
    Header.FAILED_QUEUE,
    Header.TIME_OF_FAILURE,
    Header.EXCEPTION_TYPE,
    Header.EXCEPTION_MESSAGE,
    Header.EXCEPTION_STACK_TRACE,
    Header.PROCESSING_ENDPOINT,
    Header.ENCLOSED_MESSAGE_TYPES,
    Header.CONTENT_TYPE,
)
_OF_THE_QUEUE = frozenset(
    {
        Header.RETRIES,
        Header.FL_RETRIES,
        Header.FAILED_ATTEMPTS,
        Header.INTERRUPTION,
        Header.EXPIRES,
        Header.WAITING_SINCE,
    }
)


def failed_message(
    *,
    headers: Mapping[str, str | None],
    body: bytes,
    error: BaseException,
    failed_queue: QueueAddress,
    identity: Identity,
    now: datetime,
    data: Mapping[str, str] | None = None,
) -> OutgoingMessage:
    """Return the copy of a message for the error queue, with its failure told in headers."""
    whole = with_new_trace(without_malformed(headers))
    kept = {name: value for name, value in whole.items() if name not in _OF_THE_QUEUE}
    story = {**fault_headers(error, data or {}), **identity.processing_headers()}
    story[Header.FAILED_QUEUE] = failed_queue.canonical
    story[Header.TIME_OF_FAILURE] = format_timestamp(now)
    return OutgoingMessage({**kept, **story}, body)


def poison_message(
    row: MessageRow, error: BaseException, *, failed_queue: QueueAddress, identity: Identity, now: datetime
) -> OutgoingMessage:
    """Return a complete message for the error queue in place of a row whose headers cannot be read."""
    headers = {Header.MESSAGE_ID: row.id, RAW_HEADERS: shortened(row.headers, LONGEST_RAW_HEADERS)}
    return failed_message(
        headers=headers,
        body=row.body or b"",
        error=error,
        failed_queue=failed_queue,
        identity=identity,
        now=now,
    )


def fault_headers(error: BaseException, data: Mapping[str, str]) -> dict[str, str]:
    """Return the ExceptionInfo headers of an exception."""
    told = stack_trace(error)
    headers = {
        Header.EXCEPTION_TYPE: type_name(error),
        Header.EXCEPTION_MESSAGE: told.message,
        Header.EXCEPTION_STACK_TRACE: told.text,
    }
    if told.source:
        headers[Header.EXCEPTION_SOURCE] = told.source
    if (inner := inner_exception(error)) is not None:
        headers[Header.INNER_EXCEPTION_TYPE] = type_name(inner)
    for name, value in {**data_of(error), **data}.items():
        headers[f"{Header.EXCEPTION_DATA_PREFIX}{name}"] = writable(value)[:LONGEST_DATA]
    headers[Header.EXCEPTION_TRACEBACK] = shortened(python_traceback(error), LONGEST_TRACEBACK)
    return headers


def brief_headers(headers: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return those headers of an error queue's copy that fit where the whole would not: the story, cut, comes first.

    Left out are values that are long, and such as hold NUL, which JSON may hold and a database may refuse.
    """
    story = {name: headers[name] for name in _BRIEF_STORY if name in headers}
    kept: dict[str, str | None] = {}
    room = _BRIEF_TOTAL
    for name, value in {**story, **headers}.items():
        text = value if value is None or name not in story else shortened(value, _BRIEF_VALUE)
        size = len(name) + len(text or "")
        if size <= min(room, 2 * _BRIEF_VALUE) and "\0" not in f"{name}{text}":
            kept[name] = text
            room -= size
    return kept


def shortened(text: str, most: int) -> str:
    """Return text of at most so many characters: a long one loses its middle."""
    if len(text) <= most:
        return text
    left = (most - len(CUT)) // 2
    return f"{text[: most - len(CUT) - left]}{CUT}{text[-left:]}"
