"""Writing HTML and SVG so that text can only be text.

Invariant: whatever is not `Html` is escaped, and `Html` is only made here, from names that our own code gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from rowbus.printable import printable_lines

_VOID: Final = frozenset({"meta", "link", "br"})


class Html(str):
    """Text that is markup."""

    __slots__ = ()


def tag(element: str, /, *children: object, **attributes: object) -> Html:
    """Return an element; children that are not `Html` are text, attributes that are None or False are left out.

    `class_` is the attribute `class`; other underscores are hyphens.
    """
    given = "".join(
        _attribute(key, value)
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(
        f"<{element}{given}>" if element in _VOID else f"<{element}{given}>{join(*children)}</{element}>"
    )


def join(*children: object) -> Html:
    """Return children one after the other."""
    return Html("".join(map(_child, children)))


def document(language: str, head: Html, body: Html) -> str:
    """Return a whole page."""
    return f'<!doctype html>\n<html lang="{escape(language)}">\n{head}\n{body}\n</html>\n'


def style(css: str) -> Html:
    """Return a style sheet of our own; it must not contain text from elsewhere."""
    return Html(f"<style>\n{css}</style>")


def shown(text: str) -> str:
    """Return text with what is not printable escaped as in Python: nothing may reorder or hide what is on the page."""
    return printable_lines(text.replace("\t", "    ").replace("\r\n", "\n"))


def _child(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str.__str__(child)
    if isinstance(child, Iterable) and not isinstance(child, str):
        return "".join(map(_child, child))
    return escape(shown(str(child)))


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    if name == "viewbox":
        name = "viewBox"
    return f' {name}="{escape(shown(str(value)))}"'
