"""What the tests of the pipelines share."""

from __future__ import annotations

import psycopg
import pytest

from tests.spark.pipelines.shop import CAPTURE, TABLES, Shop


@pytest.fixture
def shop(request: pytest.FixtureRequest, log_database: str, pgq: psycopg.Connection) -> Shop:
    """Give a database whose tables are captured, as JSON unless a test is parametrized."""
    pgq.execute(TABLES)
    pgq.execute(CAPTURE.format(form=getattr(request, "param", "json")))
    return Shop(log_database, pgq)
