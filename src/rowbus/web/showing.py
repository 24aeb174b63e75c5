r"""Filters of the templates: how values are shown.

What is stored may be hostile. Jinja escapes HTML; `visible` shows what would not be seen, or would turn the direction
of writing, as `rowbus.errors.printable` writes it (`\u202e`, `\x1b`), marked so that it is not taken for text.

Invariant: pure; what a filter returns as markup holds nothing of the value that is not escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from markupsafe import Markup, escape

from rowbus.transport.queues.diagnosis import duration as in_two_units

_KEPT: Final = "\n\t"


def visible(value: object) -> Markup:
    """Show any text as one line, with what cannot be seen in it written out."""
    return _shown(str(value), "")


def visible_lines(value: object) -> Markup:
    """Show text of several lines, for `<pre>`; line ends and tabs stay."""
    return _shown(str(value).replace("\r\n", "\n"), _KEPT)


def _shown(text: str, kept: str) -> Markup:
    return Markup("").join(
        escape(part) if is_plain else Markup('<span class="unseen">{}</span>').format(_written(part))
        for is_plain, part in _parts(text, kept)
    )


def _parts(text: str, kept: str) -> list[tuple[bool, str]]:
    parts = list[tuple[bool, str]]()
    for letter in text:
        is_plain = letter.isprintable() or letter in kept
        if parts and parts[-1][0] is is_plain:
            parts[-1] = (is_plain, parts[-1][1] + letter)
        else:
            parts.append((is_plain, letter))
    return parts


def _written(text: str) -> str:
    return "".join(letter.encode("unicode_escape").decode() for letter in text)


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
