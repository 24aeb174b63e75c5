"""Values of every type, as SQL writes them, and the types that a column may be altered to without a failure.

Invariant: pure functions of the random numbers that they are given, so a seed repeats them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

SETUP: Final = """
create type mood as enum ('good', 'so so', 'bad "quoted"', 'żółty');
create domain price as numeric(10, 2) check (value is null or value <> 0.01);
create domain code as varchar(12);
create type pair as (a int, b text);
"""
ODD: Final = 0.004
"""Share of the values that a lake's type cannot hold: each makes its column text, and its table is copied anew."""

HUGE: Final = 0.002
"""Share of the texts that have a megabyte."""

TEXTS: Final = (
    *("", "NULL", "null", "a,b", 'q"\\', "{}", "it's", "a\tb\nc\r", "żółć 👍", "\x01\x7f", "a&b=c%20+d", " "),
    *("\\N", "\\x00ff", "\u2028", "t", "2026-11-24 01:02:03+05", "x" * 3000),
)


class Kind(NamedTuple):
    """A type, how its values are made, and what it may become."""

    type: str
    make: Callable[[Random], str]
    wider: tuple[str, ...] = ("text",)

    def literal(self, chance: Random) -> str:
        """Give a value as SQL, now and then NULL."""
        return "null" if chance.random() < 0.1 else self.make(chance)


def quoted(text: str) -> str:
    """Give a text as every session reads it, also with `standard_conforming_strings = off`."""
    plain = "'" + text.replace("'", "''") + "'"
    return "E" + plain.replace("\\", "\\\\") if "\\" in text else plain


def _of(*texts: str) -> Callable[[Random], str]:
    return lambda chance: quoted(chance.choice(texts))


def _or_odd(make: Callable[[Random], str], *odd: str) -> Callable[[Random], str]:
    return lambda chance: quoted(chance.choice(odd)) if chance.random() < ODD else make(chance)


def _whole(bits: int) -> Callable[[Random], str]:
    edge = 2 ** (bits - 1)

    def make(chance: Random) -> str:
        return quoted(
            str(chance.choice((-edge, edge - 1, 0, chance.randrange(-edge, edge), chance.randint(-9, 9))))
        )

    return make


def _decimal(digits: int, scale: int) -> Callable[[Random], str]:
    def make(chance: Random) -> str:
        whole = chance.randrange(10 ** chance.randint(1, digits))
        return quoted(f"{chance.choice(('', '-'))}{whole // 10**scale}.{whole % 10**scale:0{scale}d}")

    return make


def _float(chance: Random) -> str:
    special = ("NaN", "Infinity", "-Infinity", "-0", "0.1", "1e-30", "3.4e37")
    return quoted(chance.choice((*special, repr(chance.uniform(-1e6, 1e6)))))


def _double(chance: Random) -> str:
    return quoted("5e-324") if chance.random() < 0.1 else _float(chance)


def _text(chance: Random) -> str:
    if chance.random() < HUGE:
        return f"repeat('ż{chance.randint(0, 9)}', 350000)"
    return quoted(chance.choice(TEXTS) + chance.choice(TEXTS)[: chance.randint(0, 9)])


def _short(most: int) -> Callable[[Random], str]:
    return lambda chance: quoted((chance.choice(TEXTS) + chance.choice(TEXTS))[:most])


