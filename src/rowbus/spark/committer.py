"""The process in which Spark has a stream's batch committed: one for each micro-batch, ended after its answer.

Spark closes its end of the connection once it has the answer, and Spark's Python then fails to say goodbye. On TCP
that goes unnoticed; on a Unix socket (`rowbus.spark.session()` chooses them) it prints a traceback for each
micro-batch, though nothing is wrong.
"""

from __future__ import annotations

import os
from typing import Final

UNIX_SOCKETS: Final = "PYTHON_UNIX_DOMAIN_ENABLED"
"""Spark sets it in the environment of its Python processes."""

STDERR: Final = 2


def fall_silent() -> None:
    """Print no errors from here on: the batch is committed, and this process has nothing left to do.

    Does nothing where Spark and Python speak through TCP, and outside Spark's processes.
    """
    if os.environ.get(UNIX_SOCKETS, "").lower() != "true":
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDERR)
    os.close(nowhere)
