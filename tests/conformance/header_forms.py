"""Headers without what varies from run to run: what a row of ours and .NET's row of the same kind are compared by.

Invariant: pure; a value whose form is wrong stays as it is, and so differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from rowbus.messages.headers import Header, parse_enclosed_types

UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FORMS: Final = {
    "<uuid>": UUID,
    "<timestamp>": re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{6} Z"),
    "<host id>": re.compile("[0-9a-f]{32}"),
    "<traceparent>": re.compile("00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]"),
    "<version>": re.compile(r"\d+\.\d+\.\d+"),
}
MACHINES: Final = {Header.ORIGINATING_MACHINE, Header.PROCESSING_MACHINE, Header.HOST_DISPLAY_NAME}
TYPES: Final = {
    Header.EXCEPTION_TYPE,
    Header.INNER_EXCEPTION_TYPE,
    f"{Header.EXCEPTION_DATA_PREFIX}Handler type",
}
NAME: Final = re.compile(r"[^\W\d][\w.+`<>\[\], =]*")  # of a type, or of a handler
FRAME: Final = re.compile(r" {3}at [^\n]+\([^\n]*\)( in /[^\n]+:line \d+)?")
INNER, END_OF_INNER = " ---> ", "   --- End of inner exception stack trace ---"
MOVED: Final = "--- End of stack trace from previous location ---"
"""The line that .NET writes where a task goes on elsewhere."""


class Scene(NamedTuple):
    """Names for the ids of a scene: those of its messages, and those of its conversations."""

    messages: dict[str, str]
    conversations: dict[str, str]


def scene_of(rows: Iterable[Mapping[str, str | None]]) -> Scene:
    """Name messages by the first of their types or their intent, and a conversation by its first message."""
    scene = Scene({}, {})
    for headers in rows:
        types = parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES))
        name = types[0] if types else headers.get(Header.MESSAGE_INTENT)
        if message_id := headers.get(Header.MESSAGE_ID):
            scene.messages[message_id] = f"<id of {name}>"
        if conversation := headers.get(Header.CONVERSATION_ID):
            scene.conversations.setdefault(conversation, f"<conversation of {name}>")
    return scene


def form_of(headers: Mapping[str, str | None], scene: Scene) -> dict[str, str | None]:
    """Return headers with placeholders in place of what varies."""
    return {name: _form(name, value, headers, scene) for name, value in headers.items()}


def _form(name: str, value: str | None, headers: Mapping[str, str | None], scene: Scene) -> str | None:
    if value is None:
        return None
    named = scene.conversations if name == Header.CONVERSATION_ID else scene.messages
    if value in named:
        return named[value]
    if name in MACHINES:
        return "<machine>"
    if (special := _SPECIAL.get(name)) is not None:
        return special(value, headers)
    if name in TYPES and NAME.fullmatch(value):
        return "<name>"
    return next((form for form, pattern in FORMS.items() if pattern.fullmatch(value)), value)


def _types(value: str, _: Mapping[str, str | None]) -> str:
    return "; ".join(parse_enclosed_types(value))


def _trace(value: str, headers: Mapping[str, str | None]) -> str:
    """Say which form a stack trace has: `Type: message`, inner exceptions, then frames, the innermost first."""
    first, *rest = (line for line in value.replace("\r\n", "\n").split("\n") if line != MOVED)
    inner = [line for line in rest if line.startswith(INNER)]
    ends = rest.count(END_OF_INNER)
    frames = [line for line in rest if FRAME.fullmatch(line)]
    told = f"{headers[Header.EXCEPTION_TYPE]}: {headers[Header.EXCEPTION_MESSAGE]}"
    is_whole = bool(frames) and len(inner) == ends and len(rest) == len(inner) + ends + len(frames)
    if first != told or not is_whole or rest[: len(inner)] != inner:
        return value
    return "<trace with inner exceptions>" if inner else "<trace>"


def _traceback(value: str, headers: Mapping[str, str | None]) -> str:
    ends_well = value.endswith(f"{headers[Header.EXCEPTION_MESSAGE]}\n")
    return "<traceback>" if value.startswith("Traceback (most recent call last):\n") and ends_well else value


def _source(value: str, _: Mapping[str, str | None]) -> str:
    return "<source>" if NAME.fullmatch(value) else value


_SPECIAL: Final[dict[str, Callable[[str, Mapping[str, str | None]], str]]] = {
    Header.ENCLOSED_MESSAGE_TYPES: _types,
    Header.EXCEPTION_STACK_TRACE: _trace,
    Header.EXCEPTION_TRACEBACK: _traceback,
    Header.EXCEPTION_SOURCE: _source,
}
