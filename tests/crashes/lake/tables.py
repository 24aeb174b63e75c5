"""Tables, and random statements on them: what their owner knows of them decides what it may say next.

A table has columns that stay (the key `id`, `part`, and two more), which every writer uses, and columns that its owner
alone adds, renames, drops and alters. So each writer's statements follow from its seed, whatever the others do.

Invariant: no statement fails but those that are meant to, which are in savepoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from tests.crashes.lake.values import BY_TYPE, KINDS, Kind, quoted

LOG: Final = "changes"
KEYS: Final = 60
"""Different keys of a table, few, so that they come again."""

KEY_KINDS: Final[dict[str, Callable[[int], str]]] = {
    "int": str,
    "text": lambda number: quoted(f"k '{number}' ż"),
    "uuid": lambda number: quoted(f"00000000-0000-0000-0000-{number:012}"),
    "timestamptz": lambda number: quoted(f"2026-11-24 00:00:00.{number:06}+05"),
    "numeric(12,3)": lambda number: f"{number}.125",
    "bigint": lambda number: str(2**60 + number),
    "date": lambda number: f"date '2026-01-01' + {number}",
    "bytea": lambda number: quoted(f"\\x00{number:04x}"),
    "numeric": lambda number: f"{number}e20",
    "double precision": lambda number: quoted("NaN" if not number else f"{number}.5"),
    "int4range": lambda number: quoted(f"[{number},{number + 3})"),
}
CAPTURES: Final = (("json", ()), ("json", ("backup",)), ("url", ()), ("url", ("backup",)))
MOST_COLUMNS: Final = 18


class Column(NamedTuple):
    """A column, by its name and kind; one with an expression is made from the others."""

    name: str
    kind: Kind
    generated: bool = False


@dataclass
class Table:
    """A table as its owner knows it."""

    name: str
    key_type: str
    fixed: list[Column]
    changing: list[Column]
    format: str = "json"
    arguments: Sequence[str] = ()
    key: list[str] = field(default_factory=lambda: ["id"])
    numbered: int = 0

    @property
    def appended(self) -> bool:
        """Whether rows are only ever added: the table has no key."""
        return not self.key

    def create(self) -> str:
        columns = [f"id {self.key_type} not null", "part int not null default 0"]
        columns += [f"{name} {kind.type}" for name, kind, _ in (*self.fixed, *self.changing)]
        return f"create table {self.name} ({', '.join(columns)}{', primary key (id)' if self.key else ''})"

    def id(self, chance: Random) -> str:
        return KEY_KINDS[self.key_type](chance.randrange(KEYS))

    def ids(self, chance: Random) -> str:
        """Give a condition that a few rows meet, or one."""
        some = [self.id(chance) for _ in range(chance.choice((1, 1, 1, 2, 8)))]
        return f"id in ({', '.join(some)})"

    def new_name(self) -> str:
        self.numbered += 1
        return f'"c {self.numbered}"' if self.numbered % 3 else f"c{self.numbered}"


def make_tables(chance: Random, count: int) -> list[Table]:
    """Make tables that have, together, columns of every kind; the last has no key and is only added to."""
    kinds = list(KINDS)
    chance.shuffle(kinds)
    while len(kinds) < 4 * count:
        kinds += chance.sample(KINDS, len(KINDS))
    tables = []
    for number, key_type in zip(range(count), _repeated(list(KEY_KINDS)), strict=False):
        columns = [Column(f"v{place}", kind) for place, kind in enumerate(kinds[number::count])]
        form, arguments = CAPTURES[number % len(CAPTURES)]
        tables.append(Table(f"t{number}", key_type, columns[:2], columns[2:], form, arguments))
    tables[-1].key, tables[-1].format, tables[-1].arguments = [], "json", ("insert-only",)
    return tables


def _repeated(things: Sequence[str]) -> Iterator[str]:
    while True:
        yield from things


class Action(NamedTuple):
    """Statements of one purpose; those that are to fail are undone by a savepoint."""

    statements: tuple[str, ...]
    fails: bool = False


def row_change(table: Table, chance: Random, columns: Sequence[Column]) -> Action:
    """Change rows, by columns that the writer knows of."""
    if table.appended:
        return Action((insert(table, chance, columns),))
    return chance.choices(
        (_insert, _update, _delete, _move, _rekey, _replace, _refused, _empty), (6, 6, 2, 2, 2, 2, 0.3, 0.15)
    )[0](table, chance, columns)


def insert(table: Table, chance: Random, columns: Sequence[Column]) -> str:
    """Insert a few rows; those whose keys are there already are left out."""
    known = [column for column in columns if not column.generated]
    rows = [
        f"({', '.join((table.id(chance), str(chance.randint(0, 2)), *(c.kind.literal(chance) for c in known)))})"
        for _ in range(chance.choice((1, 1, 2, 5)))
    ]
    names = ", ".join(("id", "part", *(column.name for column in known)))
    rest = "" if table.appended else " on conflict do nothing"
    return f"insert into {table.name} ({names}) values {', '.join(rows)}{rest}"


def _insert(table: Table, chance: Random, columns: Sequence[Column]) -> Action:
    return Action((insert(table, chance, columns),))


def _update(table: Table, chance: Random, columns: Sequence[Column]) -> Action:
    known = [column for column in columns if not column.generated]
    some = chance.sample(known, chance.randint(1, len(known)))
    to = ", ".join(f"{column.name} = {column.kind.literal(chance)}" for column in some)
    where = f" where {table.ids(chance)}" if chance.random() < 0.95 else ""
    return Action((f"update {table.name} set {to}{where}",))


def _delete(table: Table, chance: Random, _columns: Sequence[Column]) -> Action:
    return Action((f"delete from {table.name} where {table.ids(chance)}",))


def _move(table: Table, chance: Random, _columns: Sequence[Column]) -> Action:
    """Change a row's key by a deletion and an insertion, unless the new one is there."""
    old, new = table.id(chance), table.id(chance)
    kept = ", ".join(("id", "part", *(column.name for column in table.fixed)))
    return Action(
        (
            f"create temporary table moved on commit drop as select * from {table.name} where id = {old}",
            f"update moved set id = {new}",
            f"delete from {table.name} where id = {old}",
            f"insert into {table.name} ({kept}) select {kept} from moved on conflict do nothing",
            "drop table moved",
        )
    )


