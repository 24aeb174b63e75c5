"""pgq.logutriga does what the C extension's does, table by table (reference/pgq.md §5.1, §5.2)."""

from __future__ import annotations

import psycopg
import pytest

from tests.log.trigger_cases import check, check_oracle
from tests.log.trigger_tables import TABLES


@pytest.mark.parametrize("generate", [False, True], ids=["any-table", "generated"])
def test_logutriga_writes_a_row_as_the_extension_does(pgq: psycopg.Connection, *, generate: bool) -> None:
    check(pgq, "logutriga", TABLES, generate=generate)


def test_the_golden_file_holds_the_answers_of_the_extensions_logutriga(oracle: psycopg.Connection) -> None:
    check_oracle(oracle, "logutriga", TABLES)
