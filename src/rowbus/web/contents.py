"""Contents of messages and events as people read them: JSON with its lines apart, text, or hexadecimal digits.

Invariant: pure and bounded; what paths mask is masked before anything else is made of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.messages.reading import read_body
from rowbus.web.masking import mask

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES: Final = 262_144
"""How much of a body is read to be shown."""

MOST_TEXT: Final = 20_000
"""Characters of one content that are shown."""


class Content(NamedTuple):
    """A content as text; `note` says how it was read, or what is left out."""

    text: str
    note: str = ""


def body_content(body: bytes | None, size: int, paths: Sequence[str]) -> Content:
    """Return the beginning of a body of so many bytes as people read it."""
    found = read_body(body)
    if found.text is None:
        return Content("", "there is no body")
    shown = text_content(found.text, paths)
    notes = [shown.note, "hexadecimal" if found.encoding == "hex" and not paths else ""]
    if body is not None and len(body) < size:
        notes.append(f"the first {len(body):,} of {size:,} bytes")
    return Content(shown.text, "; ".join(filter(None, notes)))


def text_content(text: str, paths: Sequence[str]) -> Content:
    """Return a text as people read it: JSON indented."""
    shown = mask(text, paths) if paths else _indented(text)
    if len(shown) > MOST_TEXT:
        return Content(shown[:MOST_TEXT], f"the first {MOST_TEXT:,} of {len(shown):,} characters")
    return Content(shown)


def _indented(text: str) -> str:
    """Indent JSON whose numbers read the same afterwards; return any other text as it is."""
    try:
        value = json.loads(text, parse_float=_refuse, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) else text


def _refuse(text: str) -> float:
    """Keep a number that writing it anew would change; refuse the text that holds another."""
    number = float(text)
    if repr(number) != text:
        raise ValueError(text)
    return number
