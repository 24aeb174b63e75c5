"""Names of logs as text in YAML documents, shell commands and Markdown; a name may be any text.

Invariant: a YAML reader gets back exactly the same text: no name becomes a number, a boolean or a list.
"""

from __future__ import annotations

import re
import shlex

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\U([0-9A-F]{8})|\\(.)")


def quoted(text: str) -> str:
    """Write text as a scalar in double quotes; what is not printable is written as its number."""
    return f'"{"".join(map(_letter, text))}"'


def unquoted(scalar: str) -> str:
    """Read what `quoted` has written, or a plain scalar or one in single quotes that a user has put in its place."""
    if found := _QUOTED.fullmatch(scalar):
        return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], found[1])
    if scalar[:1] == scalar[-1:] == "'" and len(scalar) > 1:
        return scalar[1:-1].replace("''", "'")
    return scalar


def for_shell(text: str) -> str:
    """Write text as one argument of a command; what is not printable as the shell's own escapes."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"


def in_prose(text: str) -> str:
    """Write text for a line of Markdown, between backquotes."""
    return "".join(
        letter if letter.isprintable() and letter != "`" else letter.encode("unicode_escape").decode()
        for letter in text
    ).replace("`", "'")


def _letter(letter: str) -> str:
    if letter in {'"', "\\"}:
        return f"\\{letter}"
    return letter if letter.isprintable() else f"\\U{ord(letter):08X}"
