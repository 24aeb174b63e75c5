"""plpgsql_check, where it is installed, finds no error and no injection in our functions."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.spark import schema as spark_installer

Connection = psycopg.Connection[Any]

FINDINGS = """
    select p.proname, f.level, f.message
    from pg_proc as p
    inner join pg_language as l on l.oid = p.prolang
    cross join lateral plpgsql_check_function_tb(
        p.oid::regprocedure, security_warnings => true, extra_warnings => false, other_warnings => false,
        fatal_errors => false, anyelememttype => 'pgq.queue'::regtype
    ) as f
    where l.lanname = 'plpgsql' and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
        and p.pronamespace::regnamespace::text in ('pgq', 'pgq_coop', 'pgq_ext', 'pgq_node', 'rowbus_spark')
"""
KNOWN = {
    (
        "check_trigger",
        "error",
    ): "it is given a record of trigger_options(), whose columns the checker cannot know",
    ("evaluate_expression", "security"): "the expression is of who made the trigger, and run as who fires it",
    ("check_expressions", "security"): "the same; it is only prepared",
    ("get_batch_cursor", "security"): "the condition is the caller's, and run with the caller's rights",
    ("get_range_events", "security"): "_range_sql() wrote it",
    ("upgrade_schema", "security"): "the rest is one of two constants",
    ("_grant_perms_from", "security"): "the privilege and the options come from the catalogue",
    ("seq_getval", "security"): "quote_fqname() quoted it",
    ("_create_event_tables", "security"): "quote_fqname() quoted it",
    ("append_stage", "security"): "insert_statement() wrote it",
    ("apply_to_tables", "error"): "it loops over the rows of a query that it builds",
    ("apply_to_tables", "security"): "union_of_stages() quoted the stages",
    ("apply_to_table", "security"): "prepare_replica_table() quoted the name, change_code() wrote the rest",
    ("check_changes", "security"): "union_of_stages() quoted the stages",
    (
        "create_replica_table",
        "security",
    ): "format_type() spelt the types, prepare_replica_table() quoted the name",
    ("reshape_replica_table", "security"): "the same",
    ("alter_replica_table", "security"): "the same; reshape_replica_table() wrote the change",
    ("empty_table", "security"): "prepare_replica_table() quoted the name",
    ("empty_tables", "security"): "the same",
    ("make_trigger", "security"): "the table is a regclass, its arguments are quoted, the rest is constants",
    ("create_stage", "security"): "types are checked by the cast to regtype",
    ("merge_stages", "security"): "merge_statement() wrote it",
}
"""Findings that were looked at and let be: by function and level, with the reason."""


def test_the_checker_finds_nothing_new(pgq: Connection, log_database: str) -> None:
    if not pgq.execute("select from pg_available_extensions where name = 'plpgsql_check'").rowcount:
        pytest.skip("plpgsql_check is not installed for this server")
    with Database(log_database).session() as session:
        spark_installer.ensure(session)
    pgq.execute("create extension plpgsql_check")

    found = {(name, level, message) for name, level, message in pgq.execute(FINDINGS) if level != "warning"}
    assert {finding for finding in found if finding[:2] not in KNOWN} == set()


def test_the_checker_sees_an_injection(pgq: Connection) -> None:
    if not pgq.execute("select from pg_available_extensions where name = 'plpgsql_check'").rowcount:
        pytest.skip("plpgsql_check is not installed for this server")
    pgq.execute("create extension plpgsql_check")
    body = "$$begin execute 'select ' || i_text; end$$"
    pgq.execute(f"create function pgq.careless(i_text text) returns void language plpgsql as {body}".encode())

    assert ("careless", "security") in {(name, level) for name, level, _ in pgq.execute(FINDINGS)}
