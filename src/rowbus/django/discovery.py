"""The endpoints of a project: those in the module `endpoints` of its apps, for Django and for `rowbus run`.

The module is not called `rowbus`: where an app's own folder is on Python's path, as for a script in it, `import rowbus`
would find that file in place of the package.

`rowbus.django.discovery:shop.endpoints.sales` is shop.endpoints:sales, after Django was set up as
DJANGO_SETTINGS_MODULE says. `manage.py rowbus run` names its endpoints so.

Invariant: an endpoint is known by where it is defined, `shop.endpoints:sales`, so that it is found once.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import django
from django.apps import apps

from rowbus import ConfigurationError, Endpoint

if TYPE_CHECKING:
    from types import ModuleType

MODULE = "endpoints"


def endpoints() -> dict[str, Endpoint]:
    """Import the module `endpoints` of each app that has one, and return their endpoints by MODULE:NAME."""
    names = [f"{app.name}.{MODULE}" for app in apps.get_app_configs()]
    modules = [import_module(name) for name in names if find_spec(name) is not None]
    found = {
        id(value): (f"{module.__name__}:{name}", value)
        for module in reversed(modules)
        for name, value in reversed(vars(module).items())
        if isinstance(value, Endpoint)
    }
    return dict(reversed(found.values()))


def only_endpoint() -> str:
    """Return MODULE:NAME of the one endpoint there is; raises ConfigurationError for none and for several."""
    found = endpoints()
    if len(found) == 1:
        return next(iter(found))
    if not found:
        raise ConfigurationError(
            f"No app of INSTALLED_APPS has an endpoint in its module {MODULE}: for example, in shop/{MODULE}.py, "
            'sales = rowbus.django.Endpoint("Sales").'
        )
    raise ConfigurationError(f"There are several endpoints; say which to run: {', '.join(found)}.")


def served(target: str) -> str:
    """Return what `rowbus run` is told for MODULE:NAME."""
    return f"{__name__}:{target.replace(':', '.')}"


def __getattr__(name: str) -> ModuleType:
    """Return a package of the project's, once Django is set up and its endpoints are imported."""
    if name.startswith("__"):
        raise AttributeError(name)
    django.setup()
    endpoints()
    return import_module(name)
