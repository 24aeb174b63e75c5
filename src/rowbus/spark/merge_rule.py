"""The rule of a merge by key: which rows are the same, which is the newest, which ones delete.

Invariant: values only; every target reads the same options in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class MergeRule(NamedTuple):
    """The rule of a merge: `keys` are columns of the target, the others columns of the data frame."""

    keys: tuple[str, ...]
    sequence: str | None
    """The column that says which row of a key is the newest; None: a key may come once in a batch."""

    delete: str | None
    """The column that says whether a row deletes: a boolean, or one of `delete_values`."""

    delete_values: tuple[str, ...] | None


def merge_rule(options: Mapping[str, Any], columns: Collection[str]) -> MergeRule:
    """Read `mergeKeys`, `sequenceBy` and `deleteWhen`; raises ConfigurationError for what cannot be."""
    delete, values = _deletion(options["deleteWhen"])
    rule = MergeRule(options["mergeKeys"], options["sequenceBy"], delete, values)
    if len({*rule.keys}) < len(rule.keys):
        raise ConfigurationError("Each of the keys is named once.", option="mergeKeys")
    wanted = [*rule.keys, *filter(None, (rule.sequence, rule.delete))]
    if missing := [name for name in wanted if name not in columns]:
        raise ConfigurationError(
            f"The data frame has no column {', '.join(missing)}, which the options name."
        )
    return rule


def _deletion(given: str | None) -> tuple[str | None, tuple[str, ...] | None]:
    """Read `column` or `column=value|value`."""
    if given is None:
        return None, None
    column, equals, values = given.partition("=")
    return column.strip(), tuple(value.strip() for value in values.split("|")) if equals else None
