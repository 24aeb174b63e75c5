"""The option `where`: conditions on a source's columns, joined by AND, as in SQL; and the values that they leave.

Spark has filters pushed into Python sources, too, but up to 4.3 it keeps the filtered reader with the loaded frame
instead of with the query: a frame that is filtered twice gives the rows of one filter for both. So the conditions are
an option, which also streams have.

Conditions are joined by AND, so those on one column come to one `Values`. Its tests mean the same in PostgreSQL, in
Spark and here: texts have no order, as that depends on the collation.

Invariant: pure functions. What cannot be read is refused, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.messages.timestamps import with_zone
from rowbus.spark.options import Option, Parser


class Values(NamedTuple):
    """The values that a column may hold; None: not limited by this. No value at all is an empty `one_of`."""

    least: Any = None
    most: Any = None
    one_of: frozenset[Any] | None = None
    prefix: str | None = None
    null: bool | None = None

    @property
    def lowest(self) -> Any:  # noqa: ANN401 - of the column's type
        """The least value, if there is one."""
        return _chosen(max, self.least, min(self.one_of) if self.one_of else None)

    @property
    def highest(self) -> Any:  # noqa: ANN401 - as above
        """The greatest value, if there is one."""
        return _chosen(min, self.most, max(self.one_of) if self.one_of else None)

    def both(self, other: Values) -> Values:
        """Return the values that both allow."""
        prefixes = sorted((self.prefix or "", other.prefix or ""), key=len)
        nulls = {self.null, other.null} - {None}
        one_of = _chosen(_common, self.one_of, other.one_of)
        contradict = len(nulls) > 1 or not prefixes[1].startswith(prefixes[0])
        return Values(
            _chosen(max, self.least, other.least),
            _chosen(min, self.most, other.most),
            frozenset() if contradict else one_of,
            prefixes[1] or None,
            next(iter(nulls), None),
        )

    def allow(self, value: Any) -> bool:  # noqa: ANN401 - as above
        """Say whether the column may hold a value; None is NULL."""
        if value is None:
            return self.null is not False and self.one_of is None
        return (
            self.null is not True
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.one_of is None or value in self.one_of)
            and (self.prefix is None or value.startswith(self.prefix))
        )


ANY: Final = Values()
NOTHING: Final = Values(one_of=frozenset())


def _common(one: frozenset[Any], other: frozenset[Any]) -> frozenset[Any]:
    return one & other


def _chosen(choose: Any, one: Any, other: Any) -> Any:  # noqa: ANN401 - of two values of any type
    return choose(one, other) if one is not None and other is not None else one if other is None else other


_LARGEST: Final = 2**63
_LITERAL: Final = r"(?:[+-]?[0-9]+|'(?:[^'\0]|'')*')"
_CONDITION: Final = re.compile(
    rf"""\s* (?P<column>\w+)
    (?: \s* (?P<sign><=|>=|=|<|>) \s* (?P<value>{_LITERAL})
      | \s+ in \s* \( \s* (?P<list>{_LITERAL}(?:\s*,\s*{_LITERAL})*) \s* \)
      | \s+ between \s+ (?P<least>{_LITERAL}) \s+ and \s+ (?P<most>{_LITERAL})
      | \s+ like \s+ '(?P<prefix>(?:[^'%_\\\0]|'')*)%'
      | \s+ is \s+ (?P<not>not\s+)? (?P<null>null)
    ) \s* (?:and\b|$)""",
    re.VERBOSE | re.IGNORECASE,
)
_LITERALS: Final = re.compile(_LITERAL)


class Kind(NamedTuple):
    """The written form of a column's values, and the distance between two neighbours, if they have an order."""

    read: Callable[[str], Any]
    step: Any


def _number(literal: str) -> int:
    number = int(literal)
    if not -_LARGEST <= number < _LARGEST:
        raise ValueError(literal)
    return number


def _moment(literal: str) -> datetime:
    moment = datetime.fromisoformat(_text(literal))
    return with_zone(moment).astimezone(UTC)


def _text(literal: str) -> str:
    if not literal.startswith("'"):
        raise ValueError(literal)
    return literal[1:-1].replace("''", "'")


