"""Rights on a log: everybody everything in the old style, each by role in the new one.

Source: docs/wire-format.md#log-grants.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

Connection = psycopg.Connection[Any]

FUNCTIONS = """
    select p.oid::regprocedure::text, array(
        select case when grantee = 0 then 'public' else grantee::regrole::text end
        from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee <> proowner order by 1)
    from pg_proc as p where pronamespace = 'pgq'::regnamespace
"""
TABLES = """
    select c.oid::regclass::text, array(
        select case when grantee = 0 then 'public' else grantee::regrole::text end || ' ' || privilege_type
        from aclexplode(relacl) where grantee <> relowner order by 1)
    from pg_class as c where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'S')
"""
PEOPLE = ("public", "pgq_reader", "pgq_writer", "pgq_admin")
METADATA = ("consumer", "queue", "tick", "subscription")


@pytest.fixture
def split(pgq: Connection) -> Connection:
    """Give a connection; there is a queue, and privileges are split by role, as after an installation."""
    pgq.execute("select pgq.create_queue('q')")
    return pgq


@pytest.fixture
def old(pgq: Connection) -> Connection:
    """Give a connection; privileges are those of a plain PgQ."""
    pgq.execute("select pgq.set_grants(i_style => 'old')")
    return pgq


def acl(connection: Connection, query: str) -> dict[str, list[str]]:
    return dict(connection.execute(query).fetchall())


def privileges(connection: Connection, table: str, who: str) -> set[str]:
    entries = acl(connection, TABLES)[f"pgq.{table}"]
    return {entry.split(" ")[1] for entry in entries if entry.startswith(f"{who} ")}


# --------------------------------------------------------------------------------------------------------------- old


def test_in_the_old_style_everybody_may_execute_every_function_of_pgqs(
    old: Connection, oracle: Connection
) -> None:
    ours = acl(old, FUNCTIONS)

    assert {name for name in acl(oracle, FUNCTIONS) if ours[name] != ["public"]} == set()


@pytest.mark.parametrize("table", [*METADATA, "event_template", "retry_queue"])
def test_in_the_old_style_everybody_may_read_the_tables_and_nobody_may_write_them(
    old: Connection, table: str
) -> None:
    assert acl(old, TABLES)[f"pgq.{table}"] == ["public SELECT"]


def test_in_the_old_style_everybody_may_read_the_events_of_a_queue(old: Connection) -> None:
    old.execute("select pgq.create_queue('q')")

    for table in ("event_1", "event_1_0", "event_1_1", "event_1_2", "event_1_tick_seq"):
        assert privileges(old, table, "public") == {"SELECT"}
    assert privileges(old, "event_1_id_seq", "pgq_admin") == {"USAGE"}


@pytest.mark.parametrize("style", ["old", "new"])
def test_what_only_the_schema_itself_calls_is_nobodys(pgq: Connection, style: str) -> None:
    pgq.execute("select pgq.set_grants(%s)", [style])
    found = acl(pgq, FUNCTIONS)

    for name in (
        "_generate_insert(integer)",
        "_generate_dispatch()",
        "_drop_event_tables(pgq.queue)",
        "_queue_changed()",
    ):
        assert found[f"pgq.{name}"] == []
    assert found["pgq.set_grants(text)"] == []


# --------------------------------------------------------------------------------------------------------------- new


def test_split_by_role_functions_are_granted_as_the_real_thing_grants_them(
    split: Connection, oracle: Connection
) -> None:
    ours = acl(split, FUNCTIONS)

    assert {name: ours[name] for name in acl(oracle, FUNCTIONS)} == acl(oracle, FUNCTIONS)


def test_split_by_role_tables_are_granted_as_the_real_thing_grants_them(
    split: Connection, oracle: Connection
) -> None:
    oracle.execute("select pgq.create_queue('q')")
    ours = acl(split, TABLES)

    assert {name: ours[name] for name in acl(oracle, TABLES)} == acl(oracle, TABLES)


EXPECTED = {
    "public": {"seq_getval", "get_queue_info", "get_consumer_info", "quote_fqname", "version"},
    "pgq_reader": {
        "batch_event_sql", "batch_event_tables", "find_tick_helper", "register_consumer", "register_consumer_at",
        "unregister_consumer", "next_batch", "next_batch_info", "next_batch_custom", "get_batch_events",
        "get_batch_info", "get_batch_cursor", "event_retry", "batch_retry", "force_tick", "finish_batch",
    },
    "pgq_writer": {"insert_event", "insert_events", "current_event_table", "jsontriga", "sqltriga", "logutriga"},
    "pgq_admin": {
        "ticker", "maint_retry_events", "maint_rotate_tables_step1", "maint_rotate_tables_step2",
        "maint_tables_to_vacuum", "maint_operations", "upgrade_schema", "grant_perms", "_grant_perms_from",
        "tune_storage", "seq_setval", "create_queue", "drop_queue", "set_queue_config", "insert_event_raw",
        "event_retry_raw",
    },
}  # fmt: skip


@pytest.mark.parametrize("role", EXPECTED)
def test_split_by_role_each_has_its_functions(split: Connection, role: str) -> None:
    found: dict[str, list[str]] = {}
    for signature, granted in acl(split, FUNCTIONS).items():
        found.setdefault(signature.removeprefix("pgq.").partition("(")[0], granted)

    assert {name for name in EXPECTED[role] if found.get(name) != [role]} == set()


def test_split_by_role_each_has_its_tables(split: Connection) -> None:
    change = {"SELECT", "INSERT", "UPDATE", "DELETE"}
    for table in METADATA:
        assert [privileges(split, table, who) for who in PEOPLE] == [{"SELECT"}, {"SELECT"}, set(), change]
    assert [privileges(split, "retry_queue", who) for who in PEOPLE] == [set(), set(), set(), change]
    for table in ("event_template", "event_1", "event_1_0"):
        expected: list[set[str]] = [set(), {"SELECT"}, set(), {"SELECT", "INSERT", "TRUNCATE"}]
        assert [privileges(split, table, who) for who in PEOPLE] == expected


@pytest.fixture
def stranger(split: Connection) -> Connection:
    """Give a connection whose transaction is a role's of no privileges, `rowbus_test_stranger`."""
    split.execute("drop role if exists rowbus_test_stranger; create role rowbus_test_stranger")
    return split


