"""Pages for those who are not in: why not, and where to go.

Invariant: they show nothing of the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import HTMLResponse

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.web.site import Site


class Link(NamedTuple):
    """A way on."""

    href: str
    label: str


def outside(
    site: Site, status: int, text: str, *, title: str = "Not let in", links: Sequence[Link] = ()
) -> Response:
    """Answer with such a page."""
    template = site.templates.get_template("out.html")
    return HTMLResponse(template.render(text=text, title=title, links=links), status)
