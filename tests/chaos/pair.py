"""A primary and the synchronous standby that confirms each of its commits.

Invariant: while a standby is named, nothing is committed before it has it; who takes the place of a lost one is a copy
of the new primary.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.chaos.processes import await_that
from tests.chaos.server import Server

IS_FOLLOWED = "select from pg_stat_replication where sync_state = 'sync'"


class Pair:
    """Two servers, of which the one follows the other."""

    def __init__(self, folder: Path, primary: Server, closing: ExitStack) -> None:
        """Have a primary followed by a standby in a folder, until `closing` ends."""
        self.primary = primary
        self._folder = folder
        self._closing = closing
        self._standbys = 0
        self.standby = self._follow(primary)

    def fail_over(self) -> None:
        """Lose the primary, and promote the standby."""
        self.primary.stop(signal.SIGQUIT)
        self.standby.promote()

    def complete(self) -> None:
        """Have a new standby follow what was the standby, in the place of the server that was lost."""
        lost, self.primary = self.primary, self.standby
        shutil.rmtree(lost.folder)  # a hundred of them would fill the machine's disk
        self.standby = self._follow(self.primary, lost.port)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the standby away, though it is named: nothing is committed meanwhile."""
        self.standby.stop(signal.SIGINT)
        with psycopg.connect(self.primary.dsn("postgres"), autocommit=True) as connection:
            await_that(lambda: not _is_followed(connection), "the standby to be away")
            yield
            self.standby.start()
            await_that(lambda: _is_followed(connection), "the standby to be back")

    def _follow(self, primary: Server, port: int | None = None) -> Server:
        """Make a standby of a primary, which waits for it from now on: nothing that it confirmed is in one place."""
        self._standbys += 1
        standby = Server(self._folder / f"standby {self._standbys}")
        standby.port = port or standby.port
        self._closing.callback(standby.stop)
        standby.copy(primary, f"standby{self._standbys}")
        standby.start()
        with psycopg.connect(primary.dsn("postgres"), autocommit=True) as connection:
            connection.execute(
                f"alter system set synchronous_standby_names = 'standby{self._standbys}'".encode()
            )
            connection.execute("select pg_reload_conf()")
            await_that(lambda: _is_followed(connection), "the standby to follow")
        return standby


def _is_followed(connection: psycopg.Connection[Any]) -> bool:
    return connection.execute(IS_FOLLOWED).rowcount > 0
