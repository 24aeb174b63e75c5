"""Failed messages: the list, one message, and what can be done with them.

Invariant: as in `web/pages.py`.
"""

from __future__ import annotations

from typing import Final

from rowbus.web.failed import acting, editing, listing, message
from rowbus.web.pages import Action, Page, View

PAGE: Final = Page(
    "Failed",
    (
        View("failed", "/failed", listing.show),
        View("failed.message", "/failed/message/{row}", message.show),
        View("failed.edit", "/failed/message/{row}/edit", editing.show),
    ),
    (
        Action("failed.retry", "/failed/retry", "retry", acting.ask_to_retry, acting.retry),
        Action("failed.discard", "/failed/discard", "discard", acting.ask_to_discard, acting.discard),
        Action("failed.send", "/failed/send", "edit and retry", editing.ask, editing.send),
    ),
)