@pytest.mark.parametrize(
    "role,call",
    [
        ("pgq_writer", "select pgq.insert_event('q', 't', 'd')"),
        ("pgq_writer", "select pgq.insert_events('q', array['t'], array['d'])"),
        ("pgq_reader", "select pgq.register_consumer('q', 'c')"),
        ("pgq_admin", "select pgq.create_queue('another')"),
        ("pgq_admin", "select pgq.drop_queue('q')"),
        (
            "pgq_admin",
            "select pgq.insert_event_raw('q', 9, now(), null, null, 't', 'd', null, null, null, null)",
        ),
        ("pgq_admin", "update pgq.queue set queue_cur_table = 1"),
        ("pgq_admin", "select pgq.set_queue_option('q', 'max_retries', '1')"),
    ],
)
def test_split_by_role_a_member_may_and_others_may_not(stranger: Connection, role: str, call: str) -> None:
    connection = stranger
    connection.execute("set role rowbus_test_stranger")
    with pytest.raises(errors.InsufficientPrivilege):
        connection.execute(call)
    connection.execute("reset role")

    with connection.transaction(force_rollback=True):
        connection.execute(sql.SQL("grant {} to rowbus_test_stranger").format(sql.Identifier(role)))
        connection.execute("set local role rowbus_test_stranger")
        connection.execute(call)


def test_an_admin_may_insert_raw_into_a_limited_queue(stranger: Connection) -> None:
    stranger.execute("update pgq.queue set queue_per_tx_limit = 1")
    with stranger.transaction(force_rollback=True):
        stranger.execute("set local role pgq_admin")
        call = "select pgq.insert_event_raw('q', 9, now(), null, null, 't', 'd', null, null, null, null)"
        stranger.execute(call)
        with pytest.raises(errors.InternalError_, match="allows max 1 events"):
            stranger.execute(call)


def test_a_queue_created_later_is_split_too(split: Connection) -> None:
    split.execute("select pgq.create_queue('later')")

    assert privileges(split, "event_2_0", "public") == set()
    assert privileges(split, "event_2_0", "pgq_reader") == {"SELECT"}


def test_setting_the_style_that_there_is_changes_nothing(split: Connection) -> None:
    before = acl(split, FUNCTIONS), acl(split, TABLES)

    split.execute("select pgq.set_grants('new')")

    assert (acl(split, FUNCTIONS), acl(split, TABLES)) == before


def test_going_to_the_old_style_and_back_changes_nothing(split: Connection) -> None:
    before = acl(split, FUNCTIONS), acl(split, TABLES)

    split.execute("select pgq.set_grants('old'), pgq.set_grants('new')")

    assert (acl(split, FUNCTIONS), acl(split, TABLES)) == before


def test_the_old_style_can_be_had_again(split: Connection) -> None:
    split.execute("select pgq.set_grants('old')")

    assert acl(split, FUNCTIONS)["pgq.create_queue(text)"] == ["public"]
    assert privileges(split, "event_1_0", "public") == {"SELECT"}
    assert privileges(split, "queue", "pgq_admin") == set()


@pytest.mark.parametrize("style", ["'foo'", "null"])
def test_there_are_two_styles(pgq: Connection, style: str) -> None:
    with pytest.raises(
        errors.RaiseException, match=r"no such style of grants: (foo|NULL); there are old and new"
    ):
        pgq.execute(f"select pgq.set_grants({style})")
