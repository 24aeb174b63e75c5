"""Statements that differ with the columns a table has: some SQL Server tables lack columns that others have.

A query for tables with certain columns names the query for those without. A session asks the server for the columns
before the first such statement on a table, remembers the answer for all sessions of its database, and forgets it when
a statement fails on a column: the next try asks again.

Invariant: nothing here does I/O; an answer is kept with the database that gave it, never with the SQL, which clients of
several databases share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.running.bounded import Bounded

if TYPE_CHECKING:
    from rowbus.database.statements import Query, Statement


class Adaptation(NamedTuple):
    """What a query needs of its table, how to ask for the table's columns, and the query for tables that lack them."""

    table: str
    """The table's qualified name, under which its columns are remembered."""
    probe: Statement[frozenset[str]]
    """Asks for the names of the columns, in small letters."""
    needs: frozenset[str]
    otherwise: Query


class KnownColumns:
    """The columns of one database's tables, as the server last listed them. For any number of threads."""

    def __init__(self) -> None:
        """Know no table."""
        self._columns: dict[str, frozenset[str]] = Bounded()

    def knows(self, table: str) -> bool:
        """Say whether the columns of a table are known."""
        return table in self._columns

    def learn(self, table: str, columns: frozenset[str]) -> None:
        """Note the answer; a table without columns is missing, and is asked for again."""
        if columns:
            self._columns[table] = columns

    def forget(self, table: str) -> None:
        """Have the server asked again: a statement failed on a column."""
        self._columns.pop(table, None)

    def fitting(self, query: Query) -> Query:
        """Return the query that fits its table, as far as the table's columns are known."""
        adaptation = query.adaptation
        if adaptation is None:
            return query
        columns = self._columns.get(adaptation.table)
        return query if columns is None or columns >= adaptation.needs else adaptation.otherwise
