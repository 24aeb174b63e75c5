"""Statements that differ with the columns a table has: some SQL Server tables lack columns that others have.

A query for tables with certain columns names the query for those without. A session asks the server for the columns
before the first such statement on a table, remembers the answer beside the table's statements, and forgets it when a
statement fails on a column: the next try asks again.

Invariant: nothing here does I/O; what is remembered belongs to one table object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rowbus.database.statements import Query, Statement


class KnownColumns:
    """What the server last said about the columns of one table."""

    def __init__(self, probe: Statement[frozenset[str]]) -> None:
        """Know nothing; `probe` asks for the names of the columns, in small letters."""
        self.probe = probe
        self._columns: frozenset[str] | None = None

    @property
    def unknown(self) -> bool:
        """Whether the server is to be asked."""
        return self._columns is None

    def learn(self, columns: frozenset[str]) -> None:
        """Note the answer; a table without columns is missing, and is asked for again."""
        self._columns = columns or None

    def forget(self) -> None:
        """Have the server asked again: a statement failed on a column."""
        self._columns = None

    def lack(self, columns: frozenset[str]) -> bool:
        """Say whether the table is known to lack any of these."""
        return self._columns is not None and not columns <= self._columns


class Adaptation(NamedTuple):
    """What a query needs of its table, and the query for tables that lack it."""

    known: KnownColumns
    needs: frozenset[str]
    otherwise: Query


def fitting(query: Query) -> Query:
    """Return the query that fits the table, as far as its columns are known."""
    adaptation = query.adaptation
    if adaptation is not None and adaptation.known.lack(adaptation.needs):
        return adaptation.otherwise
    return query
