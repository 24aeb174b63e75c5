"""Commands that only look: run by a superuser, they call no function that a role with CREATE in public put there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fixtures.command_line import Ask, CommandLine

MALLORY = "rowbus_test_mallory"
TRAPS = """
    create sequence public.caught;
    create function public.trap() returns bool language plpgsql as $$
    begin
        if current_user <> 'rowbus_test_mallory' then perform pg_catalog.nextval('public.caught'); end if;
        return true;
    end $$;
    grant all on sequence public.caught to public;
    create function public.format(text, text) returns text language sql
    as $$ select public.trap(); select pg_catalog.format($1, $2) $$;
    create function public.hashtextextended(text, int4) returns int8 language sql
    as $$ select public.trap(); select pg_catalog.hashtextextended($1, $2) $$;
    create function public.cardinality(text[]) returns int language sql
    as $$ select public.trap(); select pg_catalog.cardinality($1) $$;
    create function public.unnest(int2[]) returns setof int2 language sql
    as $$ select public.trap(); select pg_catalog.unnest($1) $$;
    create function public.unnest(int2vector) returns setof int2 language sql
    as $$ select public.trap(); select pg_catalog.unnest($1::int2[]) $$;
    create function public.unnest(text[]) returns setof text language sql
    as $$ select public.trap(); select pg_catalog.unnest($1) $$;
    create function public.format(text, text, text) returns text language sql
    as $$ select public.trap(); select pg_catalog.format($1, $2, $3) $$;
    create function public.format(text, name, name, text) returns text language sql
    as $$ select public.trap(); select pg_catalog.format($1, $2, $3, $4) $$;
    create function public.array_agg_more(text[], text) returns text[] language sql
    as $$ select public.trap(); select pg_catalog.array_append($1, $2) $$;
    create aggregate public.array_agg(text) (sfunc = public.array_agg_more, stype = text[])
"""
"""Functions whose parameters fit calls of ours better than those of pg_catalog's, which take any or a wider type."""

LOOKING = [
    ["doctor"],
    ["queue", "list"],
    ["delayed", "list"],
    ["schema", "verify"],
    ["schema", "verify", "--log"],
]


@pytest.fixture
def trapped(rowbus: CommandLine, ask: Ask) -> CommandLine:
    """Give a command line, as superuser, on a database in whose schema public mallory has made functions."""
    assert rowbus("log", "install").returncode == 0
    assert rowbus("log", "create", "orders").returncode == 0
    assert rowbus("queue", "create", "Sales").returncode == 0
    assert rowbus("delayed", "create", "Sales").returncode == 0
    ask("insert into public.\"Sales.Delayed\" (headers, body, due) values ('{}', '', now())")
    ask(
        f"drop role if exists {MALLORY}; create role {MALLORY}; grant create, usage on schema public to {MALLORY}"
    )
    ask(f"set role {MALLORY}; {TRAPS}; reset role")
    return rowbus


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_command_that_looks_runs_no_function_of_another_role(
    trapped: CommandLine, ask: Ask, command: list[str]
) -> None:
    done = trapped(*command)

    assert "Failed" not in done.stderr
    assert ask("select is_called from public.caught") == [(False,)]
    ask(f"drop owned by {MALLORY} cascade; drop role {MALLORY}")
