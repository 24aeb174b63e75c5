"""No role gains what nobody gave it, and runs no code as another, whatever it calls in whatever order.

A role sets traps wherever it may create something, makes tables full of them, calls every function of ours that it may,
with hostile arguments and search paths, and then has the ordinary functions run, which PL/pgSQL may have compiled under
its path, and leaves the rest to the owner's maintenance. A trap that runs as another role advances a sequence, which no
rollback undoes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from psycopg import errors, sql

from tests.fixtures.pairs import effort
from tests.log.hostile_roles import (
    EXTRA_MAINTENANCE,
    ORDINARY,
    OTHER_CALLS,
    SECRET,
    SECRET_NUMBER,
    STATE,
    TABLES,
    THIEVES,
    Thief,
    calls,
    maintain,
    prepare,
    run,
    session,
    set_permanent_traps,
)

Connection = psycopg.Connection[Any]

LONG = effort(10.0, 60.0)  # seconds, for all roles together
QUICK = settings(
    max_examples=4,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(params=THIEVES, ids=str)
def thief(request: pytest.FixtureRequest, pgq: Connection) -> Iterator[Thief]:
    """Give a role, for which the database is prepared; what it was allowed is taken away in the end."""
    role: Thief = request.param
    prepare(pgq, role)
    yield role
    name = sql.Identifier(role.name)
    pgq.execute(sql.SQL("drop owned by {} cascade").format(name))
    pgq.execute(sql.SQL("drop role {}").format(name))


def attack(dsn: str, thief: Thief, statements: list[str]) -> None:
    """Have the role do its worst in one session, and then the owner the ordinary; see that nothing came of it."""
    with session(dsn, thief) as connection:
        stolen = run(connection, [*statements, *ORDINARY])
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("table public.secret")
    maintain(dsn)
    assert not [row for row in stolen if SECRET in str(row) or str(SECRET_NUMBER) in str(row)]
    with psycopg.connect(dsn) as owner:
        assert owner.execute("select is_called from watch.caught").fetchone() == (False,)
        assert owner.execute("select count(*) from public.secret").fetchone() == (4,)
        assert owner.execute("select last_value from public.secret_seq").fetchone() == (SECRET_NUMBER,)


def state(owner: Connection) -> list[Any]:
    return sorted(owner.execute(STATE.encode()).fetchall())


def attack_for(seconds: float, dsn: str, thief: Thief, owner: Connection) -> None:
    """Attack with generated sequences of calls, at least a few, until the time has passed."""
    if thief.has_schema:
        with psycopg.connect(dsn, options=f"-c role={thief.name}", autocommit=True) as connection:
            set_permanent_traps(connection, thief.name)
    before = state(owner)
    attack(dsn, thief, [statement for statement in TABLES if "drop table" not in statement])
    sequences = calls(owner, thief, (*OTHER_CALLS, *TABLES, EXTRA_MAINTENANCE))
    end = time.monotonic() + seconds
    QUICK(given(statements=sequences)(_attacks(dsn, thief)))()
    while time.monotonic() < end:
        QUICK(given(statements=sequences)(_attacks(dsn, thief)))()
    assert state(owner) == before


def _attacks(dsn: str, thief: Thief) -> Callable[[list[str]], None]:
    def test(statements: list[str]) -> None:
        attack(dsn, thief, statements)

    return test


@pytest.mark.slow
def test_no_role_gains_what_it_was_not_given(log_database: str, thief: Thief, pgq: Connection) -> None:
    attack_for(0.0, log_database, thief, pgq)


@pytest.mark.slow
def test_no_role_gains_what_it_was_not_given_for_long(
    log_database: str, thief: Thief, pgq: Connection
) -> None:
    attack_for(LONG / len(THIEVES), log_database, thief, pgq)


@pytest.mark.one_version
@pytest.mark.parametrize("thief", [THIEVES[0]], indirect=True, ids=str)
def test_the_traps_catch_a_helper_that_looks_names_up(
    log_database: str, thief: Thief, pgq: Connection
) -> None:
    body = "$$declare x text := 'x'; begin return 'x'; end$$"
    signature = "i_queue_id int4, i_from_tick bigint, i_to_tick bigint, i_owner_id int4"
    make = f"create or replace function pgq._range_sql({signature}) returns text language plpgsql stable as {body}"
    pgq.execute(make.encode())

    with pytest.raises(AssertionError):
        attack(log_database, thief, ["select pgq._range_sql(1, 1, 1, 1)"])
