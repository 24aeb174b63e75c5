"""The endpoints of a project for `rowbus run`, whose workers begin without Django.

`rowbus.django.served:shop.endpoints.sales` is shop.endpoints:sales, after Django was set up as DJANGO_SETTINGS_MODULE
says. `manage.py rowbus run` names its endpoints so.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import django

from rowbus.django.discovery import endpoints

if TYPE_CHECKING:
    from types import ModuleType


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
