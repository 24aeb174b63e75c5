"""The signature of a failure, which failures of one kind share: its text without numbers and ids, and its stack.

`pattern` makes `Order 42 of 'alice' not found` and `Order 7 of 'bob' not found` the same text; `frames` reads the
functions off a stack trace, Python's or .NET's, without line numbers, addresses and the places where files lie.

Invariant: pure and total: any text gives an answer, in time linear in its length.
"""

from __future__ import annotations

import hashlib
import re
from itertools import groupby
from typing import Final, NamedTuple

LONGEST_TEXT: Final = 2_000  # characters of a message that are looked at
LONGEST_PATTERN: Final = 200  # characters of a pattern; what follows no longer tells failures apart
LONGEST_TRACE: Final = 200_000  # characters of a stack trace that are looked at, those at its end
MOST_FRAMES: Final = 100

_GUID: Final = re.compile(r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE)
_HEX: Final = re.compile(r"\b(?=[a-f]{0,31}[0-9])[0-9a-f]{8,}\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`|“[^”\n]*”")
# What PostgreSQL quotes of a row: Key (order_id)=(42) already exists.
_KEY: Final = re.compile(r"\)=\([^)\n]*\)")
_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?[0-9][0-9.,:_]*|[0-9]+")
_SPACE: Final = re.compile(r"\s+")

_PYTHON_FRAME: Final = re.compile(r'^[ |+]*File "([^"\n]*)", line [0-9]+, in ([^\n]+)$', re.MULTILINE)
_DOTNET_FRAME: Final = re.compile(r"^[ \t]*at ([^\n(]+)\(", re.MULTILINE)
# The compiler turns an async method `Handle` into `<Handle>d__3.MoveNext`.
_STATE_MACHINE: Final = re.compile(r"<(\w+)>d__[0-9]+\.MoveNext$")
_LAMBDA: Final = re.compile(r"<(\w*)>[bg]__[\w|]+")


class Signature(NamedTuple):
    """What tells one kind of failure from another: what was said, where it was raised, and a hash of the way there."""

    pattern: str
    where: str
    trace: str


def signature(message: str | None, stack_trace: str | None) -> Signature:
    """Return the signature of a failure from the headers ExceptionInfo.Message and ExceptionInfo.StackTrace."""
    found = frames(stack_trace or "")
    trace = hashlib.sha256("\n".join(found).encode("utf-8", "replace")).hexdigest()[:12] if found else ""
    return Signature(pattern(message or ""), found[0] if found else "", trace)


def pattern(message: str) -> str:
    """Return a message with `#` in place of numbers, `…` in place of what is quoted, `<id>` in place of ids."""
    text = message[:LONGEST_TEXT]
    for expression, replacement in (
        (_GUID, "<id>"),
        (_ADDRESS, "<id>"),
        (_QUOTED, "'…'"),
        (_KEY, ")=(…)"),
        (_HEX, "<id>"),
        (_NUMBER, "#"),
        (_SPACE, " "),
    ):
        text = expression.sub(replacement, text)
    text = text.strip()
    return text if len(text) <= LONGEST_PATTERN else f"{text[: LONGEST_PATTERN - 1]}…"


def frames(stack_trace: str) -> list[str]:
    """Return the functions a failure went through, the one that raised first; recursion counts once.

    A trace of neither form gives none.
    """
    text = stack_trace[-LONGEST_TRACE:]
    found = [_python_frame(*match) for match in _PYTHON_FRAME.findall(text)][::-1]
    if not found:
        found = [_dotnet_frame(match) for match in _DOTNET_FRAME.findall(stack_trace[:LONGEST_TRACE])]
    return [frame for frame, _ in groupby(found)][:MOST_FRAMES]


def _python_frame(path: str, function: str) -> str:
    """Keep the file's name and its folder's: where an installation lies says nothing about a failure."""
    place = "/".join(path.replace("\\", "/").split("/")[-2:])
    return f"{_NUMBER.sub('#', place)} {function.strip()}"


def _dotnet_frame(method: str) -> str:
    return _LAMBDA.sub(r"\1", _STATE_MACHINE.sub(r"\1", method.strip()))
