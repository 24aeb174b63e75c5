"""The overview, and what the doctor found.

Invariant: written from the latest snapshot, and the indexes of failed messages as far as they are filled: a visit waits
for nothing of the database.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rowbus.web.failed.indexes import indexes
from rowbus.web.overview import figures
from rowbus.web.pages import Page, View
from rowbus.web.sparkline import sparkline

if TYPE_CHECKING:
    from collections.abc import Callable

    from markupsafe import Markup
    from starlette.responses import Response

    from rowbus.web.visit import Visit


async def _show(visit: Visit) -> Response:
    snapshot = visit.snapshot
    return visit.render(
        "overview/page.html",
        snapshot=snapshot,
        totals=figures.totals(snapshot),
        groups=_groups(visit),
        queues=figures.queues_wanted(
            snapshot.queues, text=visit.query.get("q", ""), order=visit.query.get("sort", "name")
        ),
        endpoints=figures.endpoints(snapshot),
        programs=figures.programs(snapshot.instances),
        logs=figures.logs(snapshot),
        to_do=figures.to_do(snapshot.findings),
        spark=_sparks(visit),
        nears_its_end=figures.nears_its_end,
    )


def _groups(visit: Visit) -> int | None:
    """Return how many groups of failures there are; None unless all error queues that hold any were read."""
    kept = indexes(visit.site)
    failed = [queue for queue in visit.snapshot.error_queues() if queue.depth]
    counts = [kept.groups(visit.site, queue) for queue in failed]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(failed) else None


async def _examined(visit: Visit) -> Response:
    findings = visit.snapshot.findings
    return visit.render("overview/findings.html", findings=findings, to_do=figures.to_do(findings))


def _sparks(visit: Visit) -> Callable[..., Markup]:
    """Return what draws the last hour of a figure."""
    now, history = time.monotonic(), visit.site.sampler.history

    def spark(what: str, *key: object) -> Markup:
        return sparkline(history.series(key, now), what, lambda value: f"{value or 0:,.10g}")

    return spark


PAGE: Final = Page("Overview", (View("overview", "/", _show),))
FINDINGS: Final = Page("Doctor", (View("findings", "/doctor", _examined),))
