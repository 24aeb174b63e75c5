"""Workers and servers are killed while messages go through: nothing is lost, and nothing happens twice that must not.

The workers are processes of their own (`crash_programs/worker.py`), killed with SIGKILL at random moments that follow
from their progress, so that each kill hits one at work. What became of every message is read off the database in one
snapshot (`fixtures/history.py`), after each kill and at the end.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowbus.settings import TransactionMode
from tests.acceptance.crash_programs import PROGRAMS
from tests.fixtures.database import CrashableServer
from tests.fixtures.history import History, Snapshot, recorded
from tests.fixtures.processes import Program, Programs, await_that
