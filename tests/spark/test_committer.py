"""What the process that commits a stream's batch still prints afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rowbus.spark.committer import UNIX_SOCKETS

PROGRAM = """
import sys
from rowbus.spark.committer import fall_silent
print("before", file=sys.stderr, flush=True)
fall_silent()
print("after", file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("sockets, said", [("true", ["before"]), ("false", ["before", "after"])])
def test_a_committer_is_silent_after_its_commit_where_spark_speaks_through_unix_sockets(
    sockets: str, said: list[str]
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, UNIX_SOCKETS: sockets},
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )

    assert ended.stderr.split() == said
