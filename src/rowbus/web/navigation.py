"""The pages, in the order of the navigation. A new page is a line here.

Invariant: no two routes have the same name or path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.web.delayed import page as delayed
from rowbus.web.failed import page as failed
from rowbus.web.history import page as operations
from rowbus.web.logs import page as logs
from rowbus.web.overview import page as overview
from rowbus.web.subscriptions import page as subscriptions

if TYPE_CHECKING:
    from rowbus.web.pages import Page

PAGES: Final[tuple[Page, ...]] = (
    overview.PAGE,
    failed.PAGE,
    delayed.PAGE,
    subscriptions.PAGE,
    logs.PAGE,
    overview.FINDINGS,
    operations.PAGE,
)
