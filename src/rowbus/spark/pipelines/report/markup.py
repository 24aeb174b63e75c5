"""The report's templates: what a message says becomes text of the page and nothing else.

Invariant: every value is made printable and escaped, unless it is `Markup` that our own code made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rowbus.errors.printable import printable_lines
from rowbus.spark.pipelines.report.units import count, moment, size, span

FILTERS: Final = {"count": count, "moment": moment, "size": size, "span": span}


def render(template: str, values: Mapping[str, object]) -> str:
    """Return a template of `templates/` with these values."""
    return environment().get_template(template).render(values)


def environment() -> Environment:
    """Return what templates are rendered with."""
    made = Environment(
        loader=PackageLoader("rowbus.spark.pipelines.report"),
        autoescape=True,
        finalize=_printable,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters.update(FILTERS)
    return made


def shown(text: str) -> str:
    """Return text with unprintable characters escaped as in Python: nothing may reorder or hide what is on the page."""
    return printable_lines(text.replace("\t", "    ").replace("\r\n", "\n"))


def _printable(value: object) -> object:
    if value is None:
        return ""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value