def _rekey(table: Table, chance: Random, _columns: Sequence[Column]) -> Action:
    """Change a row's key in place, unless the new one is there."""
    return Action((rekey(table.name, table.id(chance), table.id(chance)),))


def rekey(table: str, old: str, new: str) -> str:
    """Give the statement that changes a key; one that is taken changes nothing."""
    change = f"update {table} set id = {new} where id = {old}"
    return f"do $$ begin {change}; exception when unique_violation then null; end $$"


def _replace(table: Table, chance: Random, columns: Sequence[Column]) -> Action:
    """Delete rows and insert them again, in one transaction."""
    return Action((f"delete from {table.name} where {table.ids(chance)}", insert(table, chance, columns)))


def _refused(table: Table, chance: Random, columns: Sequence[Column]) -> Action:
    """Change rows, and then keys in place; all of it is undone."""
    first = insert(table, chance, columns)
    key = f"do $$ begin update {table.name} set id = {table.id(chance)}; raise 'undone'; end $$"
    return Action((first, key), fails=True)


def _empty(table: Table, chance: Random, columns: Sequence[Column]) -> Action:
    truncate = f"truncate {table.name}"
    return Action((truncate, insert(table, chance, columns)) if chance.random() < 0.7 else (truncate,))


def alteration(table: Table, chance: Random) -> Action:
    """Alter a table, and remember how it is then."""
    ways: list[tuple[Callable[[Table, Random], Action], float]] = [(_add, 3), (_constrain, 0.5)]
    if len(table.changing) > 1:
        ways += [(_rename, 2), (_drop, 1.5), (_widen, 3)]
    if len(table.changing) > MOST_COLUMNS:
        ways += [(_drop, 10)]
    if table.key:
        ways.append((_other_key, 1))
    return chance.choices([way for way, _ in ways], [weight for _, weight in ways])[0](table, chance)