def _date(chance: Random) -> str:
    return quoted(
        f"{chance.choice((1, 1582, 1899, 1970, 2026, 9999)):04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    )


def _moment(chance: Random) -> str:
    time = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"
    return quoted(f"{_day(chance)} {time}.{chance.choice((0, 1, 500000, 999999)):06}")


def _zoned(chance: Random) -> str:
    return _moment(chance)[:-1] + chance.choice(("+00", "+05:30", "-08")) + "'"


def _day(chance: Random, *extreme: int) -> str:
    year = chance.choice((*extreme, 2, 1500, 1883, 1969, 2026, 9998))
    return f"{year:04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"


def _bytes(chance: Random) -> str:
    return quoted("\\x" + chance.randbytes(chance.choice((0, 1, 7, 300))).hex())


def _uuid(chance: Random) -> str:
    return quoted(chance.randbytes(16).hex())


def _json(chance: Random) -> str:
    values: tuple[object, ...] = (
        1,
        1.50,
        None,
        True,
        "ż\"'",
        [],
        {"a": [1, {"b": None}]},
        chance.randrange(10**18),
        1e300,
    )
    return quoted(
        json.dumps({chance.choice(("a", "b ", "")): chance.choice(values), "n": chance.randint(0, 9)})
    )


def _list(make: Callable[[Random], str], type_: str, odd: str) -> Callable[[Random], str]:
    def made(chance: Random) -> str:
        if chance.random() < ODD:
            return odd
        elements = [make(chance) if chance.random() < 0.9 else "null" for _ in range(chance.randint(0, 3))]
        return f"array[{', '.join(elements)}]::{type_}[]"

    return made


def _int_range(chance: Random) -> str:
    low = chance.randint(-99, 99)
    return quoted(chance.choice(("empty", f"[{low},{low + 5})", f"({low},)", f"(,{low}]")))


def _time_range(chance: Random) -> str:
    low, high = sorted(f'"{_day(chance)} 01:02:03.5+00"' for _ in range(2))
    return quoted(f"{chance.choice('[(')}{low},{chance.choice((high, ''))})")


_BOOLEAN: Final = _of("t", "f")
_MOOD: Final = _of("good", "so so", 'bad "quoted"', "żółty")

KINDS: Final = tuple(
    Kind(*fields)
    for fields in (
        ("boolean", _BOOLEAN),
        ("smallint", _whole(16), ("int", "bigint", "numeric(12,2)", "double precision")),
        ("int", _whole(32), ("bigint", "numeric", "text")),
        ("bigint", _whole(64), ("numeric(30,4)", "numeric")),
        ("real", _float, ("double precision",)),
        ("double precision", _double),
        ("numeric(12,2)", _or_odd(_decimal(12, 2), "NaN"), ("numeric(20,4)", "numeric", "numeric(38,10)")),
        ("numeric(38,10)", _or_odd(_decimal(38, 10), "NaN"), ("numeric",)),
        (
            "numeric",
            _of("1.50", "-0.000000000000000000000000000000000000000000001", "NaN", "Infinity", "1e40", "0"),
        ),
        (
            "date",
            _or_odd(_date, "infinity", "-infinity"),
            ("timestamp", "text"),
        ),
        ("timestamp", _or_odd(_moment, "infinity"), ("timestamptz", "text")),
        ("timestamptz", _or_odd(_zoned, "-infinity")),
        ("time", _of("00:00:00", "23:59:59.999999", "07:00:00.5")),
        ("interval", _of("1 day 02:03:04", "-3 mons", "00:00:00.000001", "1 year -5 days")),
        ("text", _text, ()),
        ("varchar(20)", _short(20), ("varchar(40)", "text")),
        ("char(6)", _short(6), ("char(9)",)),
        ("code", _short(12), ("varchar(12)",)),
        ("price", _of("1.50", "99999999.99", "-0.50"), ("numeric(12,4)",)),
        ("mood", _MOOD),
        ("uuid", _uuid),
        ("bytea", _bytes, ()),
        ("jsonb", _json, ("json",)),
        ("json", _json, ("text",)),
        ("int4range", _int_range),
        ("tstzrange", _time_range),
        ("numrange", _of("[1.5,2.50)", "(,3]", "empty")),
        ("int4multirange", _of("{}", "{[1,3),[7,9)}")),
        ("inet", _of("10.0.0.1/8", "::1", "192.168.0.7")),
        ("pair", _of("(1,x)", '(,"a,b")', "(7,)")),
        ("bit varying(9)", _of("101", "", "000000001")),
        ("int[]", _list(_whole(32), "int", "'{{1,2},{3,4}}'"), ("bigint[]",)),
        ("bigint[]", _list(_whole(64), "bigint", "'[2:3]={1,2}'")),
        ("boolean[]", _list(_BOOLEAN, "boolean", "'{{t}}'")),
        ("double precision[]", _list(_double, "double precision", "'{{1.5}}'")),
        ("numeric(9,2)[]", _list(_decimal(9, 2), "numeric(9,2)", "'{NaN}'"), ("numeric(12,3)[]",)),
        ("numeric[]", _list(_of("1.50", "NaN", "1e40"), "numeric", "'{{1}}'")),
        ("text[]", _list(_text, "text", "'{{a},{b}}'")),
        ("mood[]", _list(_MOOD, "mood", "'{{good}}'")),
        ("uuid[]", _list(_uuid, "uuid", "'[0:0]={00000000-0000-0000-0000-00000000000a}'")),
        ("bytea[]", _list(_bytes, "bytea", quoted('{{"\\\\x00"}}'))),
        ("date[]", _list(_date, "date", "'{infinity}'")),
        ("timestamptz[]", _list(_zoned, "timestamptz", "'{infinity}'")),
        ("jsonb[]", _list(_json, "jsonb", "'{{null}}'")),
        ("int4range[]", _list(_int_range, "int4range", "'{{empty}}'")),
    )
)
LATER: Final = (
    Kind("numeric(12,4)", _decimal(12, 4), ("numeric",)),
    Kind("numeric(20,4)", _decimal(20, 4), ("numeric",)),
    Kind("numeric(30,4)", _decimal(30, 4), ("numeric",)),
    Kind("varchar(12)", _short(12)),
    Kind("varchar(40)", _short(40)),
    Kind("char(9)", _short(9)),
    Kind("numeric(12,3)[]", _list(_decimal(12, 3), "numeric(12,3)", "'{NaN}'")),
)
BY_TYPE: Final = {kind.type: kind for kind in (*KINDS, *LATER)}
"""Values of whatever type a column has, at first or after it was altered."""
