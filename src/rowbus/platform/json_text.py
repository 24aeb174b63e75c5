r"""JSON as .NET's System.Text.Json writes it by default: compact ASCII, quotes as `\u0022`, moments with a `Z`.

Invariant: what is written here is valid JSON of the object given, names as they are and in its order.
"""

from __future__ import annotations

import json
import re
from datetime import UTC
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_STRING: Final = re.compile(r"(\"(?:[^\"\\]|\\.)*\")")
_CHARACTERS: Final = re.compile(r"\\u[0-9a-f]{4}|\\.|[<>&'+`\x7f]")


def json_bytes(members: Mapping[str, object]) -> bytes:
    """Return an object's text. Values are texts, booleans, whole numbers, None, and mappings and lists of these."""
    text = json.dumps(members, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return _STRING.sub(lambda found: f'"{_escaped(found[0][1:-1])}"', text).encode("ascii")


def instant(moment: datetime) -> str:
    """Return an aware moment in UTC, as .NET writes it: a `Z`, and no zeros at the end of the fraction."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment} is naive: give it a time zone, for example datetime.UTC.")
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0') if '.' in text else text}Z"


def _escaped(inner: str) -> str:
    return _CHARACTERS.sub(lambda found: _escape(found[0]), inner)


def _escape(part: str) -> str:
    r"""Return what .NET writes for an escape of Python's, or for a character that Python writes as it is."""
    if part == '\\"':
        return "\\u0022"
    if part.startswith("\\u"):
        return f"\\u{part[2:].upper()}"
    return part if part.startswith("\\") else f"\\u{ord(part):04X}"