def _add(table: Table, chance: Random) -> Action:
    name, kind = table.new_name(), chance.choice(KINDS)
    column, ending = Column(name, kind), ""
    how = chance.choices(("empty", "default", "generated"), (5, 4, 1))[0]
    if how == "default":
        ending = f" default {kind.make(chance)}"
    elif how == "generated":
        column, ending = (
            Column(name, BY_TYPE["bigint"], generated=True),
            " generated always as (part * 3) stored",
        )
    table.changing.append(column)
    return Action((f"alter table {table.name} add column {name} {column.kind.type}{ending}",))


def _constrain(table: Table, chance: Random) -> Action:
    """Alter something that changes no value."""
    column = chance.choice(table.fixed).name
    return Action(
        (f"alter table {table.name} alter column {column} set statistics {chance.randint(10, 90)}",)
    )


def _rename(table: Table, chance: Random) -> Action:
    place = chance.randrange(len(table.changing))
    old, name = table.changing[place], table.new_name()
    table.changing[place] = old._replace(name=name)
    return Action((f"alter table {table.name} rename column {old.name} to {name}",))


def _drop(table: Table, chance: Random) -> Action:
    column = table.changing.pop(chance.randrange(len(table.changing)))
    return Action((f"alter table {table.name} drop column {column.name}",))


def _widen(table: Table, chance: Random) -> Action:
    place = chance.randrange(len(table.changing))
    column = table.changing[place]
    if column.generated or not column.kind.wider:
        return _add(table, chance)
    type_ = chance.choice(column.kind.wider)
    table.changing[place] = column._replace(kind=BY_TYPE[type_])
    change = f"alter column {column.name} drop default, alter column {column.name} type {type_}"
    return Action((f"alter table {table.name} {change} using {column.name}::{type_}",))


def _other_key(table: Table, chance: Random) -> Action:
    """Make another primary key, with `part` or without, in the midst of changes of it."""
    table.key = ["id"] if len(table.key) > 1 else ["id", "part"]
    longer = f"update {table.name} set part = part + 1 where {table.ids(chance)}"
    shorter = (
        f"delete from {table.name} as old using {table.name} as other"
        " where old.id = other.id and old.part > other.part"
    )
    change = f"drop constraint {table.name}_pkey, add primary key ({', '.join(table.key)})"
    return Action(
        (
            f"lock table {table.name} in access exclusive mode",
            longer if len(table.key) > 1 else shorter,
            f"alter table {table.name} {change}",
        )
    )


class Transaction(NamedTuple):
    """A transaction of a writer."""

    number: int
    actions: list[Action]
    commits: bool
    pause: float
    """Seconds for which it stays open in the midst of it."""


class Statements:
    """The endless transactions of one writer, by its seed."""

    def __init__(
        self, chance: Random, owned: Sequence[Table], everything: Sequence[Table], altering: float
    ) -> None:
        self._chance = chance
        self._owned = owned
        self._all = everything
        self._altering = altering
        self._number = 0

    def next(self) -> Transaction:
        """Make the next transaction; one that alters a table does nothing else, and commits."""
        chance = self._chance
        self._number += 1
        if self._owned and chance.random() < self._altering:
            return Transaction(self._number, [alteration(chance.choice(self._owned), chance)], True, 0.0)  # noqa: FBT003
        actions = [self._change() for _ in range(chance.choice((1, 1, 2, 3, 6)))]
        pause = chance.uniform(0.1, 1.5) if chance.random() < 0.1 else 0.0
        return Transaction(self._number, actions, chance.random() < 0.85, pause)

    def _change(self) -> Action:
        chance = self._chance
        if self._owned and chance.random() < 0.5:
            table = chance.choice(self._owned)
            return row_change(table, chance, [*table.fixed, *table.changing])
        table = chance.choice(self._all)
        return row_change(table, chance, table.fixed)
