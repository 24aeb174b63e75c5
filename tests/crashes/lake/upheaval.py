"""Statements that upturn tables: partitions attached, detached and emptied, tables renamed, swapped and made anew.

Invariant: the tables are this writer's alone, so it knows their names and partitions after each of its transactions,
all of which commit.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tests.crashes.lake.tables import LOG, Action, Transaction, rekey
from tests.crashes.lake.values import BY_TYPE

ADDED: Final = ("text", "text default 'y'", "int", "date")
KINDS: Final = {
    "v": BY_TYPE["text"],
    "w": BY_TYPE["text"],
    "moment": BY_TYPE["timestamptz"],
    "d": BY_TYPE["double precision"],
    "days": BY_TYPE["date[]"],
    "span": BY_TYPE["interval"],
    "raw": BY_TYPE["bytea"],
    "times": BY_TYPE["tstzrange"],
}
COLUMNS: Final = ", ".join(("id int", "part int", *(f"{name} {kind.type}" for name, kind in KINDS.items())))
PARTITIONED: Final = ("pl", "pr")
"""One whose partitions are tables of a lake, and one that is a table itself."""

SHAPE: Final = f"({COLUMNS}, primary key (id, part))"
SETUP: Final = "; ".join(
    [
        *(f"create table {name} {SHAPE}" for name in ("sa", "sb", "rn0")),
        *(f"create table {name} {SHAPE} partition by list (part)" for name in PARTITIONED),
        *(f"create table {name}_0 partition of {name} for values in (0)" for name in PARTITIONED),
        *(f"select pgq.capture_table('{name}', '{LOG}')" for name in ("sa", "sb", "rn0", "pl")),
        f"select pgq.capture_table('pr', '{LOG}', 'json', '{{as-root}}')",
    ]
)
PARTS: Final = 6
KEYS: Final = 40


class Upheaval:
    """The endless transactions of the writer, by its seed."""

    def __init__(self, chance: Random, altering: float) -> None:
        self._chance = chance
        self._altering = altering
        self._number = 0
        self._plain = ["sa", "sb", "rn0"]
        self._attached = {name: {0} for name in PARTITIONED}
        self._detached = {name: set[int]() for name in PARTITIONED}
        self._added: dict[str, int] = dict.fromkeys(PARTITIONED, 0)
        self._last = 0

    def next(self) -> Transaction:
        """Make the next transaction; many upturn a table."""
        chance = self._chance
        self._number += 1
        if chance.random() < self._altering:
            ways: list[Callable[[], list[str]]] = [self._swap, self._rename, self._rename_for_a_moment]
            ways += [self._make_anew, self._capture_again, self._exchange_columns, self._rename_key]
            ways += 3 * [self._attach, self._detach] + 2 * [self._empty, self._alter]
            statements = chance.choice(ways)()
        else:
            statements = [self._change() for _ in range(chance.choice((1, 2, 4)))]
        return Transaction(self._number, [Action(tuple(statements))], True, 0.0)  # noqa: FBT003

    def _id(self) -> str:
        return str(self._chance.randrange(KEYS))

    def _insert(self, table: str, *parts: int) -> str:
        rows = (
            ", ".join(
                (
                    self._id(),
                    str(self._chance.choice(parts or (0, 1))),
                    *(k.literal(self._chance) for k in KINDS.values()),
                )
            )
            for _ in range(self._chance.choice((1, 3, 8)))
        )
        values = ", ".join(f"({row})" for row in rows)
        return f"insert into {table} (id, part, {', '.join(KINDS)}) values {values} on conflict do nothing"

    def _change(self) -> str:
        """Change rows of a table, of a partitioned one also through its partitions."""
        chance = self._chance
        if chance.random() < 0.5:
            table = chance.choice(self._plain)
            return self._change_of(table, 0, 1)
        root = chance.choice(PARTITIONED)
        parts = sorted(self._attached[root])
        if chance.random() < 0.5:
            return self._change_of(root, *parts)
        part = chance.choice(parts)
        return self._change_of(f"{root}_{part}", part)

    def _change_of(self, table: str, *parts: int) -> str:
        chance = self._chance
        way = chance.random()
        if way < 0.5:
            return self._insert(table, *parts)
        if way < 0.7:
            name = chance.choice(list(KINDS))
            return f"update {table} set {name} = {KINDS[name].literal(chance)} where id % 7 = {chance.randrange(7)}"
        if way < 0.8:
            return rekey(table, self._id(), self._id())
        if way < 0.9:
            move = f"update {table} set part = {chance.choice(parts)} where id = {self._id()}"
            return f"do $$ begin {move}; exception when unique_violation then null; end $$"
        return f"delete from {table} where id in ({self._id()}, {self._id()})"

    def _empty(self) -> list[str]:
        root = self._chance.choice(PARTITIONED)
        leaf = f"{root}_{self._chance.choice(sorted(self._attached[root]))}"
        table = self._chance.choice((root, leaf, leaf, self._chance.choice(self._plain)))
        return [self._change(), f"truncate {table}", self._change()]

    def _attach(self) -> list[str]:
        """Attach a partition: one that was detached, or a new one that may have rows."""
        root = self._chance.choice(PARTITIONED)
        free = sorted(set(range(PARTS)) - self._attached[root])
        if not free:
            return self._detach()
        part = self._chance.choice(free)
        name, values = f"{root}_{part}", f"for values in ({part})"
        made = part in self._detached[root]
        self._detached[root].discard(part)
        self._attached[root].add(part)
        if not made and self._chance.random() < 0.5:
            return [f"create table {name} partition of {root} {values}", self._insert(root, part)]
        first = [] if made else [f"create table {name} (like {root} including all)"]
        return [
            *first,
            self._insert(name, part),
            f"alter table {root} attach partition {name} {values}",
            self._change_of(name, part),
        ]

    def _detach(self) -> list[str]:
        """Detach a partition, or drop it."""
        root = self._chance.choice(PARTITIONED)
        if len(self._attached[root]) == 1:
            return self._attach()
        part = self._chance.choice(sorted(self._attached[root]))
        self._attached[root].discard(part)
        first = self._change_of(f"{root}_{part}", part)
        if self._chance.random() < 0.5:
            return [first, f"drop table {root}_{part}"]
        self._detached[root].add(part)
        return [
            first,
            f"alter table {root} detach partition {root}_{part}",
            self._insert(f"{root}_{part}", part),
        ]

    def _alter(self) -> list[str]:
        """Add a column to a partitioned table, or drop it; what is detached would not fit any more, and goes."""
        root = self._chance.choice(PARTITIONED)
        drops = [f"drop table {root}_{part}" for part in sorted(self._detached[root])]
        self._detached[root].clear()
        if self._added[root]:
            change = f"drop column x{self._added[root]}"
            self._added[root] = 0
        else:
            self._last += 1
            self._added[root] = self._last
            change = f"add column x{self._last} {self._chance.choice(ADDED)}"
        return [*drops, f"alter table {root} {change}", self._change()]

    def _swap(self) -> list[str]:
        swap = (("sa", "aside"), ("sb", "sa"), ("aside", "sb"))
        steps = ((f"alter table {old} rename to {new}", self._insert(new)) for old, new in swap)
        return [statement for step in steps for statement in step]

    def _rename(self) -> list[str]:
        self._last += 1
        old = self._plain[2]
        self._plain[2] = f"rn{self._last}"
        return [
            self._insert(old),
            f"alter table {old} rename to {self._plain[2]}",
            self._insert(self._plain[2]),
        ]

    def _rename_for_a_moment(self) -> list[str]:
        table = self._chance.choice(self._plain)
        return [
            f"alter table {table} rename to aside",
            self._change_of("aside", 0, 1),
            f"alter table aside rename to {table}",
        ]

    def _make_anew(self) -> list[str]:
        table = self._chance.choice(self._plain)
        capture = f"select pgq.capture_table('{table}', '{LOG}')"
        return [f"drop table {table}", f"create table {table} {SHAPE}", capture, self._insert(table)]

    def _capture_again(self) -> list[str]:
        """Write past the log for a moment."""
        table = self._chance.choice(self._plain)
        given = f"('{table}', '{LOG}')"
        return [
            f"select pgq.release_table{given}",
            self._change_of(table, 0, 1),
            f"select pgq.capture_table{given}",
        ]

    def _exchange_columns(self) -> list[str]:
        table = self._chance.choice((*self._plain, *PARTITIONED))
        names = ("v to u", "w to v", "u to w")
        return [*(f"alter table {table} rename column {each}" for each in names), self._change()]

    def _rename_key(self) -> list[str]:
        """Rename a column of the key for a moment, and change rows meanwhile."""
        table = self._chance.choice(self._plain)
        change = f"update {table} set code = code + 1000 where code = {self._id()}"
        back = f"delete from {table} where code > 990"
        return [
            f"alter table {table} rename column id to code",
            change,
            back,
            f"alter table {table} rename column code to id",
        ]
