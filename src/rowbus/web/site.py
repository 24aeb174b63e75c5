"""The site: what all requests share.

Invariants: at most `MOST_SESSIONS` sessions at a time work for people, and one looks for all of them; the version of
the assets changes when any of them does.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

import anyio
from anyio.to_thread import run_sync
from jinja2 import Environment, PackageLoader, StrictUndefined

from rowbus.database.backends import addresses_of, inspecting, open_database
from rowbus.database.location import resolve_dsn
from rowbus.running.critical import Outage
from rowbus.web import showing
from rowbus.web.operations import Operations
from rowbus.web.sampling.sampler import Sampler
from rowbus.web.visitors import Seals

if TYPE_CHECKING:
    from starlette.routing import Router

    from rowbus.database.sessions import Session
    from rowbus.web.pages import Page
    from rowbus.web.settings import WebSettings


@cache
def version_of_assets() -> str:
    """Return the beginning of a hash over all assets."""
    found = hashlib.sha256()
    for file in sorted(files("rowbus.web").joinpath("assets").iterdir(), key=lambda one: one.name):
        if file.is_file():
            found.update(file.read_bytes())
    return found.hexdigest()[:12]


@cache
def _templates() -> Environment:
    """Give the templates; those of one site are another's, and compiled once."""
    made = Environment(
        loader=PackageLoader("rowbus.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(showing.FILTERS)
    return made


P = ParamSpec("P")
T = TypeVar("T")

APPLICATION_NAME: Final = "rowbus web"
MOST_SESSIONS: Final = 4


class Site:
    """The database, the settings, the pages, and what was found and done so far."""

    routes: Router

    def __init__(self, dsn: str | None, settings: WebSettings, pages: tuple[Page, ...]) -> None:
        """Take a connection string, as every command does. Starts the embedded server if there is no other."""
        found = resolve_dsn(dsn)
        self.database = open_database(found, application_name=APPLICATION_NAME)
        self.addresses = addresses_of(found)
        self.settings = settings
        self.pages = pages
        self.seals = Seals(settings.secret)
        self.operations = Operations()
        self.outage = Outage("Looking at the database", logging.getLogger("rowbus.web"))
        self.sampler = Sampler(self)
        self.version = version_of_assets()
        self._permits = anyio.CapacityLimiter(MOST_SESSIONS)
        self.templates = _templates()

    async def read(
        self, work: Callable[Concatenate[Session, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Call `work(session, …)` in a thread, on a session that only reads."""

        def run() -> T:
            with inspecting(self.database) as session:
                return work(session, *arguments, **named)

        return await run_sync(run, limiter=self._permits)

    async def write(
        self, work: Callable[Concatenate[Session, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Do the same on a session that may change something."""

        def run() -> T:
            with self.database.session() as session:
                return work(session, *arguments, **named)

        return await run_sync(run, limiter=self._permits)

    async def close(self) -> None:
        """End what runs in the background."""
        await self.operations.close()
        await self.sampler.stop()
