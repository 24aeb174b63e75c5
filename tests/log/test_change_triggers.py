"""Each trigger does what the C extension's does, table by table (docs/wire-format.md#trigger-formats)."""

from __future__ import annotations

import psycopg
import pytest

from tests.log.trigger_cases import TRIGGERS, check, check_oracle
from tests.log.trigger_tables import TABLES

each_trigger = pytest.mark.parametrize("trigger", TRIGGERS)


@each_trigger
@pytest.mark.parametrize("generate", [False, True], ids=["any-table", "generated"])
def test_it_writes_a_row_as_the_extension_does(
    pgq: psycopg.Connection, trigger: str, *, generate: bool
) -> None:
    check(pgq, trigger, TABLES, generate=generate)


@each_trigger
def test_the_golden_file_holds_the_answers_of_the_extension(oracle: psycopg.Connection, trigger: str) -> None:
    check_oracle(oracle, trigger, TABLES)
