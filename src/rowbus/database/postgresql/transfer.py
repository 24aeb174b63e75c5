"""Rows that go from one server to another as they are: the text of a COPY, passed on block by block.

Invariant: nothing is parsed or kept; memory is one block, and both transactions are the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from rowbus.database.postgresql.faults import translate

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query


def pass_on(source: Session, reading: Query, target: Session, writing: Query) -> int:
    """Write what a `copy … to stdout` reads with a `copy … from stdin`; return how many rows that were."""
    try:
        with source.connection.cursor() as out, target.connection.cursor() as into:
            with out.copy(reading.text) as blocks, into.copy(writing.text) as copy:
                for block in blocks:
                    copy.write(block)
            return into.rowcount
    except psycopg.Error as error:
        raise translate(error, writing) from error
