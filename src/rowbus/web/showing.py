r"""Filters of the templates: how values are shown.

What is stored may be hostile. Jinja escapes HTML; `visible` shows what would not be seen, or would turn the direction
of writing, as `rowbus.errors.strangers` writes it (`\u202e`, `\x1b`), marked so that it is not taken for text.

Invariant: pure; what a filter returns as markup holds nothing of the value that is not escaped, and takes a time that
grows as what is shown does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from rowbus.errors.strangers import shortened
from rowbus.transport.queues.diagnosis import duration as in_two_units

LONGEST_LINE: Final = 20_000
"""Characters of a text of one line, or of one header, that are shown."""

LONGEST_LINES: Final = 200_000
"""Characters of a text of several lines, or of all headers of a message, that are shown."""

MOST_PAIRS: Final = 500
"""Headers of a message that are shown."""

_KEPT: Final = "\n\t"
_BEGIN, _END = '<span class="unseen">', "</span>"


def visible(value: object) -> Markup:
    """Show any text as one line, with what cannot be seen in it written out; no more than `LONGEST_LINE` of it."""
    return _shown(_line(str(value)), "")


def visible_lines(value: object) -> Markup:
    """Show text of several lines, for `<pre>`; line ends and tabs stay; no more than `LONGEST_LINES` of it."""
    return _shown(shortened(str(value), LONGEST_LINES).replace("\r\n", "\n"), _KEPT)


def _shown(text: str, kept: str) -> Markup:
    """Mark what cannot be seen, in a time that grows as the text does: a sender chooses every letter of it."""
    odd = {letter for letter in set(text) if not letter.isprintable() and letter not in kept}
    marks = {ord(letter): f"{_BEGIN}{_written(letter)}{_END}" for letter in odd}
    marked = str(escape(text)).translate(marks).replace(_END + _BEGIN, "")
    return Markup(marked)  # noqa: S704 - what is escaped, and marks of ours


def _written(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


class Pairs(NamedTuple):
    """Names with values, as many of them as a page shows, and the number of the others."""

    shown: list[tuple[str, str | None]]
    left: int


def bounded(pairs: Iterable[tuple[str, str | None]]) -> Pairs:
    """Return the first of these names and values, of which a sender may have made thousands; long ones are cut."""
    every, room, shown = list(pairs), LONGEST_LINES, list[tuple[str, str | None]]()
    for name, value in ((_line(name), None if value is None else _line(value)) for name, value in every):
        room -= len(name) + len(value or "")
        if room < 0 or len(shown) == MOST_PAIRS:
            break
        shown.append((name, value))
    return Pairs(shown, len(every) - len(shown))


def _line(text: str) -> str:
    return shortened(text, LONGEST_LINE)


def advice(value: object) -> Markup:
    """Show a sentence of ours, in which backticks mark what is typed."""
    parts = str(value).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(visible(part)) if position % 2 else visible(part)
        for position, part in enumerate(parts)
    )


def moment(value: datetime | None) -> Markup:
    """Show an instant as `<time>`; the page's script writes it in the viewer's zone, with exact UTC on hover."""
    if value is None:
        return Markup("")
    at = value.astimezone(UTC)
    return Markup('<time datetime="{}" title="{} UTC">{} UTC</time>').format(
        at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S.%f}", f"{at:%Y-%m-%d %H:%M:%S}"
    )


def span(value: timedelta | float | None) -> str:
    """Show a span in its two largest units; seconds may be given as a number."""
    if value is None:
        return ""
    return in_two_units(value if isinstance(value, timedelta) else timedelta(seconds=value))


def age(value: datetime | None, now: datetime | None) -> Markup:
    """Show how long ago an instant was, with the instant itself on hover."""
    if value is None or now is None:
        return Markup("&ndash;")
    at = value.astimezone(UTC)
    return Markup('<span title="{} UTC">{}</span>').format(f"{at:%Y-%m-%d %H:%M:%S.%f}", span(now - value))


def number(value: float | None) -> str:
    """Show a count with its thousands apart."""
    return "" if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Show how many a second, as exactly as it matters."""
    if value is None:
        return ""
    if not value:
        return "0"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else "<0.1"  # noqa: PLR2004 - digits


def size(value: float | None) -> str:
    """Show bytes in the unit that leaves at most four digits."""
    if value is None:
        return ""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 10_000:  # noqa: PLR2004 - four digits
            return f"{value:,.0f} {unit}"
        value /= 1024
    return f"{value:,.0f} TiB"


def plural(count: int, one: str, many: str = "") -> str:
    """Show a count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


FILTERS: Final[dict[str, Callable[..., object]]] = {
    "visible": visible,
    "visible_lines": visible_lines,
    "bounded": bounded,
    "advice": advice,
    "moment": moment,
    "span": span,
    "age": age,
    "number": number,
    "rate": rate,
    "size": size,
    "plural": plural,
}
"""By the names that templates use."""