NUMBER: Final = Kind(_number, 1)
MOMENT: Final = Kind(_moment, timedelta(microseconds=1))
TEXT: Final = Kind(_text, None)


def where_option(kinds: Mapping[str, Kind], limits: str = "") -> Option:
    """Declare the option `where` of a source that has conditions on these columns; its value is `Conditions`."""
    meaning = (
        f"{limits}read only rows for which these conditions on {', '.join(kinds)} are true, joined by `and`: `=`, "
        "`<`, `<=`, `>`, `>=`, `between 1 and 9`, `in ('a', 'b')`, `like 'a%'`, `is null`, `is not null`; a time "
        "without a zone is UTC"
    )

    def read(given: str) -> Conditions:
        return parse_conditions(given, kinds)

    return Option("where", Parser("conditions", read), NO_CONDITIONS, meaning)


@dataclass(frozen=True)
class Conditions:
    """The values that each column may have; a column that is not here may have any."""

    values: Mapping[str, Values]
    text: str = ""

    def __str__(self) -> str:
        """Return the conditions as they were given."""
        return self.text

    def of(self, column: str) -> Values:
        """Return what a column may hold."""
        return self.values.get(column, ANY)

    def only(self, column: str, value: Any) -> Conditions:  # noqa: ANN401 - of the column's type
        """Return these conditions, and that a column has one value."""
        values = self.of(column).both(Values(one_of=frozenset([value]), null=False))
        return Conditions({**self.values, column: values}, self.text)


NO_CONDITIONS: Final = Conditions({})


def parse_conditions(text: str, kinds: Mapping[str, Kind]) -> Conditions:
    """Read conditions on columns of these kinds; raises ConfigurationError, which names the part it cannot read."""
    values: dict[str, Values] = {}
    place = 0
    while place < len(text) or not values:
        found = _CONDITION.match(text, place)
        if found is None:
            raise _unreadable(text[place:])
        column = found["column"].lower()
        values[column] = values.get(column, ANY).both(_values(found, column, kinds))
        place = found.end()
    if re.search(r"and\s*$", text, re.IGNORECASE):
        raise _unreadable(text)
    return Conditions(values, text)


def _values(found: re.Match[str], column: str, kinds: Mapping[str, Kind]) -> Values:
    if column not in kinds:
        raise ConfigurationError(
            f"Option 'where' has a condition on {found['column']!r}: the database looks at {', '.join(kinds)}. Filter "
            "by other columns in Spark.",
            option="where",
        )
    try:
        return _limits(found, kinds[column])
    except (ValueError, OverflowError) as error:
        raise _unreadable(found[0]) from error


def _limits(found: re.Match[str], kind: Kind) -> Values:
    if found["null"]:
        return Values(null=not found["not"])
    if found["list"]:
        return Values(one_of=frozenset(map(kind.read, _LITERALS.findall(found["list"]))), null=False)
    if found["sign"] == "=":
        return Values(one_of=frozenset([kind.read(found["value"])]), null=False)
    if found["prefix"] is not None:
        if kind is not TEXT:
            raise ValueError(found[0])
        return Values(prefix=_text(f"'{found['prefix']}'") or None, null=False)
    if kind.step is None:
        raise ValueError(found[0])
    if found["sign"]:
        return _half(found["sign"], kind.read(found["value"]), kind.step)
    return Values(kind.read(found["least"]), kind.read(found["most"]), null=False)


def _half(sign: str, value: Any, step: Any) -> Values:  # noqa: ANN401 - of the column's type
    """Return what is below or above a value."""
    if sign.startswith("<"):
        return Values(most=value if sign == "<=" else value - step, null=False)
    return Values(least=value if sign == ">=" else value + step, null=False)


def _unreadable(part: str) -> ConfigurationError:
    return ConfigurationError(
        f"Option 'where' cannot be read at {part.strip()!r}: there are conditions such as \"ev_type = 'a'\", "
        '"ev_id between 1 and 9" or "ev_type like \'a%\'", joined by `and`; texts are equal, or begin alike, '
        "but have no order.",
        option="where",
    )
