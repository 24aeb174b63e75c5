"""Bodies of messages as people read them: JSON that folds, XML with its lines apart, text, or bytes.

Invariant: pure and bounded: at most `MOST_NODES` values, `DEEPEST` levels and `MOST_BYTES` bytes are written out. What
is masked is masked before anything else is made of it.
"""

from __future__ import annotations

import json
import re
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from rowbus.messages.bodies.json_bodies import reason_not_json
from rowbus.web.contents import mask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_NODES: Final = 2_000
DEEPEST: Final = 30
OPEN_LEVELS: Final = 2  # of JSON that are not folded
MOST_BYTES: Final = 2_048  # of a body that is shown in hexadecimal
MOST_TEXT: Final = 200_000  # characters of a body that is shown as text
_PER_LINE: Final = 16
_TAGS: Final = re.compile(r">\s*<")
_BOM: Final = "\ufeff"


class Node(NamedTuple):
    """A value of JSON: `text` is that of a plain one, `children` are the members or elements of another."""

    name: str | None
    kind: str
    text: str
    children: tuple[Node, ...] = ()
    size: int = 0
    is_open: bool = False


class Body(NamedTuple):
    """A body as it is shown: as JSON, as text or in hexadecimal; `note` says what is not."""

    kind: str
    size: int
    text: str = ""
    tree: Node | None = None
    hexadecimal: str = ""
    note: str = ""

    @property
    def is_text(self) -> bool:
        """Whether it can be read, and edited."""
        return self.kind != "bytes"


def shown(body: bytes, paths: Sequence[str] = (), *, cut_from: int | None = None) -> Body:
    """Return a body as it is shown, with what `paths` lead to masked; `cut_from` is the size of one that was cut."""
    size = len(body) if cut_from is None else cut_from
    note = "" if cut_from is None else f"only its beginning, {len(body):,} of {cut_from:,} bytes, is shown"
    if not body:
        return Body("empty", size)
    try:
        text = body.decode("utf-8").removeprefix(_BOM)
    except UnicodeDecodeError:
        return _bytes(body, size, note, is_hidden=bool(paths))
    if paths:
        text = mask(text, paths)
    return _text(text, size, note, "" if paths else hexadecimal(body))


def _bytes(body: bytes, size: int, note: str, *, is_hidden: bool) -> Body:
    if is_hidden:
        return Body("bytes", size, note="hidden: paths are masked here, and this body is not JSON")
    return Body("bytes", size, hexadecimal=hexadecimal(body), note=note)


def _text(text: str, size: int, note: str, dump: str) -> Body:
    if (tree := _tree(text)) is not None:
        return Body("json", size, _cut(text), tree, dump, note)
    if text.lstrip().startswith("<"):
        return Body("xml", size, _cut(_indented(text)), None, dump, note)
    return Body("text", size, _cut(text), None, dump, note)


def _cut(text: str) -> str:
    return (
        text
        if len(text) <= MOST_TEXT
        else f"{text[:MOST_TEXT]}\n… ({len(text) - MOST_TEXT:,} characters more)"
    )


# -------------------------------------------------------------------------------------------------------------- JSON


def _tree(text: str) -> Node | None:
    """Return the tree of an object or array; None for other text, and for what is too large to fold."""
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None
    try:
        return _node(None, value, 0, count())
    except _TooLargeError:
        return None


_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def laid_out(text: str) -> str:
    """Return JSON with a member a line, each value letter for letter as it was; other text as it is."""
    if reason_not_json(text):
        return text
    lines, depth = [""], 0
    for part in _TOKEN.findall(text):
        if part in "}]":
            depth -= 1
            if lines[-1].strip():  # else it is empty, and stays on its line
                lines.append("  " * depth)
            else:
                lines.pop()
        lines[-1] += ": " if part == ":" else part
        if part in "{[,":
            depth += part != ","
            lines.append("  " * depth)
    return "\n".join(lines)


class _TooLargeError(Exception):
    """More values or levels than are folded."""


class _Number(str):
    """A number, letter for letter as it was written."""

    __slots__ = ()


def _node(name: str | None, value: Any, depth: int, room: Iterator[int]) -> Node:  # noqa: ANN401 - what JSON holds
    if next(room) >= MOST_NODES or depth >= DEEPEST:
        raise _TooLargeError
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        children = tuple([_node(key, item, depth + 1, room) for key, item in members.items()])
        return Node(name, "object", "", children, len(members), depth < OPEN_LEVELS)
    if isinstance(value, list):
        items = cast("Sequence[Any]", value)
        children = tuple([_node(str(at), item, depth + 1, room) for at, item in enumerate(items)])
        return Node(name, "array", "", children, len(items), depth < OPEN_LEVELS)
    if isinstance(value, _Number):
        return Node(name, "number", str(value))
    kind = "string" if isinstance(value, str) else "word"
    return Node(name, kind, json.dumps(value, ensure_ascii=False))


# --------------------------------------------------------------------------------------------------------------- XML


def _indented(text: str) -> str:
    """Return XML with each tag on a line; read as text, never parsed, so that no entity of it is followed."""
    lines: list[str] = []
    depth = 0
    for line in _TAGS.sub(">\n<", text.strip()).split("\n"):
        if line.startswith("</"):
            depth = max(0, depth - 1)
        lines.append("  " * min(depth, DEEPEST) + line)
        opens = line.startswith("<") and not line.startswith(("</", "<?", "<!"))
        if opens and not line.endswith("/>") and "</" not in line:
            depth += 1
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------------- hexadecimal


def hexadecimal(body: bytes) -> str:
    """Return the beginning of a body as `hexdump -C` writes it."""
    lines = [_line(at, body[at : at + _PER_LINE]) for at in range(0, min(len(body), MOST_BYTES), _PER_LINE)]
    if len(body) > MOST_BYTES:
        lines.append(f"… ({len(body) - MOST_BYTES:,} bytes more)")
    return "\n".join(lines)


def _line(at: int, part: bytes) -> str:
    letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)  # noqa: PLR2004 - what ASCII shows
    return f"{at:08x}  {part.hex(' '):<47}  {letters}"
