"""Every argument of PgQ's triggers does what the C extension's does (docs/wire-format.md#trigger-arguments)."""

from __future__ import annotations

import psycopg
import pytest

from tests.fixtures.every import every
from tests.log.trigger_arguments import ARGUMENTS, TABLE
from tests.log.trigger_cases import TRIGGERS, Case, check, check_oracle, play, prepare


@pytest.mark.slow
@pytest.mark.product
@pytest.mark.parametrize("generate", [False, True], ids=["any-table", "generated"])
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_arguments_mean_and_refuse_what_those_of_the_extension_do(
    pgq: psycopg.Connection, trigger: str, *, generate: bool
) -> None:
    check(pgq, trigger, ARGUMENTS, generate=generate)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_the_golden_file_holds_the_answers_of_the_extension_to_arguments(
    oracle: psycopg.Connection, trigger: str
) -> None:
    check_oracle(oracle, trigger, ARGUMENTS)


@every("expression", ['"Odd Col" || 1', '("Odd Col") || 1', '(upper("Odd Col") || 1) collate "C"'])
def test_an_expression_may_quote_names_which_the_extension_refuses(
    pgq: psycopg.Connection, expression: str
) -> None:
    prepare(pgq)
    case = Case(
        "quoted", "t", TABLE, ("insert into t values (1, 'o', 5, 'O')",), ("q", f"ev_extra2={expression}")
    )

    [[outcome, event]] = play(pgq, "jsontriga", case)

    assert outcome == "done"
    assert event[4] == "O1"  # type: ignore[index] # an event is a list


def test_a_trigger_function_is_called_by_triggers_only(pgq: psycopg.Connection) -> None:
    for trigger in TRIGGERS:
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            pgq.execute(f"select pgq.{trigger}()")
