"""A stream whose options are wrong: it fails with the sentence that says so, and without a Python traceback.

When Spark loads a source it does not say whether a stream or a batch will be read, so the first moment to refuse a
stream is when its query begins. A reader that cannot even be made fails there with an error of Spark's own on top
(`UnboundLocalError`), which hides ours; so there is a reader, and all that Spark asks it for raises.

Invariant: no I/O, and only methods that Spark calls in a process of its own touch the environment.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from rowbus.errors import ConfigurationError, RowbusError

_HIDE: Final = "SPARK_HIDE_TRACEBACK"
_OURS: Final = "rowbus"


class RefusedStream(DataSourceStreamReader):
    """The reader of a stream that must not run."""

    def __init__(self, error: ConfigurationError) -> None:
        """Keep what Spark is to be told."""
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse a new query."""
        self._refuse()

    def latestOffset(self, start: object = None, limit: object = None) -> NoReturn:  # noqa: ARG002, N802 - Spark's
        """Refuse a query that goes on from its checkpoint."""
        self._refuse()

    def partitions(self, start: object, end: object) -> NoReturn:  # noqa: ARG002 - Spark's signature
        """Refuse a query that repeats its last batch."""
        self._refuse()

    def read(self, partition: object) -> NoReturn:  # noqa: ARG002 - Spark's signature
        """Refuse a task; Spark plans none."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        with one_sentence():
            raise self._error


@contextmanager
def one_sentence() -> Generator[None]:
    """Let Spark tell what is wrong with options, schema or the database they name without a Python traceback."""
    if os.environ.get(_HIDE) == _OURS:  # a mistake before this one, in the same process
        del os.environ[_HIDE]
    try:
        yield
    except RowbusError:
        os.environ.setdefault(_HIDE, _OURS)  # Spark asks for it when the error has reached it
        raise
