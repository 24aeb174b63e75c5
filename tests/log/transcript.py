"""Statements and their answers as text, so that two databases can be compared, and the answers approved.

A transcript has a line `> statement` for each statement and below it what came back: a line for each row as JSON, an
error as `! SQLSTATE message`, a warning as `~ message`. A statement that begins with the name of a function is a call
of a function of a schema: `get_node_info('q')` stands for `select * from pgq_node.get_node_info('q')`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg

PLAIN = {"select", "update", "insert", "delete", "begin", "rollback", "set", "alter", "create", "fetch"}


def statements(transcript: str) -> list[str]:
    """Return the statements of a transcript, without their answers."""
    return [line.removeprefix("> ") for line in transcript.splitlines() if line.startswith("> ")]


def replay(connection: psycopg.Connection, schema: str, asked: list[str]) -> str:
    """Run statements one after the other and write the transcript."""
    warnings: list[str] = []
    connection.add_notice_handler(lambda notice: warnings.append(f"~ {notice.message_primary}"))
    lines: list[str] = []
    for statement in asked:
        lines += [f"> {statement}", *answers(connection, schema, statement), *warnings]
        warnings.clear()
    return "\n".join(lines) + "\n"


def answers(connection: psycopg.Connection, schema: str, statement: str) -> Iterator[str]:
    plain = statement.split(maxsplit=1)[0] in PLAIN
    text = statement if plain else f"select * from {schema}.{statement}"
    try:
        cursor = connection.execute(text.encode())
    except psycopg.Error as error:
        yield f"! {error.sqlstate} {error.diag.message_primary}"
        return
    if cursor.description:
        yield from (json.dumps(row, ensure_ascii=False, default=str) for row in cursor)
