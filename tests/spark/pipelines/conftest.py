"""Fixtures of the pipelines' tests."""

from __future__ import annotations

import psycopg
import pytest

from tests.spark.pipelines.shop import CAPTURE, TABLES, Shop


@pytest.fixture
def form() -> str:
    """Give the form in which changes are captured, JSON unless a test is parametrized."""
    return "json"


@pytest.fixture
def log_script(form: str) -> str:
    """Give what makes tables that are captured."""
    return TABLES + CAPTURE.format(form=form)


@pytest.fixture
def shop(log_database: str, pgq: psycopg.Connection) -> Shop:
    """Give a database whose tables are captured."""
    return Shop(log_database, pgq)
