"""The values of one column that conditions leave: a range, a list, a beginning, null or not.

Conditions are joined by AND, so those on one column come to one `Values`. Its tests mean the same in PostgreSQL, in
Spark and here: texts have no order, as that depends on the collation.

Invariant: pure functions.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Values(NamedTuple):
    """What a column may hold; None: not limited by this. No value at all is an empty `one_of`."""

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
