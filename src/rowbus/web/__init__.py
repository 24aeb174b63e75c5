"""Rowbus web: the operator's page, served by `rowbus web` or mounted into an application of one's own.

```python
app = Starlette(routes=[Mount("/rowbus", rowbus.web.application(database=DSN, who=signed_in))])
```

How it is built, and how a page is added: docs/architecture/web.md.

Invariant: nothing of Starlette or Jinja is loaded until an application is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowbus.errors.extras import require
from rowbus.running.lazy_names import lazy_names

if TYPE_CHECKING:
    from rowbus.web.asgi import application
    from rowbus.web.openid.settings import OpenIdConnect
    from rowbus.web.settings import WebSettings
    from rowbus.web.visitors import Person, Role

__all__ = ["OpenIdConnect", "Person", "Role", "WebSettings", "application"]

_PLACES = {
    "OpenIdConnect": "openid.settings",
    "Person": "visitors",
    "Role": "visitors",
    "WebSettings": "settings",
    "application": "asgi",
}

_load = lazy_names(__name__, _PLACES)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the module's names have many types
    """Import a name when it is asked for; raises MissingExtraError for an application without the extra web."""
    if name == "application":
        require("web", "starlette", "jinja2", what="rowbus.web.application")
    return _load(name)
