"""docs/privileges.md is what a fresh installation is like, on every server; `make privileges` writes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security import catalogue, commands
from tests.security.installation import ROLES, Installation, installed
from tests.security.page import PAGE, granting


@pytest.fixture
def place(database: str) -> Iterator[Installation]:
    """Give a fresh installation of everything, with its roles."""
    with installed(database) as place:
        yield place


def test_the_catalogue_says_what_the_page_says(place: Installation) -> None:
    text = PAGE.read_text("utf-8")

    assert granting() in text
    assert catalogue.page(place) in text, "after a change that is meant: make privileges"


@pytest.mark.slow  # a command line for each role and command
@pytest.mark.product
@pytest.mark.one_version
@pytest.mark.timeout(600)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_can_run_the_commands_that_the_page_says(place: Installation, role: str) -> None:
    outcomes = commands.outcomes(place, role)

    assert {command for command, said in outcomes.items() if not said} == commands.allowed(
        PAGE.read_text("utf-8"), role
    ), outcomes


def test_no_documented_role_is_more_than_it_says(place: Installation) -> None:
    """None may log in as, become or make another role, nor owns or makes anything outside its schema."""
    flags = """
        select rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication
        from pg_roles where rolname = any(%s)
    """
    memberships = """
        select m.rolname || ' ' || g.rolname from pg_auth_members as a
        inner join pg_roles as g on g.oid = a.roleid inner join pg_roles as m on m.oid = a.member
        where m.rolname = any(%s) and g.rolname !~ '^pgq_'
    """
    owned = """
        select count(*) from pg_shdepend
        where deptype = 'o' and refobjid in (select oid from pg_roles where rolname = any(%s))
    """
    names = list(place.names.values())

    assert {flag for (flag,) in place.owner.execute(flags, [names])} == {False}
    assert place.owner.execute(memberships, [names]).fetchall() == []
    assert place.owner.execute(owned, [names]).fetchone() == (0,)
